"""One poll of one source: read its lists, find what is new, take it through the door, then keep what was seen.

    pages ─► usable statements ─► compared with what was seen ─► reports, oldest first ─► door ─► acknowledged ─► kept

When anything fails after some chunks were acknowledged, what was kept is true; the rest is read again. When keeping
fails, the reports are made again, with the same ids.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from streams.ingest.door import Receipt
from streams.ingest.hooks import ParsedReport, Rejected
from streams.ingest.identify import FORGOTTEN
from streams.ingest.pollers.lists import Listing, ServerPoller
from streams.ingest.pollers.news import EVERYTHING, News
from streams.ingest.pollers.statements import PLAYING, EventIds, Playing, Statement, step
from streams.runtime import logs
from streams.runtime.polls import Key, PollStore, Seen
from streams.runtime.tokens import Principal, Scope
from streams.upstream.errors import CredentialsRefused, NotOffered, UpstreamAway, UpstreamError

FORMAT: Final = "poll"
"""What the door knows these reports by."""
REPORTS_AT_ONCE: Final = 500

_log = logs.get(__name__)
Say = Callable[[str, int], None]
"""Hears the name of a list and how many entries of it were read."""


def unheard(name: str, read: int) -> None:
    """Nobody listens."""
    del name, read


class TakesReports(Protocol):
    """The door, as polls need it."""

    async def take(
        self, principal: Principal, results: list[ParsedReport | Rejected], *, format: str, correlation_id: str
    ) -> Receipt: ...


@dataclass
class Polled:
    """What came of a poll. ``causes``: of the errors of lists and accounts that could not be read; empty: none."""

    reports: int = 0
    read: int = 0
    unusable: int = 0
    rejected: int = 0
    causes: list[str] = field(default_factory=list)
    retry_after_s: float | None = None


@dataclass
class _News:
    """What a poll found: reports, and the places they came from with what is seen there from now on."""

    reports: list[tuple[ParsedReport, Key]] = field(default_factory=list)
    seen: dict[Key, Seen | None] = field(default_factory=dict)


class Poll:
    """Polls one source through ``door`` with ``store`` as its memory."""

    def __init__(self, source_id: str, door: TakesReports, store: PollStore, hash_key: bytes) -> None:
        self._source_id = source_id
        self._door = door
        self._store = store
        self._ids = EventIds(hash_key, source_id)
        self._principal = Principal("poll", source_id, frozenset({Scope.REPORT}))

    async def run(
        self, poller: ServerPoller, *, sweep: bool, say: Say | None = None, news: News = EVERYTHING
    ) -> Polled:
        """One poll as one account or key, of the lists that ``news`` concerns. Afterwards all reports are acknowledged.

        What one list lacks does not keep the others from being read. Raises Unavailable (the log or the database is
        away); errors of the server are in the outcome.
        """
        polled = Polled()
        try:
            for listing in poller.lists(sweep=sweep):
                if news.concerns(listing.name) and not await self._list(poller, listing, sweep, polled, say or unheard):
                    break
        except BaseException:
            poller.unsettled()
            raise
        if polled.causes:
            poller.unsettled()
        else:
            poller.settled()
        return polled

    async def _list(self, poller: ServerPoller, listing: Listing, sweep: bool, polled: Polled, say: Say) -> bool:
        """Read one list and take its news through the door. False when the server need not be asked for more."""
        news = _News()
        present: set[Key] = set()
        go_on, complete = True, True
        try:
            async for page in listing.pages():
                polled.read += len(page.statements)
                polled.unusable += page.unusable
                statements = _once_each(page.statements) if listing.whole else list(page.statements)
                present.update(statement.key for statement in statements)
                found = await self._compare(statements, news)
                say(listing.name, len(page.statements))
                if listing.newest_first and page.statements and not found and not sweep:
                    break
        except NotOffered:
            complete = False
        except UpstreamError as exc:
            complete = False
            polled.causes.append(exc.cause)
            _log.warning("a list could not be read", source=self._source_id, list=listing.name, cause=exc.cause)
            if isinstance(exc, UpstreamAway):
                polled.retry_after_s = exc.retry_after_s
            go_on = not isinstance(exc, UpstreamAway | CredentialsRefused)
        if listing.whole and complete:
            for key, seen in (await self._store.seen_in(self._source_id, PLAYING)).items():
                if key not in present and poller.speaks_for(key.user):
                    await self._compare([await poller.stopped(key, seen)], news)
        await self._take(news, polled)
        return go_on

    async def _compare(self, statements: list[Statement], news: _News) -> bool:
        """Add to ``news`` what is new in the statements; whether anything was."""
        before = await self._store.seen(self._source_id, [one.key for one in statements])
        found = False
        for statement in statements:
            key = statement.key
            was = news.seen[key] if key in news.seen else before.get(key)
            after = step(statement, was, self._ids)
            if after.reports or after.seen != was:
                news.seen[key] = after.seen
            news.reports += [(report, key) for report in after.reports]
            found = found or bool(after.reports)
        return found

    async def _take(self, news: _News, polled: Polled) -> None:
        """Reports to the log, oldest first; then, and not before, what was seen to its table."""
        waiting = dict(news.seen)
        # Stable: of one time, the order in which they were read.
        ordered = sorted(news.reports, key=lambda one: _NO_TIME if one[0].occurred_at is None else one[0].occurred_at)
        for start in range(0, len(ordered), REPORTS_AT_ONCE):
            chunk = ordered[start : start + REPORTS_AT_ONCE]
            receipt = await self._door.take(
                self._principal, [report for report, _ in chunk], format=FORMAT, correlation_id=uuid.uuid4().hex
            )
            polled.reports += receipt.accepted
            polled.rejected += len(receipt.rejected)
            still = {key for _, key in ordered[start + REPORTS_AT_ONCE :]}
            done = {key: waiting.pop(key) for _, key in chunk if key in waiting and key not in still}
            # Nothing is kept of somebody who was forgotten: not even that a poll saw them.
            for one in receipt.rejected:
                if one.reason == FORGOTTEN:
                    done[chunk[one.index][1]] = None
            await self._store.keep(self._source_id, done)
        # What changed without a report.
        places = list(waiting)
        for start in range(0, len(places), REPORTS_AT_ONCE):
            await self._store.keep(
                self._source_id, {key: waiting[key] for key in places[start : start + REPORTS_AT_ONCE]}
            )


_NO_TIME: Final = 2**62
"""Reports without a time happen now: after all that have one."""


def _once_each(statements: tuple[Statement, ...]) -> list[Statement]:
    """One statement a place. Of several (a server that can't tell players apart) always the same one."""
    chosen: dict[Key, Statement] = {}
    for statement in sorted(statements, key=_name_of_media):
        chosen.setdefault(statement.key, statement)
    return list(chosen.values())


def _name_of_media(statement: Statement) -> str:
    return str(statement.report.upstream_media) if isinstance(statement, Playing) else ""
