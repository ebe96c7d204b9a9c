"""Avro bodies by fastavro, the reference codec: others must agree with it byte for byte.

fastavro reads what it is given: it stops short of the end without a word, widens ``int`` to 64 bits and folds
longer varints. So every decode demands that all bytes were used, and every value, on both ways, is held to the
checks below, which are derived from the schema. Nothing in our schemas can expand: no recursive type, no array
of nothing (``schemas/rules.py`` refuses both), so what a body can make grow is bounded by its own length.
Tolerated, since the value is the same: counts written as negative block counts, over-long varints, any non-zero
byte for true, and a union branch counted from the end. What we write is always the canonical form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any

from fastavro import schemaless_reader, schemaless_writer

from schemas.errors import InvalidValue, TrailingBytes, Truncated
from schemas.events import EVENTS, Conflict, Event, Pending, SourcePosition
from schemas.limits import ID_BYTES_MAX, NOTES_MAX, TEXT_BYTES_MAX
from schemas.versions import WriterSchema, newest

_TEXTS = frozenset({"error_text", "cache_key", "reason"})
_NESTED: dict[str, Callable[..., Any]] = {kind.__name__: kind for kind in (SourcePosition, Pending, Conflict)}
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1

Check = Callable[[Any], Any]
"""Takes a value as fastavro reads it, gives it as the dataclass holds it; raises InvalidValue."""


def encode_body(event: Event) -> bytes:
    """The Avro body of ``event`` in its newest schema. Raises InvalidValue, then nothing was written."""
    kind = type(event).__name__
    datum = {name: _plain(getattr(event, name)) for name, _ in _checks(kind)}
    for name, check in _checks(kind):
        check(datum[name])
    out = BytesIO()
    schemaless_writer(out, newest(kind).parsed, datum)
    return out.getvalue()


def decode_body(writer: WriterSchema, data: bytes, start: int) -> Event:
    """The event in ``data[start:]``, written with ``writer``. Raises an Undecodable."""
    stream = BytesIO(data)
    stream.seek(start)
    try:
        datum: Any = schemaless_reader(stream, writer.parsed, newest(writer.event).parsed)
    except (EOFError, IndexError) as exc:
        # IndexError: a union branch that does not exist, or a byte wanted where none is left.
        if stream.tell() < len(data):
            raise InvalidValue(f"{writer.event} holds a union branch or length that does not exist") from exc
        raise Truncated(f"{writer.event} ends inside a value") from exc
    except (ValueError, TypeError, OverflowError, MemoryError, LookupError) as exc:
        raise InvalidValue(f"{writer.event}: {type(exc).__name__}") from exc
    left = len(data) - stream.tell()
    if left:
        raise TrailingBytes(f"{left} bytes after {writer.event}")
    for name, check in _checks(writer.event):
        datum[name] = check(datum[name])
    return EVENTS[writer.event](**datum)


def _plain(value: Any) -> Any:
    """A nested dataclass as the mapping Avro wants; anything else as it is."""
    if type(value).__name__ in _NESTED:
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return value


@cache
def _checks(event: str) -> tuple[tuple[str, Check], ...]:
    """One check for each field of ``event``'s newest schema, in its order."""
    return _of_record(newest(event).parsed)


def _of_record(schema: Any) -> tuple[tuple[str, Check], ...]:
    return tuple((field["name"], _of_type(field["name"], field["type"])) for field in schema["fields"])


def _of_type(name: str, schema: Any) -> Check:
    match schema:
        case "string":
            return _text(name, TEXT_BYTES_MAX if name in _TEXTS else ID_BYTES_MAX)
        case "int":
            return _whole(name, _INT_MAX)
        case "long":
            return _whole(name, _LONG_MAX)
        case "boolean":
            return _instance(name, bool)
        case "bytes":
            return _instance(name, bytes)
        case ["null", other]:
            inner = _of_type(name, other)
            return lambda value: None if value is None else inner(value)
        case {"type": "array", "items": items}:
            return _several(name, _of_type(name, items))
        case {"type": "record"}:
            return _record(name, _NESTED[schema["name"].rpartition(".")[2]], _of_record(schema))
        case _:
            raise AssertionError(f"{name}: the codec has no check for {schema}")


def _text(name: str, bytes_max: int) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, str):
            raise InvalidValue(f"{name} is not a text")
        try:
            size = len(value) if value.isascii() else len(value.encode())
        except UnicodeEncodeError:
            raise InvalidValue(f"{name} holds a lone surrogate") from None
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


def _several(name: str, inner: Check) -> Check:
    def check(value: Any) -> Any:
        if type(value) not in (list, tuple) or len(value) > NOTES_MAX:
            raise InvalidValue(f"{name} is not a list of at most {NOTES_MAX}")
        return tuple(inner(item) for item in value)

    return check


def _record(name: str, kind: Callable[..., Any], checks: tuple[tuple[str, Check], ...]) -> Check:
    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise InvalidValue(f"{name} is not a {getattr(kind, '__name__', 'record')}")
        return kind(**{field: inner(value[field]) for field, inner in checks})

    return check
