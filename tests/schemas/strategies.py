"""Hypothesis strategies for events, made from the schemas: any value the contract allows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from schemas.codec.events import LIMITS
from schemas.events import EVENTS, Conflict, Event, Pending, SourcePosition
from schemas.limits import NOTES_MAX
from schemas.versions import newest

_NESTED = {"SourcePosition": SourcePosition, "Pending": Pending, "Conflict": Conflict}


def text(bytes_max: int) -> st.SearchStrategy[str]:
    alphabet = st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")
    return st.text(alphabet, max_size=bytes_max).filter(lambda value: len(value.encode()) <= bytes_max)


def events(kind: str | None = None) -> st.SearchStrategy[Event]:
    """Events of one kind, or of any."""
    return st.sampled_from(sorted(EVENTS)).flatmap(_event) if kind is None else _event(kind)


def _event(kind: str) -> st.SearchStrategy[Any]:
    fields = newest(kind).parsed["fields"]
    return st.builds(EVENTS[kind], **{field["name"]: _of(field["name"], field["type"]) for field in fields})


def _of(name: str, schema: Any) -> st.SearchStrategy[Any]:
    match schema:
        case "string":
            # Short ones mostly; the limits are reached by the golden examples.
            return text(24) | text(LIMITS.bytes_max(name))
        case "int":
            return st.integers(-(1 << 31), (1 << 31) - 1)
        case "long":
            return st.integers(-(1 << 63), (1 << 63) - 1)
        case "boolean":
            return st.booleans()
        case "bytes":
            return st.binary(max_size=64)
        case ["null", other]:
            return st.none() | _of(name, other)
        case {"type": "array", "items": items}:
            return st.lists(_of(name, items), max_size=NOTES_MAX).map(tuple)
        case {"type": "record"}:
            short = schema["name"].rpartition(".")[2]
            return st.builds(_NESTED[short], **{f["name"]: _of(f["name"], f["type"]) for f in schema["fields"]})
        case _:
            raise AssertionError(schema)
