"""Who is forgotten, as the playback agent keeps it by user_ref: one version byte, then Avro in that version's schema.

Read only where a report meets no row of its key, so the codec matters little; it is made as in streams/agents/state.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cache

from schemas.codec.compiled import Coders, coders
from schemas.errors import Undecodable
from streams.agents.forgotten.plan import PLAN, ROW, VERSION, Forgotten
from streams.agents.state import DamagedRow, UnknownStateVersion

__all__ = ["VERSION", "DamagedRow", "Forgotten", "UnknownStateVersion", "decode", "encode", "readable"]

_PREFIX = bytes((VERSION,))


def encode(row: Forgotten) -> bytes:
    """The row of one person."""
    return _coders().encode[ROW](row, _PREFIX)


def decode(row: bytes) -> Forgotten:
    """What is in ``row``. Raises UnknownStateVersion for a newer build's, DamagedRow for what is no row."""
    if row[:1] != _PREFIX:
        if not row:
            raise DamagedRow("a table row of no bytes")
        raise UnknownStateVersion(
            f"a table row of version {row[0]}; this build knows up to {VERSION}: a newer one has run on this state. "
            "Upgrade Playhead on this machine"
        )
    try:
        found: Forgotten = _coders().decode[ROW, VERSION](row, 1)
    except Undecodable as exc:
        raise DamagedRow(f"a damaged table row: {exc}") from exc
    return found


def readable(row: bytes) -> object:
    """``row`` as JSON values. Raises as ``decode`` does."""
    return asdict(decode(row))


@cache
def _coders() -> Coders:
    return coders(PLAN)
