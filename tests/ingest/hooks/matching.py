"""The matchers that the example files of `playhead parse` use; tests/examples/README.md defines them."""

from __future__ import annotations

import json
from typing import Any


def fits(expected: Any, actual: Any) -> bool:
    """Whether a printed value is as expected: plain values equal, matcher objects as they say."""
    if isinstance(expected, dict):
        return all(_matcher(name, wanted, actual) for name, wanted in expected.items())
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    return bool(expected == actual)


def fits_object(expected: dict[str, Any], printed: dict[str, Any]) -> bool:
    """Whether a printed object has every field of the expected one; `user` and `media` in either spelling."""
    for name, wanted in expected.items():
        if name == "$or":
            if not any(fits_object(choice, printed) for choice in wanted):
                return False
        elif name == "$deep":
            whole = _plain(json.dumps(printed, ensure_ascii=False))
            if not all(_plain(text) in whole for text in wanted):
                return False
        elif not fits(wanted, _value(name, printed)):
            return False
    return True


def _value(name: str, printed: dict[str, Any]) -> Any:
    value = printed.get(name)
    return printed.get(f"upstream_{name}") if value is None and name in ("user", "media") else value


def _matcher(name: str, wanted: Any, actual: Any) -> bool:
    match name:
        case "in":
            return any(fits(choice, actual) for choice in wanted)
        case "not":
            return not fits(wanted, actual)
        case "null":
            return (not actual and actual != 0) or actual is False if wanted else bool(actual)
        case "has":
            return isinstance(actual, str) and _plain(wanted) in _plain(actual)
    raise AssertionError(f"unknown matcher {name}")


def _plain(text: str) -> str:
    return text.lower().replace("-", "")
