"""JSON from outside, within limits: its depth is known before any parser recurses into it."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, Final

from schemas.limits import JSON_DEPTH_MAX

_TOKEN = re.compile(r'["\[\]{}]')
_REST_OF_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


class BadJson(Exception):
    """``too_deep`` tells why: it nests deeper than the limit, or else it is no valid JSON."""

    def __init__(self, *, too_deep: bool) -> None:
        super().__init__(
            f"the JSON nests deeper than {JSON_DEPTH_MAX} levels" if too_deep else "the text is not valid JSON"
        )
        self.too_deep = too_deep


def load(text: str) -> Any:
    """The value of a text: no NaN or infinity in it, at most 32 levels deep. Raises BadJson.

    Raw control characters inside strings pass, as servers send them. Strings may hold NUL and lone surrogates.
    """
    if is_too_deep(text):
        raise BadJson(too_deep=True)
    try:
        return _DECODER.decode(text.strip())
    except ValueError:  # includes numbers of thousands of digits
        raise BadJson(too_deep=False) from None


def is_too_deep(text: str) -> bool:
    """Whether a text nests deeper than the limit. Linear; strings are passed over."""
    depth = 0
    at = 0
    while (token := _TOKEN.search(text, at)) is not None:
        at = token.end()
        match token.group():
            case '"':
                string = _REST_OF_STRING.match(text, at)
                if string is None:
                    return False  # an open string: the decoder will say so
                at = string.end()
            case "[" | "{":
                depth += 1
                if depth > JSON_DEPTH_MAX:
                    return True
            case _:
                depth -= 1
    return False


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError("not a finite number")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(strict=False, parse_float=_finite, parse_constant=_no_constant)
