"""What became stale, from the log to everybody who listens in this process: one reader, many listeners.

    cache.invalidated ─► thread: tail, decode ─► loop: cache told first ─► ring ─► each listener's bounded queue

The reader stands by while nobody listens. It begins a little before the end, so that who was away for a moment finds
what was missed in the ring. Who was away longer reads the log itself; who was away too long is told to begin anew.

The cache is told before anybody hears of a change: who asks at once what became of it is never shown what was before.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self, TypeAlias

from projections.api.change_ids import Place
from schemas.events import WHOLE_MODEL, CacheInvalidated
from schemas.topics import CACHE_INVALIDATED
from streams.runtime import logs, metrics
from streams.runtime.cache import Cache
from streams.runtime.contract import Contract
from streams.runtime.errors import Unavailable
from streams.runtime.invalidations import Invalidated, read_invalidation
from streams.runtime.settings import KafkaSettings
from streams.runtime.tail import Asked, Tail, TailLost

RING_MAX: Final = 20_000
BACK: Final = 500
"""Records of each partition read before the end when the reader begins."""
HISTORY_MAX: Final = 50_000
"""Who is further behind than this begins anew: reading what there is costs less than hearing of all that was."""
HISTORIES_AT_ONCE: Final = 4
QUEUE_MAX: Final = 1_000
IDLE_S: Final = 30.0
STUCK_S: Final = 20.0
CHECK_S: Final = 2.0
READY_S: Final = 5.0
_HISTORY_S: Final = 20.0
_TAKE_S: Final = 0.1
_AWAY_S: Final = 0.5
_TICK_S: Final = 0.25
_RECORDS_MAX: Final = 1_000

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Change:
    """One invalidation, at its place in the log."""

    partition: int
    offset: int
    event: CacheInvalidated


@dataclass(frozen=True, slots=True)
class Reset:
    """Something may have been missed: what was read before may be stale. ``place``: who reads everything anew from
    here on stands there."""

    reason: str
    place: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class End:
    """Nothing comes any more. ``reason``: said as a reset; None: this process ends, and connecting again is enough."""

    reason: str | None = None


News: TypeAlias = Change | Reset | End


@dataclass(eq=False, slots=True)
class Listener:
    """``backlog`` comes first, then the queue. ``place``: what has been handed out lies before it.

    ``task``: who sends; it is cancelled when it is stuck.
    """

    wants: Callable[[CacheInvalidated], bool]
    topic_id: str
    place: dict[int, int]
    backlog: list[News] = field(default_factory=list)
    queue: asyncio.Queue[News] = field(default_factory=lambda: asyncio.Queue(QUEUE_MAX + 1))
    full_since: float | None = None
    task: asyncio.Task[object] | None = None

    def put(self, news: News) -> None:
        """A listener who does not keep up hears of no more, and of that."""
        if self.full_since is not None:
            return
        if self.queue.qsize() >= QUEUE_MAX and not isinstance(news, End):
            self.full_since = time.monotonic()
            news = End("too slow")
        self.queue.put_nowait(news)


@dataclass(frozen=True, slots=True)
class _Began:
    """The reader has come to where the end was: everything since ``start`` is known."""

    place: Place
    start: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Lost:
    reason: str


_Arrival: TypeAlias = "list[Invalidated] | _Began | _Lost"


class ChangeHub:
    """Use as an async context manager. ``ending``: asked now and then whether this process is to end."""

    def __init__(self, kafka: KafkaSettings, contract: Contract, cache: Cache) -> None:
        self._kafka = kafka
        self._contract = contract
        self._cache = cache
        self._listeners: set[Listener] = set()
        self._waiting = 0
        self._idle_since = 0.0
        self._ring: deque[Invalidated] = deque()
        self._ring_start: dict[int, int] = {}
        self._topic_id = ""
        self._place: dict[int, int] = {}
        self._ready = asyncio.Event()
        self._histories = asyncio.Semaphore(HISTORIES_AT_ONCE)
        self._arrivals: asyncio.Queue[tuple[int, _Arrival]] = asyncio.Queue(8)
        self._tasks: list[asyncio.Task[None]] = []
        # Between the loop and the reader's thread: which run of the reader counts, and whether one is wanted.
        self._run = 0
        self._wanted = threading.Event()
        self._stop = threading.Event()
        self.ending: Callable[[], bool] = lambda: False

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._tasks = [asyncio.create_task(self._dispatch()), asyncio.create_task(self._watch())]
        self._thread = threading.Thread(target=self._read, name="changes", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._stop.set()
        self._wanted.set()
        for listener in self._listeners:
            listener.put(End())
        await asyncio.to_thread(self._thread.join, 5.0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def listening(self) -> int:
        return len(self._listeners) + self._waiting

    async def listen(self, wants: Callable[[CacheInvalidated], bool], since: Place | None) -> Listener:
        """A listener who gets every change ``wants`` says yes to, after ``since`` or from now on; ``leave`` must
        follow. Its backlog begins with a Reset when the log can't tell what was since. Raises Unavailable."""
        self._waiting += 1
        self._wanted.set()
        try:
            await asyncio.wait_for(self._ready.wait(), READY_S)
        except TimeoutError:
            raise Unavailable("Kafka does not answer") from None
        finally:
            self._waiting -= 1
            self._idle_since = time.monotonic()
        # No waiting from here until it is among the listeners: what comes is in the place, or comes to it.
        now = dict(self._place)
        listener = Listener(wants, self._topic_id, now)
        self._listeners.add(listener)
        if since is None:
            return listener
        try:
            listener.backlog = await self._missed(since, Place(self._topic_id, dict(now)), wants)
        except BaseException:
            self.leave(listener)
            raise
        if not any(isinstance(one, Reset) for one in listener.backlog):
            listener.place = dict(since.offsets)
        return listener

    def leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        self._idle_since = time.monotonic()

    def place(self) -> Place:
        """Where everybody is who has taken everything from the queue."""
        return Place(self._topic_id, dict(self._place))

    # --- what was missed

    async def _missed(self, since: Place, now: Place, wants: Callable[[CacheInvalidated], bool]) -> list[News]:
        """What is told of everything from ``since`` up to ``now``: a Reset alone when there is one."""
        found = await self._records(since, now)
        if isinstance(found, str):
            return [Reset(found, now.offsets)]
        told: list[News] = []
        for one in found:
            news = _news(one, now.offsets)
            if isinstance(news, Reset):
                return [news]
            if wants(news.event):
                told.append(news)
        return told

    async def _records(self, since: Place, now: Place) -> list[Invalidated] | str:
        """All records from ``since`` up to ``now``, or why the log can't tell."""
        if since.topic_id != now.topic_id or any(since.offsets[one] > end for one, end in now.offsets.items()):
            return "another log"
        if all(since.offsets[one] >= start for one, start in self._ring_start.items()):
            return [one for one in self._ring if one.offset >= since.offsets[one.partition]]
        if sum(end - since.offsets[one] for one, end in now.offsets.items()) > HISTORY_MAX:
            return "too long ago"
        async with self._histories:
            found = await asyncio.to_thread(self._history, since, now)
        return "no longer in the log" if found is None else found

    def _history(self, since: Place, now: Place) -> list[Invalidated] | None:
        """The same from the log itself; None when it is not there any more. Raises Unavailable."""
        tail = Tail(self._kafka, CACHE_INVALIDATED)
        found: list[Invalidated] = []
        until = time.monotonic() + _HISTORY_S
        try:
            first = tail.ask().answer().first
            if any(since.offsets[one] < begins for one, begins in first.items()):
                return None
            tail.stand_at(since.offsets)
            while any(at < now.offsets[one] for one, at in tail.positions.items()):
                if time.monotonic() > until or self._stop.is_set():
                    raise Unavailable("Kafka takes too long")
                found += self._take(tail)
        except TailLost:
            return None
        finally:
            tail.close()
        return [one for one in found if one.offset < now.offsets[one.partition]]

    def _take(self, tail: Tail) -> list[Invalidated]:
        return [read_invalidation(self._contract, message) for message in tail.take(_RECORDS_MAX, _TAKE_S)]

    # --- the loop's side

    async def _dispatch(self) -> None:
        while True:
            run, arrival = await self._arrivals.get()
            if run != self._run:
                continue
            match arrival:
                case _Began():
                    self._topic_id, self._place = arrival.place.topic_id, dict(arrival.place.offsets)
                    self._ring_start = {
                        one: max(begins, self._ring_start.get(one, 0)) for one, begins in arrival.start.items()
                    }
                    self._ready.set()
                case _Lost():
                    self._forget()
                    for listener in self._listeners:
                        listener.put(End(arrival.reason))
                case _:
                    await self._spread(arrival)

    async def _spread(self, records: list[Invalidated]) -> None:
        # Whoever listens now or not: who connects again hears of these from the ring.
        await self._cache.raise_floors((one.key, one.floor) for one in records)
        for one in records:
            self._ring.append(one)
            if self._ready.is_set():
                self._place[one.partition] = one.offset + 1
                self._tell(_news(one, self._place))
        while len(self._ring) > RING_MAX:
            oldest = self._ring.popleft()
            self._ring_start[oldest.partition] = oldest.offset + 1

    def _tell(self, news: Change | Reset) -> None:
        for listener in self._listeners:
            if isinstance(news, Reset) or listener.wants(news.event):
                listener.put(news)

    def _forget(self) -> None:
        self._run += 1
        self._ready.clear()
        self._ring.clear()
        self._ring_start = {}

    async def _watch(self) -> None:
        """Ends what is stuck, the reader when nobody listens, and everybody when the process is to end."""
        while True:
            await asyncio.sleep(_TICK_S)
            metrics.CHANGE_LISTENERS.set(len(self._listeners))
            now = time.monotonic()
            for listener in list(self._listeners):
                if self.ending():
                    listener.put(End())
                elif listener.full_since is not None and now - listener.full_since > STUCK_S and listener.task:
                    listener.task.cancel()
            if not self.listening and self._wanted.is_set() and now - self._idle_since > IDLE_S:
                self._wanted.clear()
                self._forget()

    # --- the reader's thread

    def _read(self) -> None:
        while not self._stop.is_set():
            self._wanted.wait()
            run = self._run
            try:
                self._follow(run)
            except TailLost:
                self._post(run, _Lost("no longer in the log"))
            except Unavailable as exc:
                _log.warning("waiting", reason=str(exc))
                self._stop.wait(_AWAY_S)

    def _follow(self, run: int) -> None:
        tail = Tail(self._kafka, CACHE_INVALIDATED)
        try:
            began = tail.ask().answer()
            start = {one: max(began.first[one], end - BACK) for one, end in began.end.items()}
            tail.stand_at(start)
            ready = False
            asked: tuple[Asked, Mapping[int, int]] | None = None
            checked = time.monotonic()
            while not self._stop.is_set() and run == self._run:
                records = self._take(tail)
                if records:
                    self._post(run, records)
                if not ready and all(at >= began.end[one] for one, at in tail.positions.items()):
                    ready = True
                    self._post(run, _Began(Place(began.topic_id, tail.positions), start))
                if asked is None and time.monotonic() - checked > CHECK_S:
                    asked = tail.ask(), tail.positions
                if asked is not None and asked[0].done:
                    checked = time.monotonic()
                    (question, stood), asked = asked, None
                    try:
                        held = question.answer()
                    except Unavailable:
                        continue  # it reads on by itself when Kafka is back
                    if held.topic_id != began.topic_id or any(at > held.end[one] for one, at in stood.items()):
                        raise TailLost("another log")
        finally:
            tail.close()

    def _post(self, run: int, arrival: _Arrival) -> None:
        """Waits while the loop has not taken what was posted before."""
        put = asyncio.run_coroutine_threadsafe(self._arrivals.put((run, arrival)), self._loop)
        while not self._stop.is_set():
            try:
                put.result(_TAKE_S)
                return
            except TimeoutError:
                continue


def _news(one: Invalidated, place: Mapping[int, int]) -> Change | Reset:
    """What a record means to listeners; ``place``: where who is told to begin anew stands then."""
    if one.event is None:
        return Reset("a change can't be read", dict(place))
    if one.key == WHOLE_MODEL:
        return Reset("another model is live", dict(place))
    return Change(one.partition, one.offset, one.event)
