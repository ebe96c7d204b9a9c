"""Media as a source names them to our ``media_id``; a report never waits for a scan.

The id is computed from (source, upstream id). The table of aliases goes before it (an item whose upstream id
changed), and tells which texts of 32 hex digits are ids of ours rather than the source's. With the table away
the computed id is used: an alias nobody could ask for is joined later, when states are merged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from streams.domain.identity import media_id
from streams.runtime.clock import Clock
from streams.runtime.database import DatabaseAway
from streams.runtime.memory import Memory
from streams.runtime.people import AliasStore

REMEMBERED_MAX = 100_000
FRESH_S = 60.0
STALE_S = 3_600.0
_OURS = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Named:
    """How a report names its media. ``may_be_ours``: the sender may mean a media_id by it."""

    name: str
    may_be_ours: bool

    @property
    def ambiguous(self) -> bool:
        return self.may_be_ours and _OURS.fullmatch(self.name) is not None


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of an item; None where it is not. ``duration_ms`` is positive."""

    media_kind: str | None = None
    duration_ms: int | None = None


class MediaFacts(Protocol):
    """Where the door looks up what a report leaves out. The library will answer here."""

    async def of(self, source_id: str, media_ids: Collection[str]) -> Mapping[str, Facts]: ...


class NothingKnown:
    """The MediaFacts of a house without a library: the report is all there is."""

    async def of(self, source_id: str, media_ids: Collection[str]) -> Mapping[str, Facts]:
        del source_id, media_ids
        return {}


class Media:
    def __init__(self, store: AliasStore, clock: Clock) -> None:
        self._store = store
        self._memory = Memory[tuple[str, str], str](clock, size=REMEMBERED_MAX, fresh_s=FRESH_S, stale_s=STALE_S)

    async def ids(self, source_id: str, named: Collection[Named]) -> dict[Named, str]:
        """The media_id of each. Raises DatabaseAway only when one may be an id of ours or of the source's, and
        only the absent table could tell."""
        ids = {one: kept for one in named if (kept := self._memory.fresh((source_id, one.name))) is not None}
        asked = [one for one in named if one not in ids]
        if not asked:
            return ids
        try:
            found = dict(await self._store.find(source_id, {one.name for one in asked}))
            new = {one.name: media_id(source_id, one.name) for one in asked if one.name not in found}
            if new:
                found |= await self._store.add(source_id, new)
        except DatabaseAway:
            return ids | {one: self._without_table(source_id, one) for one in asked}
        for name, its_id in found.items():
            self._memory.learn((source_id, name), its_id)
        return ids | {one: found[one.name] for one in asked}

    def _without_table(self, source_id: str, one: Named) -> str:
        remembered = self._memory.stale((source_id, one.name))
        if remembered is not None:
            return remembered
        if one.ambiguous:
            raise DatabaseAway("whether the id is ours can't be told without the database")
        return media_id(source_id, one.name)
