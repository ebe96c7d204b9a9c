"""When which source is polled: at its interval with jitter, later after failures, all sources beside each other; and
at once when its push channel has news, of the lists that are concerned, though not more often than every so often.

After a failure nobody's news makes a poll come sooner, and the next poll is of everything.

A poll that lasts longer than DEADLINE_S is given up. Everything is read anew (a sweep) every SWEEP_S and whenever
nobody remembers a sweep. Two schedulers at once do no harm: what both read has the same event ids.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

from streams.ingest.pollers.backoff import Chance, back_off_s
from streams.ingest.pollers.listening import Listener, state_of
from streams.ingest.pollers.lists import ServerPoller
from streams.ingest.pollers.news import EVERYTHING, Bell, News
from streams.ingest.pollers.poll import Poll, Polled, Say, TakesReports
from streams.ingest.pollers.servers import pollers_of
from streams.runtime import logs, metrics
from streams.runtime.clock import Clock
from streams.runtime.errors import ConfigurationError, Unavailable
from streams.runtime.polls import PollStore
from streams.runtime.upstreams import UpstreamEntry, Upstreams
from streams.upstream.errors import UpstreamError
from streams.upstream.http import Limits

SWEEP_S: Final = 3_600.0
DEADLINE_S: Final = 1_800.0
LOOK_AGAIN_S: Final = 30.0
"""So often the table of sources is read for new ones and changed credentials."""
AT_ONCE: Final = 8
NEWS_EVERY_S: Final = 1.0
"""News makes a source be polled so often at most."""

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Result:
    """How a poll of a source went. ``cause``: None when all could be read; ``next_in_s``: seconds to the next."""

    source_id: str
    polled: Polled
    cause: str | None
    next_in_s: float


Report: TypeAlias = Callable[[Result], None]


class Source:
    """One source's pollers, kept open from poll to poll: what was conditional stays so."""

    def __init__(
        self,
        entry: UpstreamEntry,
        door: TakesReports,
        store: PollStore,
        hash_key: bytes,
        clock: Clock,
        *,
        limits: Limits | None = None,
        chance: Chance = random.uniform,
    ) -> None:
        self.entry = entry
        self._poll = Poll(entry.source_id, door, store, hash_key)
        self._store = store
        self._clock = clock
        self._limits = limits
        self._chance = chance
        self._pollers: list[ServerPoller] | None = None
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._open.aclose()

    @property
    def pollers(self) -> Sequence[ServerPoller]:
        """Empty before the first poll."""
        return self._pollers or ()

    async def poll(
        self,
        *,
        sweep: bool | None = None,
        say: Say | None = None,
        news: Mapping[ServerPoller, News] | None = None,
        due_in_s: float | None = None,
        channel: str | None = None,
    ) -> Result:
        """Poll once, all accounts one after another. Errors of the server are in the result.

        ``sweep`` None: when one is due. ``news``: poll only these pollers and lists, sweeping nothing; then the next
        poll is ``due_in_s`` from now, as it was. ``channel``: how the push channel is, to be noted. Raises Unavailable
        when the log or the database is away.
        """
        began = self._clock.monotonic()
        if sweep is None:
            sweep = news is None and await self._store.sweep_is_due(self.entry.source_id, SWEEP_S)
        total = Polled()
        try:
            async with asyncio.timeout(DEADLINE_S):
                for poller in await self._made():
                    if news is None or poller in news:
                        what = EVERYTHING if news is None else news[poller]
                        _add(total, await self._poll.run(poller, sweep=sweep, say=say, news=what))
        except TimeoutError:
            total.causes.append("away")
        except UpstreamError as exc:
            total.causes.append(exc.cause)
        except ConfigurationError:
            total.causes.append("credentials")
        cause = total.causes[0] if total.causes else None
        swept = sweep and cause is None
        next_in_s = await self._note(cause, swept, total.retry_after_s, due_in_s, channel)
        metrics.POLLS.labels(self.entry.kind, cause or "none").inc()
        metrics.POLL_UNUSABLE.labels(self.entry.kind).inc(total.unusable)
        metrics.POLL_SECONDS.labels(self.entry.kind).observe(self._clock.monotonic() - began)
        return Result(self.entry.source_id, total, cause, next_in_s)

    async def _made(self) -> list[ServerPoller]:
        if self._pollers is None:
            self._pollers = await self._open.enter_async_context(pollers_of(self.entry, self._clock, self._limits))
        return self._pollers

    async def _note(
        self, cause: str | None, swept: bool, retry_after_s: float | None, due_in_s: float | None, channel: str | None
    ) -> float:
        name, interval_s = self.entry.source_id, float(self.entry.interval_s)
        # A tenth to either side, so that sources do not march in step.
        wait_s = interval_s * self._chance(0.9, 1.1) if due_in_s is None else due_in_s
        failures = await self._store.fared(name, cause=cause, swept=swept, next_in_s=wait_s, channel=channel)
        if failures:
            wait_s = back_off_s(failures, interval_s, self._chance, least_s=interval_s, asked_s=retry_after_s)
            await self._store.put_off(name, wait_s)
        return wait_s


def _add(total: Polled, one: Polled) -> None:
    total.reports += one.reports
    total.read += one.read
    total.unusable += one.unusable
    total.rejected += one.rejected
    total.causes += one.causes
    if one.retry_after_s is not None:
        total.retry_after_s = max(total.retry_after_s or 0.0, one.retry_after_s)


class Scheduler:
    """Polls all pollable sources (or those named) until ``stop`` is set."""

    def __init__(
        self,
        upstreams: Upstreams,
        door: TakesReports,
        store: PollStore,
        hash_key: bytes,
        clock: Clock,
        *,
        on_result: Report | None = None,
        chance: Chance = random.uniform,
        sockets: bool = True,
        news_every_s: float = NEWS_EVERY_S,
        limits: Limits | None = None,
    ) -> None:
        self._upstreams = upstreams
        self._door = door
        self._store = store
        self._hash_key = hash_key
        self._clock = clock
        self._on_result = on_result
        self._chance = chance
        self._sockets = sockets
        self._news_every_s = news_every_s
        self._limits = limits
        self._places = asyncio.Semaphore(AT_ONCE)

    async def run(self, stop: asyncio.Event, source_ids: Sequence[str] = ()) -> None:
        """Return when ``stop`` is set and the polls under way were given up. Waits for a database that is away."""
        running: dict[UpstreamEntry, asyncio.Task[None]] = {}
        try:
            while not stop.is_set():
                try:
                    wanted = set(await self._upstreams.pollable(source_ids))
                except Unavailable:
                    wanted = set(running)
                await _cancelled([running.pop(gone) for gone in running.keys() - wanted])
                for entry in sorted(wanted - running.keys(), key=lambda one: one.source_id):
                    running[entry] = asyncio.create_task(self._go_on(entry))
                for task in running.values():
                    if task.done():
                        task.result()  # a bug ends the process
                await _set_within(stop, LOOK_AGAIN_S)
        finally:
            await _cancelled(list(running.values()))

    async def _go_on(self, entry: UpstreamEntry) -> None:
        now = asyncio.get_running_loop().time
        source = Source(
            entry, self._door, self._store, self._hash_key, self._clock, limits=self._limits, chance=self._chance
        )
        bell = Bell()
        due = now() + self._chance(0, min(5.0, entry.interval_s))
        began, well = 0.0, False
        listening: list[Listener] = []
        async with source, asyncio.TaskGroup() as listeners:
            while True:
                if well:
                    await bell.rung(due - now())
                    await asyncio.sleep(min(began + self._news_every_s, due) - now())
                else:
                    await asyncio.sleep(due - now())
                began, news = now(), bell.take()
                in_part = well and began < due
                if in_part and not news:
                    continue  # a clock that is early
                try:
                    async with self._places:
                        result = await source.poll(
                            news=news if in_part else None,
                            due_in_s=due - began if in_part else None,
                            channel=state_of(listening),
                        )
                except Unavailable as exc:
                    _log.warning("a poll waits", source=entry.source_id, error=type(exc).__name__)
                    well, due = False, now() + max(1.0, float(exc.retry_after_s))
                    continue
                if self._on_result is not None:
                    self._on_result(result)
                well = result.cause is None
                if not (in_part and well):
                    due = now() + result.next_in_s
                if well and self._sockets and not listening:
                    listening = [Listener(entry, poller, bell, self._chance) for poller in source.pollers]
                    for listener in listening:
                        listeners.create_task(listener.run())


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


async def _set_within(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
