"""Ids that are computed: the same facts give the same id at the door, in the agent and in a rebuild.

Parts are joined by NUL, which no id may hold, so different parts never make the same text.
"""

from __future__ import annotations

from collections.abc import Sequence

import xxhash

_NUL = "\0"
_ABSENT = "\x01"
"""Stands for a part that is not there; the empty text is another value."""
_SIGN = 2**63


def media_id(source: str, locator: str) -> str:
    """Our id of a media: 32 hex digits from its source and its upstream id or first locator."""
    return str(xxhash.xxh3_128_hexdigest(_joined((source, locator))))


def derived_event_id(
    *,
    source: str,
    user: str,
    media: str,
    session_id: str | None,
    device_id: str | None,
    sequence: int | None,
    kind: str,
    position_ms: int | None,
    occurred_at: int | None,
) -> str | None:
    """The event id of a report that has none: 32 hex digits, the same for every retry of it.

    None when neither a sequence nor occurred_at tells one report from the next. Here a sequence counts without a
    session_id too: it tells a retry from the next report, whatever order it has.
    """
    if sequence is None and occurred_at is None:
        return None
    parts = (source, user, media, session_id, device_id, sequence, kind, position_ms, occurred_at)
    return str(xxhash.xxh3_128_hexdigest(_joined([_ABSENT if p is None else str(p) for p in parts])))


def event_id_hash(source: str, event_id: str) -> int:
    """What is kept of an event id: a signed 64-bit number, different for the same id of another source."""
    return _signed(_joined((source, event_id)))


def session_key(source: str, session_id: str | None, device_id: str | None) -> int:
    """A signed 64-bit number for (source, session_id), else (source, device), else the source alone."""
    if session_id is not None:
        return _signed(_joined(("session", source, session_id)))
    if device_id is not None:
        return _signed(_joined(("device", source, device_id)))
    return _signed(_joined(("source", source)))


def _joined(parts: Sequence[str]) -> bytes:
    return _NUL.join(parts).encode()


def _signed(data: bytes) -> int:
    number = int(xxhash.xxh3_64_intdigest(data))
    return number - 2 * _SIGN if number >= _SIGN else number
