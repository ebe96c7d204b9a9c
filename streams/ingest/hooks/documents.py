"""Bytes to JSON values, within limits and without surprises; and plain forms to pairs.

What leaves `load_json` holds no NaN or infinity and nests at most 32 levels deep. Strings may still
hold NUL or lone surrogates: the field readers refuse them in ids and clean them in display text, so
that a broken summary nobody reads does not cost a person their position.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from schemas.limits import BODY_BYTES_MAX
from streams.ingest.hooks.checks import Refuse
from streams.runtime import json_text

FORM_FIELDS_MAX = 20_000  # a saved queue repeats its id parameter once a song


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
    try:
        return json_text.load(text)
    except json_text.BadJson as bad:
        raise Refuse("too_deep" if bad.too_deep else "bad_json", str(bad)) from None


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
