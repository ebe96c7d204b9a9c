"""Rows as PostgreSQL's COPY takes them in text form, made without a connection: another thread may be sending."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any, Final

_SPECIAL: Final = re.compile(r"[\\\t\n\r\b\f\v]")
_ESCAPED: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
_TO_QUOTE: Final = re.compile(r"[\\\"]")


def lines(rows: Iterable[Sequence[Any]]) -> bytes:
    """``rows`` of None, bool, int, str, bytes, date and lists of str, one line each. TypeError for anything else."""
    return "".join(["\t".join([text(value) for value in row]) + "\n" for row in rows]).encode()


def text(value: Any) -> str:
    """One field of a line."""
    if isinstance(value, str):
        return value if _SPECIAL.search(value) is None else _escaped(value)
    kind = type(value)
    if kind is int:
        return str(value)
    if value is None:
        return "\\N"
    if kind is bool:
        return "t" if value else "f"
    if kind is list:
        return _escaped("{" + ",".join([_quoted(one) for one in value]) + "}") if value else "{}"
    if kind is bytes:
        return f"\\\\x{value.hex()}"
    if kind is date:
        return str(value)
    raise TypeError(f"{kind.__name__} is not copied")


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: _ESCAPED[found[0]], text)


def _quoted(item: str) -> str:
    return '"' + _TO_QUOTE.sub(lambda found: "\\" + found[0], item) + '"'
