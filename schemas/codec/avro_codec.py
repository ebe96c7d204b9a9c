"""Avro bodies by fastavro, the reference codec: others must agree with it byte for byte.

fastavro reads what it is given: it stops short of the end without a word, widens ``int`` to 64 bits and folds
longer varints. So every decode demands that all bytes were used, and every value, on both ways, is held to the
checks below, which are derived from the schema. Nothing in our schemas can expand: no recursive type, no array
of nothing (``schemas/rules.py`` and ``shape.py`` refuse both), so what a body can make grow is bounded by its own
length. Tolerated, since the value is the same: counts written as negative block counts, over-long varints, any
non-zero byte for true, and a union branch counted from the end. What we write is always the canonical form.

Versions meet here, not in fastavro, which reads past the end of a field it is told to skip: a body is read with
its writer's schema in full, then fields are dropped and defaults filled in.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any, assert_never

from fastavro import parse_schema, schemaless_reader, schemaless_writer

from schemas.codec.plan import Coded, Decode, Encode, Limits
from schemas.codec.shape import INT_MAX, LONG_MAX, Array, Nullable, Plain, Record, Shape
from schemas.errors import InvalidValue, TrailingBytes, Truncated

Check = Callable[[Any], Any]
"""Takes a value, gives it as the other side holds it; raises InvalidValue."""


def encoder(coded: Coded, limits: Limits | None) -> Encode:
    """What writes a value of ``coded``, in the version that is written."""
    schema = _parsed(coded.writers[coded.writes])
    datum_of = _Checks(coded, limits, reading=False).of(coded.name, coded.reader)

    def encode(value: Any, prefix: bytes) -> bytes:
        out = BytesIO()
        out.write(prefix)
        schemaless_writer(out, schema, datum_of(value))
        return out.getvalue()

    return encode


def decoder(coded: Coded, version: int, limits: Limits | None) -> Decode:
    """What reads a body of ``coded`` that was written in ``version``."""
    name, schema = coded.name, _parsed(coded.writers[version])
    assert coded.shapes[version]
    value_of = _Checks(coded, limits, reading=True).of(name, coded.reader)

    def decode(data: bytes, start: int) -> Any:
        stream = BytesIO(data)
        stream.seek(start)
        try:
            datum: Any = schemaless_reader(stream, schema, None)
        except (EOFError, IndexError) as exc:
            # IndexError: a union branch that does not exist, or a byte wanted where none is left.
            if stream.tell() < len(data):
                raise InvalidValue(f"{name} holds a union branch that does not exist") from exc
            raise Truncated(f"{name} ends inside a value") from exc
        except (ValueError, TypeError, OverflowError, MemoryError, LookupError) as exc:
            raise InvalidValue(f"{name}: {type(exc).__name__}") from exc
        left = len(data) - stream.tell()
        if left > 0:
            raise TrailingBytes(f"{left} bytes after {name}")
        return value_of(datum)

    return decode


def _parsed(text: str) -> Any:
    return parse_schema(json.loads(text), named_schemas={})


class _Checks:
    """Builds one check for each part of a shape. Reading turns fastavro's dictionaries and lists into our
    classes and tuples, writing turns them back; both hold values to the same limits."""

    def __init__(self, coded: Coded, limits: Limits | None, *, reading: bool) -> None:
        self._classes = coded.classes
        self._limits = limits
        self._reading = reading

    def of(self, name: str, shape: Shape) -> Check:
        """The check of what is called ``name``."""
        match shape:
            case Plain("string"):
                return _text(name, None if self._limits is None else self._limits.bytes_max(name))
            case Plain("int"):
                return _whole(name, INT_MAX)
            case Plain("long"):
                return _whole(name, LONG_MAX)
            case Plain("boolean"):
                return _instance(name, bool)
            case Plain():
                return _instance(name, bytes)
            case Nullable():
                inner = self.of(name, shape.inner)
                return lambda value: None if value is None else inner(value)
            case Array():
                limit = None if self._limits is None else self._limits.items_max
                return _several(name, self.of(name, shape.items), limit, tuple if self._reading else list)
            case Record():
                return self._record(name, shape)
            case _:
                assert_never(shape)

    def _record(self, name: str, shape: Record) -> Check:
        kind = self._classes[shape.name]
        fields = [(field, self.of(field.name, field.shape)) for field in shape.fields]
        if self._reading:
            checks = [(field.name, check, field.default) for field, check in fields]
            return lambda datum: kind(
                **{field: check(datum[field]) if field in datum else default for field, check, default in checks}
            )
        size = len(fields)
        is_tuple = issubclass(kind, tuple)

        def plain(value: Any) -> Any:
            if type(value) is not kind or (is_tuple and len(value) != size):
                raise InvalidValue(f"{name} is not a {kind.__name__}")
            return {field.name: check(getattr(value, field.name)) for field, check in fields}

        return plain


def _text(name: str, bytes_max: int | None) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, str):
            raise InvalidValue(f"{name} is not a text")
        try:
            size = len(value) if value.isascii() else len(value.encode())
        except UnicodeEncodeError:
            raise InvalidValue(f"{name} holds a lone surrogate") from None
        if bytes_max is not None:
            if size > bytes_max:
                raise InvalidValue(f"{name} is over {bytes_max} bytes")
            if "\0" in value:
                raise InvalidValue(f"{name} holds a NUL character")
        return value

    return check


def _whole(name: str, limit: int) -> Check:
    def check(value: Any) -> Any:
        if type(value) is not int or not -limit - 1 <= value <= limit:
            raise InvalidValue(f"{name} is not a whole number of {limit.bit_length() + 1} bits")
        return value

    return check


def _instance(name: str, kind: type) -> Check:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise InvalidValue(f"{name} is not {kind.__name__}")
        return value

    return check


def _several(name: str, inner: Check, limit: int | None, made: Callable[[Any], Any]) -> Check:
    def check(value: Any) -> Any:
        if type(value) not in (list, tuple) or (limit is not None and len(value) > limit):
            raise InvalidValue(f"{name} is not a list" + ("" if limit is None else f" of at most {limit}"))
        return made(inner(item) for item in value)

    return check
