"""Out of the spool into the log, in order, as soon as Kafka and PostgreSQL are there.

Published, then deleted: a process killed in between publishes a piece again, under the same event ids. A piece
holds fewer reports of one person than the agents remember ids of, so that even then each counts once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from streams.ingest.draft import Draft
from streams.ingest.identify import FORGOTTEN, Identify
from streams.ingest.spooled import Unreadable, draft_of, news_of
from streams.runtime import logs
from streams.runtime.errors import Permanent, Unavailable
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.publisher import Publisher, Record
from streams.runtime.spool import Kept, Spool

RECORDS_MAX = 500
# A listen is three events, and an agent remembers the last 64 ids of one person and media.
PER_USER_MAX = 20
BYTES_MAX = 1024 * 1024
RETRY_S = 1.0
LOOK_AROUND_S = 30.0
"""How often spools of the dead are looked for, and what is held is tried again."""
_log = logs.get(__name__)


class Drain:
    """``run`` it as a task of the loop that has the spool open."""

    def __init__(
        self, spool: Spool, identify: Identify, publisher: Publisher, *, failpoint: Failpoint = disarmed
    ) -> None:
        self._spool = spool
        self._identify = identify
        self._publisher = publisher
        self._failpoint = failpoint
        # Published and not deleted yet, because the disk refused: never published again.
        self._sent: list[Kept] = []

    async def run(self) -> None:
        """Until cancelled."""
        looked = asyncio.get_running_loop().time()
        while True:
            try:
                await asyncio.wait_for(self._spool.waiting.wait(), LOOK_AROUND_S)
            except TimeoutError:
                pass
            try:
                if asyncio.get_running_loop().time() - looked >= LOOK_AROUND_S:
                    looked = asyncio.get_running_loop().time()
                    await self._spool.release()
                    await self._spool.adopt()
                await self.step()
            except Unavailable:
                await asyncio.sleep(RETRY_S)
            except Exception as exc:
                # The door stays open: what it takes is safe. The reports wait, and the metrics show it.
                _log.error("the spool can't be drained", error_class=type(exc).__name__)
                await asyncio.sleep(RETRY_S)

    async def step(self) -> int:
        """Send the next piece; how many reports that were. Raises Unavailable when it has to wait."""
        if self._sent:
            await self._delete([])
        piece = await self._spool.oldest(records_max=RECORDS_MAX, per_user_max=PER_USER_MAX, bytes_max=BYTES_MAX)
        told = await self._tell(piece)
        drafts = await self._readable(piece)
        if not drafts:
            return told
        found = await self._identify.of(drafts)
        made, refused = await self._identify.records(found.ready)
        gone = [one.draft for one in found.refused if one.reason == FORGOTTEN]
        await self._delete([piece[draft.index] for draft in gone])
        held = [(one.draft, one.reason) for one in [*found.refused, *refused] if one.reason != FORGOTTEN]
        await self._hold(piece, held)
        # In order: what can't be told yet keeps back what came after it, not what came before.
        first = min((draft.index for draft in found.unclear), default=len(piece))
        sending = [one for one in made if one.draft.index < first]
        if sending:
            try:
                await self._publisher.publish([record for one in sending for record in one.records])
            except Permanent as exc:
                await self._hold(piece, [(one.draft, exc.cause) for one in sending])
                return 0
            self._failpoint("ingest.drained")
            await self._identify.echoes.returned([one.draft for one in sending])
            await self._delete([piece[one.draft.index] for one in sending])
        if found.unclear:
            raise found.away or Unavailable("a spooled report can't be identified yet")
        return told + len(sending)

    async def _tell(self, piece: Sequence[Kept]) -> int:
        """Send the news of the library in it, in order; how many those were."""
        news: list[tuple[Kept, Record]] = []
        for kept in piece:
            try:
                record = news_of(kept.entry)
            except Unreadable:
                continue  # found so again, and held, as a report that can't be read
            if record is not None:
                news.append((kept, record))
        if not news:
            return 0
        try:
            await self._publisher.publish([record for _, record in news])
        except Permanent as exc:
            for kept, _ in news:
                await self._spool.hold([kept], exc.cause)
            return 0
        self._failpoint("ingest.drained")
        await self._delete([kept for kept, _ in news])
        return len(news)

    async def _readable(self, piece: Sequence[Kept]) -> list[Draft]:
        drafts: list[Draft] = []
        for index, kept in enumerate(piece):
            try:
                if news_of(kept.entry) is not None:
                    continue
                drafts.append(draft_of(kept.entry, index))
            except Unreadable:
                await self._spool.hold([kept], "unreadable")
        return drafts

    async def _hold(self, piece: Sequence[Kept], refused: Sequence[tuple[Draft, str]]) -> None:
        for draft, reason in refused:
            await self._spool.hold([piece[draft.index]], reason)

    async def _delete(self, sent: Sequence[Kept]) -> None:
        self._sent += sent
        await self._spool.done(self._sent)
        self._sent = []
