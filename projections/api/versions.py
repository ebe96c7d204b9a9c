"""Versions as HTTP carries them: entity tags, and cursors of pages."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import xxhash

from streams.runtime.problems import Problem

_TAG = re.compile(r'(?:W/)?("[^"]*")')


@dataclass(frozen=True, slots=True)
class Version:
    """Of a row or a list: comparable by (model_epoch, log_epoch, offset), as in cache.invalidated."""

    model_epoch: int
    log_epoch: int
    partition: int
    offset: int

    @property
    def etag(self) -> str:
        return self.tag_with(())

    def tag_with(self, parts: Iterable[str]) -> str:
        """Entity tag of an answer that also depends on what it is made of: media found to be the same, or that their
        source calls otherwise, move no version of a person's, so the tag names ``parts`` by a hash. Without parts it
        is the plain one."""
        named = "\0".join(parts)
        more = f"-{xxhash.xxh32_hexdigest(named.encode())}" if named else ""
        return f'"{self.model_epoch}.{self.log_epoch}.{self.offset}{more}"'


NOTHING = '"0.0.0"'
"""Entity tag of an empty list that never had a version."""


def matches(if_none_match: str | None, etag: str) -> bool:
    """Whether the caller has this version already (RFC 9110, 13.1.2: weak comparison, a list or ``*``)."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == "*" or etag in _TAG.findall(if_none_match)


def cursor_of(*last: str | int) -> str:
    """The cursor of the page after the entry with these sort values."""
    return base64.urlsafe_b64encode(json.dumps(last).encode()).decode().rstrip("=")


def read_cursor(cursor: str | None, *kinds: type) -> list[Any] | None:
    """The sort values of a cursor, None without one. Raises Problem when it is none of ours."""
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        values = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or [type(value) for value in values] != list(kinds) or not all(map(_sane, values)):
        raise Problem(422, "bad_cursor", "This cursor is none that was given out here.")
    return values


def _sane(value: str | int) -> bool:
    """Whether PostgreSQL can take the value as text or bigint."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return "\0" not in value and value.isprintable()
