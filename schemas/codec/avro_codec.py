"""Avro bodies by fastavro, the reference codec: others must agree with it byte for byte.

fastavro reads what it is given: it stops short of the end without a word and takes any length. So every
decode checks that all bytes were used, and every value is held to the limits below (fastavro issue tracker and
measurements: a 5-byte array of nulls yields millions of items; our schemas have no such type, a test walks them).
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

from fastavro import schemaless_reader, schemaless_writer

from schemas.errors import InvalidValue, TrailingBytes, Truncated
from schemas.events import EVENTS, Conflict, Event, Pending, SourcePosition
from schemas.limits import ID_BYTES_MAX, NOTES_MAX, TEXT_BYTES_MAX
from schemas.versions import WriterSchema, newest

_TEXTS = frozenset({"error_text", "cache_key", "reason"})
_NESTED: dict[str, Callable[..., Any]] = {"cause": SourcePosition, "pending": Pending, "conflict": Conflict}
_FIELDS = {name: tuple(kind.__dataclass_fields__) for name, kind in EVENTS.items()}


def encode_body(event: Event) -> bytes:
    """The Avro body of ``event`` in its newest schema. Raises InvalidValue, then nothing was written."""
    kind = type(event).__name__
    datum: dict[str, Any] = {}
    for name in _FIELDS[kind]:
        value = getattr(event, name)
        _check(name, value)
        if name in _NESTED and value is not None:
            value = {field: getattr(value, field) for field in value.__dataclass_fields__}
        datum[name] = value
    out = BytesIO()
    try:
        schemaless_writer(out, newest(kind).parsed, datum)
    except (ValueError, TypeError, OverflowError, AttributeError, UnicodeEncodeError) as exc:
        raise InvalidValue(f"{kind} does not fit its schema: {exc}") from exc
    return out.getvalue()


def decode_body(writer: WriterSchema, data: bytes, start: int) -> Event:
    """The event in ``data[start:]``, written with ``writer``. Raises an Undecodable."""
    stream = BytesIO(data)
    stream.seek(start)
    try:
        datum = schemaless_reader(stream, writer.parsed, newest(writer.event).parsed)
    except (EOFError, IndexError) as exc:
        raise Truncated(f"{writer.event} ends inside a value") from exc
    except (ValueError, TypeError, OverflowError, UnicodeDecodeError, MemoryError, LookupError) as exc:
        raise InvalidValue(f"{writer.event}: {type(exc).__name__}") from exc
    left = len(data) - stream.tell()
    if left:
        raise TrailingBytes(f"{left} bytes after {writer.event}")
    assert isinstance(datum, dict)
    for name, value in datum.items():
        if name in _NESTED and value is not None:
            for field, inner in value.items():
                _check(field, inner)
            datum[name] = _NESTED[name](**value)
        elif name == "notes":
            if len(value) > NOTES_MAX:
                raise InvalidValue(f"{len(value)} notes, {NOTES_MAX} are allowed")
            for note in value:
                _check(name, note)
            datum[name] = tuple(value)
        else:
            _check(name, value)
    return EVENTS[writer.event](**datum)


def _check(name: str, value: object) -> None:
    if isinstance(value, str):
        limit = TEXT_BYTES_MAX if name in _TEXTS else ID_BYTES_MAX
        # A character is at most 4 bytes of UTF-8, so most texts need no encoding to be known short enough.
        if len(value) * 4 > limit and len(value.encode("utf-8", "surrogatepass")) > limit:
            raise InvalidValue(f"{name} is over {limit} bytes")
        if "\0" in value:
            raise InvalidValue(f"{name} holds a NUL character")
