"""Bytes to JSON values, within limits and without surprises; and plain forms to pairs.

What leaves `load_json` holds no NaN or infinity and nests at most 32 levels deep. Strings may still
hold NUL or lone surrogates: the field readers refuse them in ids and clean them in display text, so
that a broken summary nobody reads does not cost a person their position.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any
from urllib.parse import parse_qsl

from schemas.limits import BODY_BYTES_MAX, JSON_DEPTH_MAX
from streams.ingest.hooks.checks import Refuse

FORM_FIELDS_MAX = 20_000  # a saved queue repeats its id parameter once a song

_TOKEN = re.compile(r'["\[\]{}]')
_REST_OF_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


def decode(body: bytes) -> str:
    """The body as text: UTF-8, a leading byte-order mark dropped. Refuses empty, oversized, undecodable."""
    if len(body) > BODY_BYTES_MAX:
        raise Refuse("too_large", f"the body is over {BODY_BYTES_MAX} bytes")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refuse("bad_encoding", "the body is not UTF-8") from None
    if not text.strip():
        raise Refuse("empty", "the body is empty")
    return text


def load_json(text: str) -> Any:
    """The JSON value of a text; refuses `bad_json` and `too_deep`.

    Raw control characters inside strings pass: templates put line breaks of a summary there unescaped.
    """
    _check_depth(text)
    try:
        return _DECODER.decode(text.strip())
    except ValueError:  # includes numbers of thousands of digits
        raise Refuse("bad_json", "the text is not valid JSON") from None


def load_form(text: str) -> list[tuple[str, str]]:
    """The pairs of a query string or urlencoded form, in order, blank values kept."""
    try:
        return parse_qsl(
            text.strip(),
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=FORM_FIELDS_MAX,
        )
    except UnicodeDecodeError:
        raise Refuse("bad_encoding", "the form is not UTF-8") from None
    except ValueError:
        raise Refuse("too_many_fields", f"the form has over {FORM_FIELDS_MAX} fields") from None


def _check_depth(text: str) -> None:
    """Refuse a text nesting deeper than the limit, before any parser recurses into it. Linear."""
    depth = 0
    at = 0
    while (token := _TOKEN.search(text, at)) is not None:
        at = token.end()
        match token.group():
            case '"':
                string = _REST_OF_STRING.match(text, at)
                if string is None:
                    return  # an open string: the decoder will say so
                at = string.end()
            case "[" | "{":
                depth += 1
                if depth > JSON_DEPTH_MAX:
                    raise Refuse("too_deep", f"the JSON nests deeper than {JSON_DEPTH_MAX} levels")
            case _:
                depth -= 1


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError("not a finite number")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(strict=False, parse_float=_finite, parse_constant=_no_constant)
