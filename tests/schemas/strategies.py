"""Hypothesis strategies for events, made from the schemas: any value the contract allows."""

from __future__ import annotations

from typing import Any, assert_never

from hypothesis import strategies as st

from schemas.codec.events import LIMITS, PLAN
from schemas.codec.plan import Coded
from schemas.codec.shape import INT_MAX, LONG_MAX, Array, Nullable, Plain, Record, Shape
from schemas.events import Event

_CODED = {coded.name: coded for coded in PLAN.coded}


def text(bytes_max: int) -> st.SearchStrategy[str]:
    alphabet = st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")
    return st.text(alphabet, max_size=bytes_max).filter(lambda value: len(value.encode()) <= bytes_max)


def events(kind: str | None = None) -> st.SearchStrategy[Event]:
    """Events of one kind, or of any."""
    return st.sampled_from(sorted(_CODED)).flatmap(_event) if kind is None else _event(kind)


def _event(kind: str) -> st.SearchStrategy[Any]:
    return _of(_CODED[kind], kind, _CODED[kind].reader)


def _of(coded: Coded, name: str, shape: Shape) -> st.SearchStrategy[Any]:
    match shape:
        case Plain("string"):
            # Short ones mostly; the limits are reached by the golden examples.
            return text(24) | text(LIMITS.bytes_max(name))
        case Plain("int"):
            return st.integers(-INT_MAX - 1, INT_MAX)
        case Plain("long"):
            return st.integers(-LONG_MAX - 1, LONG_MAX)
        case Plain("boolean"):
            return st.booleans()
        case Plain():
            return st.binary(max_size=64)
        case Nullable(inner):
            return st.none() | _of(coded, name, inner)
        case Array(items):
            # Of records a few: a list at its limit is among the golden examples.
            most = 3 if isinstance(items, Record) else LIMITS.items_max
            return st.lists(_of(coded, name, items), max_size=most).map(tuple)
        case Record():
            parts = {field.name: _of(coded, field.name, field.shape) for field in shape.fields}
            return st.builds(coded.classes[shape.name], **parts)
        case _:
            assert_never(shape)
