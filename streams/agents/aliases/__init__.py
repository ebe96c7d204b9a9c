"""What the table of aliases holds. Read and written only where media were merged, so the codec matters little."""

from __future__ import annotations

from streams.agents.aliases.plan import PLAN, ROW, VERSION, MediaAlias
from streams.agents.small_rows import SmallRows
from streams.agents.state import DamagedRow, UnknownStateVersion

__all__ = ["VERSION", "DamagedRow", "MediaAlias", "UnknownStateVersion", "decode", "encode", "readable"]

_ROWS = SmallRows[MediaAlias](PLAN, ROW, VERSION)
encode, decode, readable = _ROWS.encode, _ROWS.decode, _ROWS.readable
