"""The Cython source of a plan's codecs: one decoder for each version of each record, one encoder for each record.

The source is ``primitives.pyx`` and, for each record and array of the schemas, one function that reads or writes
it: straight code without names or dictionaries, nested as deep as the schema and no deeper. Classes are made
without their ``__init__``, which ``plan.kind_of`` allows only where that comes to the same.

The module has FINGERPRINT (the plan's), DECODERS (by record and version) and ENCODERS (by record).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import assert_never

from schemas.codec.plan import Coded, Limits, Plan, fields_of, kind_of, path_of
from schemas.codec.shape import Array, Nullable, Plain, Record, Shape, records_of

_HEAD = "# cython: language_level=3, binding=False, embedsignature=False\n# distutils: language = c\n"
_COMMENT = re.compile(r"^\s*#.*\n", re.MULTILINE)


def source_of(plan: Plan) -> str:
    """The source, the same for the same plan. Raises Unsupported when no codec can be made of it."""
    primitives = files("schemas.codec").joinpath("primitives.pyx").read_text(encoding="utf-8")
    lines = [_HEAD, primitives, f"FINGERPRINT = {plan.fingerprint!r}", ""]
    decoders, encoders = [], []
    for coded in plan.coded:
        lines += _classes(coded)
        for version in sorted(coded.shapes):
            lines += _Reading(coded, version, plan.limits).module()
            decoders.append(f"    ({coded.name!r}, {version}): decode_{coded.name}_v{version},")
        lines += _Writing(coded, plan.limits).module()
        encoders.append(f"    {coded.name!r}: encode_{coded.name},")
    lines += ["", "DECODERS = {", *decoders, "}", "ENCODERS = {", *encoders, "}", ""]
    return "\n".join(lines)


def _classes(coded: Coded) -> Iterator[str]:
    """The classes and the descriptors of their slots, as globals of the module."""
    for record in records_of(coded.reader):
        kind = coded.classes[record.name]
        name = _class(coded, record)
        yield f"cdef object {name} = class_of({path_of(kind)!r})"
        yield f"hold({name}, {kind_of(kind)!r}, {fields_of(kind)!r})"
        if kind_of(kind) == "slots":
            for field in record.fields:
                yield f"cdef object {name}_{field.name} = {name}.__dict__[{field.name!r}]"
    yield ""


def _class(coded: Coded, record: Record) -> str:
    return f"kind_{coded.name}_{record.name}"


class _Reading:
    """The functions that read one version of one record."""

    def __init__(self, coded: Coded, version: int, limits: Limits | None) -> None:
        self._coded = coded
        self._limits = limits
        self._prefix = f"{coded.name}_v{version}"
        self._shape = coded.shapes[version]
        self._readers = {record.name: record for record in records_of(coded.reader)}
        self._breaches: list[str] = []
        self._made: dict[str, list[str]] = {}

    def module(self) -> Iterator[str]:
        top = self._value(self._coded.name, self._shape, keep=True)
        for lines in self._made.values():
            yield from lines
        name, prefix = self._coded.name, self._prefix
        yield f"cdef tuple breaches_{prefix} = {tuple(self._breaches)!r}"
        yield from _function(
            f"def decode_{prefix}(bytes data not None, Py_ssize_t start):",
            [
                "cdef Reader reader",
                "cdef Reader *r = &reader",
                "cdef object value",
                "reader.data = <const unsigned char *>PyBytes_AS_STRING(data)",
                "reader.at = start",
                "reader.end = PyBytes_GET_SIZE(data)",
                "reader.breach = -1",
                f"reader.name = b{name!r}",
                "if start < 0 or start > reader.end:",
                "    truncated(r)",
                "try:",
                f"    value = {top}",
                "except UnicodeDecodeError as exc:",
                f"    raise InvalidValue({name + ': UnicodeDecodeError'!r}) from exc",
                f"return finished(r, {name!r}, value, breaches_{prefix})",
            ],
        )

    def _value(self, name: str, shape: Shape, *, keep: bool) -> str:
        """The expression that reads a value. ``keep`` is False for what the newest version dropped: it is read as
        strictly, but has no class and no limits any more."""
        match shape:
            case Plain("string"):
                if self._limits is None or not keep:
                    return "read_string(r)"
                limit = self._limits.bytes_max(name)
                code = self._breach(f"{name} is over {limit} bytes")
                self._breach(f"{name} holds a NUL character")
                return f"read_text(r, {limit}, {code})"
            case Plain("int"):
                return (
                    f"read_int(r, {self._breach(f'{name} is not a whole number of 32 bits')})"
                    if keep
                    else ("read_long(r)")
                )
            case Plain(kind):
                return f"read_{kind}(r)"
            case Nullable():
                return f"({self._value(name, shape.inner, keep=keep)} if read_branch(r) else None)"
            case Array():
                return self._array(name, shape, keep=keep)
            case Record():
                return self._record(shape, keep=keep)
            case _:
                assert_never(shape)

    def _breach(self, message: str) -> int:
        self._breaches.append(message)
        return len(self._breaches) - 1

    def _array(self, name: str, shape: Array, *, keep: bool) -> str:
        limit = self._limits.items_max if self._limits is not None and keep else None
        code = None if limit is None else self._breach(f"{name} is not a list of at most {limit}")
        item = self._value(name, shape.items, keep=keep)
        called = f"read_{self._prefix}_array_{len(self._made)}"
        append = ["items.append(item)"] if keep else []
        if limit is not None:
            # What is over the limit is read, so that the rest is, but not kept. That there are too many says more
            # than what is wrong with one of them.
            over = f"    r.breach = {code} if before < 0 else before"
            append = [f"if kept < {limit}:", "    items.append(item)", "else:", over, "kept += 1"]
        self._made[called] = [
            *_function(
                f"cdef object {called}(Reader *r):",
                [
                    "cdef long long count = read_count(r)",
                    *([] if limit is None else ["cdef Py_ssize_t kept = 0", "cdef int before = r.breach"]),
                    "cdef list items",
                    "cdef object item",
                    "if count == 0:",
                    "    return ()",
                    "items = []",
                    "while count > 0:",
                    "    while count > 0:",
                    f"        item = {item}",
                    *(f"        {line}" for line in append),
                    "        count -= 1",
                    "    count = read_count(r)",
                    "return tuple(items)",
                ],
            )
        ]
        return f"{called}(r)"

    def _record(self, shape: Record, *, keep: bool) -> str:
        kept = keep and shape.name in self._readers
        called = f"read_{self._prefix}_{shape.name}" if kept else f"drop_{self._prefix}_{shape.name}"
        if called not in self._made:
            self._made[called] = []  # holds the place; a schema is not recursive, so nobody asks meanwhile
            body = self._kept(shape) if kept else self._dropped(shape)
            del self._made[called]
            self._made[called] = list(_function(f"cdef object {called}(Reader *r):", body))
        return f"{called}(r)"

    def _dropped(self, shape: Record) -> list[str]:
        return [*(self._value(field.name, field.shape, keep=False) for field in shape.fields), "return None"]

    def _kept(self, shape: Record) -> list[str]:
        reader = self._readers[shape.name]
        wanted = {field.name for field in reader.fields}
        written = {field.name for field in shape.fields}
        read = [
            (
                field.name if field.name in wanted else None,
                self._value(field.name, field.shape, keep=field.name in wanted),
            )
            for field in shape.fields
        ]
        defaults = [(field.name, repr(field.default)) for field in reader.fields if field.name not in written]
        name = _class(self._coded, reader)
        if kind_of(self._coded.classes[reader.name]) == "slots":
            return [
                f"cdef object made = fresh({name})",
                *(
                    value if field is None else f"slot_set({name}_{field}, made, {value})"
                    for field, value in [*read, *defaults]
                ),
                "return made",
            ]
        fields = [field.name for field in reader.fields]
        return [
            "cdef object made",
            *(f"cdef object f_{field}" for field in fields),
            *(value if field is None else f"f_{field} = {value}" for field, value in [*read, *defaults]),
            f"made = fresh_tuple({name}, {len(fields)})",
            *(f"tuple_fill(made, {index}, f_{field})" for index, field in enumerate(fields)),
            "return made",
        ]


class _Writing:
    """The functions that write one record, in the version that is written."""

    def __init__(self, coded: Coded, limits: Limits | None) -> None:
        self._coded = coded
        self._limits = limits
        self._made: dict[str, list[str]] = {}

    def module(self) -> Iterator[str]:
        name = self._coded.name
        top = self._value(name, "value", self._coded.reader)
        for lines in self._made.values():
            yield from lines
        yield from _function(
            f"def encode_{name}(object value, bytes prefix not None):",
            [
                "cdef unsigned char[ON_STACK] stack",
                "cdef Writer writer",
                "cdef Writer *w = &writer",
                "writer.data = stack",
                "writer.heap = NULL",
                "writer.used = 0",
                "writer.room = ON_STACK",
                "try:",
                "    write_raw(w, PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix))",
                *(f"    {line}" for line in top),
                "    return PyBytes_FromStringAndSize(<const char *>writer.data, writer.used)",
                "finally:",
                "    PyMem_Free(writer.heap)",
            ],
        )

    def _value(self, name: str, value: str, shape: Shape) -> list[str]:
        """The statements that write ``value``, an expression without side effects."""
        match shape:
            case Plain("string") if self._limits is not None:
                return [f"write_text(w, {value}, {name!r}, {self._limits.bytes_max(name)})"]
            case Plain(kind):
                return [f"write_{kind}(w, {value}, {name!r})"]
            case Nullable():
                return [
                    f"part = {value}",
                    "if part is None:",
                    "    write_byte(w, 0)",
                    "else:",
                    "    write_byte(w, 2)",
                    *(f"    {line}" for line in self._value(name, "part", shape.inner)),
                ]
            case Array():
                return [f"{self._array(name, shape)}(w, {value})"]
            case Record():
                return [f"{self._record(shape)}(w, {value}, {name!r})"]
            case _:
                assert_never(shape)

    def _array(self, name: str, shape: Array) -> str:
        called = f"write_{self._coded.name}_array_{len(self._made)}"
        self._made[called] = []
        inner = self._value(name, "item", shape.items)
        del self._made[called]
        limit = -1 if self._limits is None else self._limits.items_max
        self._made[called] = list(
            _function(
                f"cdef int {called}(Writer *w, object value) except -1:",
                [
                    f"cdef tuple items = items_of(value, {name!r}, {limit})",
                    "cdef object item, part",
                    "if items:",
                    "    write_number(w, len(items))",
                    "    for item in items:",
                    *(f"        {line}" for line in inner),
                    "return write_byte(w, 0)",
                ],
            )
        )
        return called

    def _record(self, shape: Record) -> str:
        called = f"write_{self._coded.name}_{shape.name}"
        if called not in self._made:
            kind = self._coded.classes[shape.name]
            name = _class(self._coded, shape)
            slots = kind_of(kind) == "slots"
            wrong = f'    raise InvalidValue(f"{{name}} is not a {kind.__name__}")'
            body = [f"if type(value) is not {name}:", wrong]
            if not slots:
                body += [f"if len(<tuple>value) != {len(shape.fields)}:", wrong]
            body.append("cdef object part")
            for index, field in enumerate(shape.fields):
                value = f"slot_get({name}_{field.name}, value)" if slots else f"tuple_at(value, {index})"
                body += self._value(field.name, value, field.shape)
            body.append("return 0")
            self._made[called] = list(
                _function(f"cdef int {called}(Writer *w, object value, object name) except -1:", body)
            )
        return called


def _function(head: str, body: Iterable[str]) -> Iterator[str]:
    yield ""
    yield head
    for line in body:
        yield f"    {line}"
    yield ""
