"""What the table of aliases holds: one version byte, then Avro in that version's schema.

Read and written only where media were merged, so the codec matters little; it is made as that of streams/agents/state.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cache

from schemas.codec.compiled import Coders, coders
from schemas.errors import Undecodable
from streams.agents.aliases.plan import PLAN, ROW, VERSION, MediaAlias
from streams.agents.state import DamagedRow, UnknownStateVersion

__all__ = ["VERSION", "DamagedRow", "MediaAlias", "UnknownStateVersion", "decode", "encode", "readable"]

_PREFIX = bytes((VERSION,))


def encode(alias: MediaAlias) -> bytes:
    """The row of ``alias``. Raises InvalidValue (schemas.errors) for an id that is no text."""
    return _coders().encode[ROW](alias, _PREFIX)


def decode(row: bytes) -> MediaAlias:
    """The alias in ``row``. Raises UnknownStateVersion for a newer build's, DamagedRow for what is no row."""
    if row[:1] != _PREFIX:
        if not row:
            raise DamagedRow("a table row of no bytes")
        raise UnknownStateVersion(
            f"a table row of version {row[0]}; this build knows up to {VERSION}: a newer one has run on this state. "
            "Upgrade Playhead on this machine"
        )
    try:
        alias: MediaAlias = _coders().decode[ROW, VERSION](row, 1)
    except Undecodable as exc:
        raise DamagedRow(f"a damaged table row: {exc}") from exc
    return alias


def readable(row: bytes) -> object:
    """``row`` as JSON values. Raises as ``decode`` does."""
    return asdict(decode(row))


@cache
def _coders() -> Coders:
    return coders(PLAN)
