"""Who is forgotten, as the playback agent keeps it by user_ref. Read only where a report meets no row of its key."""

from __future__ import annotations

from streams.agents.forgotten.plan import PLAN, ROW, VERSION, Forgotten
from streams.agents.small_rows import SmallRows
from streams.agents.state import DamagedRow, UnknownStateVersion

__all__ = ["VERSION", "DamagedRow", "Forgotten", "UnknownStateVersion", "decode", "encode", "readable"]

_ROWS = SmallRows[Forgotten](PLAN, ROW, VERSION)
encode, decode, readable = _ROWS.encode, _ROWS.decode, _ROWS.readable
