"""The matchers of tests/examples: does a printed value fit an expected one? See tests/examples/README.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEYS = {"in", "not", "null", "has", "delta"}


def mismatch(expected: object, actual: object, first: object = None) -> str | None:
    """Why `actual` does not fit, or None. `first`: the same field of the key's first printed state, for delta."""
    return None if matches(expected, actual, first) else f"{actual!r} does not fit {expected!r}"


def matches(expected: object, actual: object, first: object = None) -> bool:
    if isinstance(expected, Mapping) and len(expected) == 1 and _KEYS.issuperset(expected):
        return _fits(expected, actual, first)
    return equal(expected, actual)


def fields_mismatch(
    expected: Mapping[str, object], actual: Mapping[str, Any], first: Mapping[str, Any] | None = None
) -> str | None:
    """The first named field that does not fit. Fields that are not named may have any value."""
    for name, value in expected.items():
        found = mismatch(value, actual.get(name), None if first is None else first.get(name))
        if found is not None:
            return f"{name}: {found}"
    return None


def equal(a: object, b: object) -> bool:
    """Numbers by value, true is not 1, text exactly."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return a == b


def folded(text: object) -> str:
    return str(text).casefold().replace("-", "")


def _fits(matcher: Mapping[str, Any], actual: object, first: object) -> bool:
    match matcher:
        case {"in": allowed}:
            return any(equal(value, actual) for value in allowed)
        case {"not": other}:
            return not equal(other, actual)
        case {"null": is_null}:
            return (actual is None or actual is False or actual in ("", [], {})) is is_null
        case {"has": text}:
            return folded(text) in folded(actual)
        case {"delta": change}:
            return isinstance(actual, int) and isinstance(first, int) and actual - first == change
        case _:
            raise AssertionError(f"no matcher: {matcher}")
