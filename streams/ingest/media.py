"""Media as a source names them to our ``media_id``; a report never waits for a scan.

The id is computed from (source, upstream id). The table of aliases goes before it (an item whose upstream id
changed), and tells which texts of 32 hex digits are ids of ours rather than the source's. With the table away
the computed id is used: an alias nobody could ask for is joined later, when states are merged.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from streams.domain.identity import media_id
from streams.domain.words import MEDIA_KINDS
from streams.runtime.clock import Clock
from streams.runtime.database import Connection, Database, DatabaseAway
from streams.runtime.memory import Memory
from streams.runtime.people import AliasStore

REMEMBERED_MAX = 100_000
FRESH_S = 60.0
STALE_S = 3_600.0
FOLLOW_S = 1.0
FOLLOW_PATIENCE_S = 0.25
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
    """Where the door looks up what a report leaves out."""

    async def of(self, source_id: str, media_ids: Collection[str]) -> Mapping[str, Facts]:
        """What is known of these, without those nothing is known of. Raises Unavailable when nobody can tell."""
        ...


class NothingKnown:
    """The MediaFacts of a house without a library: the report is all there is."""

    async def of(self, source_id: str, media_ids: Collection[str]) -> Mapping[str, Facts]:
        del source_id, media_ids
        return {}


class LibraryFacts:
    """The MediaFacts of what scans found. What was asked is remembered, nothing being known too: a report comes every
    few seconds, and what it leaves out it leaves out each time."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """``database``: as role door."""
        self._database = database
        self._memory = Memory[str, Facts](clock, size=REMEMBERED_MAX, fresh_s=FRESH_S, stale_s=STALE_S)

    async def of(self, source_id: str, media_ids: Collection[str]) -> Mapping[str, Facts]:
        """Never raises Unavailable: with the database away what was known lately is the answer, or nothing."""
        del source_id  # an id is of one source
        found = {one: kept for one in media_ids if (kept := self._memory.fresh(one)) is not None}
        asked = [one for one in media_ids if one not in found]
        if asked:
            try:
                known = await self._database.run(lambda connection: _facts(connection, asked))
            except DatabaseAway:
                found |= {one: kept for one in asked if (kept := self._memory.stale(one)) is not None}
            else:
                for one in asked:
                    found[one] = known.get(one, _NO_FACTS)
                    self._memory.learn(one, found[one])
        return {one: facts for one, facts in found.items() if facts != _NO_FACTS}


_NO_FACTS: Final = Facts()


async def _facts(connection: Connection, media_ids: Sequence[str]) -> dict[str, Facts]:
    cursor = await connection.execute(
        "SELECT media_id, media_kind, duration_ms FROM api.media_facts WHERE media_id = ANY(%s)", (list(media_ids),)
    )
    # A kind nobody plays is none, and a duration of 0 an unknown one.
    return {row[0]: Facts(row[1] if row[1] in MEDIA_KINDS else None, row[2] or None) for row in await cursor.fetchall()}


class Media:
    """What was found is remembered until the library gives a name of that source to another media: whether it did is
    looked up once in FOLLOW_S, so an id that a server handed out anew leads to its new media within that time."""

    def __init__(self, store: AliasStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        # A name of an older version is not asked for again, and falls out.
        self._memory = Memory[tuple[str, int, str], str](clock, size=REMEMBERED_MAX, fresh_s=FRESH_S, stale_s=STALE_S)
        self._versions: Mapping[str, int] = {}
        self._followed = -FOLLOW_S
        self._following: asyncio.Task[None] | None = None

    async def ids(self, source_id: str, named: Collection[Named]) -> dict[Named, str]:
        """The media_id of each. Raises DatabaseAway only when one may be an id of ours or of the source's, and
        only the absent table could tell."""
        await self._follow()
        version = self._versions.get(source_id, 0)
        ids = {one: kept for one in named if (kept := self._memory.fresh((source_id, version, one.name))) is not None}
        asked = [one for one in named if one not in ids]
        if not asked:
            return ids
        try:
            found = dict(await self._store.find(source_id, {one.name for one in asked}))
            new = {one.name: media_id(source_id, one.name) for one in asked if one.name not in found}
            if new:
                found |= await self._store.add(source_id, new)
        except DatabaseAway:
            return ids | {one: self._without_table(source_id, version, one) for one in asked}
        for name, its_id in found.items():
            self._memory.learn((source_id, version, name), its_id)
        return ids | {one: found[one.name] for one in asked}

    async def _follow(self) -> None:
        """Have versions of at most FOLLOW_S ago, unless the table does not answer at once."""
        if self._following is None:
            if self._clock.monotonic() - self._followed < FOLLOW_S:
                return
            self._followed = self._clock.monotonic()
            self._following = asyncio.create_task(self._look())
        await asyncio.wait({self._following}, timeout=FOLLOW_PATIENCE_S)

    async def _look(self) -> None:
        try:
            self._versions = await self._store.versions()
        except DatabaseAway:
            pass  # nor can anything be given to another meanwhile that could be asked for
        finally:
            self._following = None

    def _without_table(self, source_id: str, version: int, one: Named) -> str:
        remembered = self._memory.stale((source_id, version, one.name))
        if remembered is not None:
            return remembered
        if one.ambiguous:
            raise DatabaseAway("whether the id is ours can't be told without the database")
        return media_id(source_id, one.name)
