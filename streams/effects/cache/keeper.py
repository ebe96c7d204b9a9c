"""The cache worker: what became stale in the log becomes stale in the cache, which is open only while that holds.

    join ─ open? ─► go on from its offsets ─┐
      └ closed ─► wait QUARANTINE_S ─► open ┴─► follow: take ─► raise floors + offsets (one script) ─► renew ─┐
                                                  ▲                                                      │
         a gap, a restart, too far behind, a rebuilt model ◄── lapsed ◄──────────────────────────────────┘

A generation begins empty, at the end of the log: whatever is read from then on was read after those ends. It stays open
for a moment at a time, and is said to be open again only while everything that was in the log STALE_S ago is in the
cache. So what a cached answer can miss is bounded, and when this worker or Valkey is away or frozen readers go past the
cache by themselves.

Several workers may run: floors only rise, and one that finds the cache open goes on beside the other.
"""

from __future__ import annotations

import json
import random
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from valkey import Valkey
from valkey.backoff import NoBackoff
from valkey.exceptions import ValkeyError
from valkey.retry import Retry

from schemas.events import WHOLE_MODEL, CacheInvalidated
from schemas.topics import CACHE_INVALIDATED
from streams.runtime import cache_scripts as scripts
from streams.runtime import logs, metrics
from streams.runtime.cache import OPEN_MS, REST_S, TIMEOUT_S, Stamp
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.contract import Contract
from streams.runtime.errors import PlayheadError, Unavailable
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.failures import failed
from streams.runtime.invalidations import read_invalidation
from streams.runtime.settings import Settings
from streams.runtime.tail import Asked, Extents, Tail, TailLost

QUARANTINE_S: Final = REST_S + TIMEOUT_S + 0.4
"""A new generation waits so long: by then every reader that has lost Valkey has tried it again, and none answers
without telling it."""
STALE_S: Final = 5.0
RENEW_S: Final = 0.3
ASK_S: Final = 0.25
RECORDS_MAX: Final = 1_000
TAKE_S: Final = 0.1
_BACKOFF_S: Final = 1.0
_AWAY: Final = (ValkeyError, OSError)

_log = logs.get(__name__)


class Lapsed(PlayheadError):
    """This generation is over, and why (a label)."""


class Keeper:
    def __init__(
        self,
        settings: Settings,
        url: str,
        contract: Contract,
        *,
        clock: Clock | None = None,
        failpoint: Failpoint = disarmed,
        quarantine_s: float = QUARANTINE_S,
        open_ms: int = OPEN_MS,
        stale_s: float = STALE_S,
        heard: Callable[[Sequence[CacheInvalidated]], None] = lambda _: None,
    ) -> None:
        """``heard`` is told of invalidations once the cache knows them; it may hear of some twice, or of none."""
        self._contract = contract
        self._clock = clock or SystemClock()
        self._failpoint = failpoint
        self._quarantine_s = quarantine_s
        self._open_ms = open_ms
        self._stale_s = stale_s
        self._heard = heard
        self._tail = Tail(settings.kafka, CACHE_INVALIDATED)
        self._valkey = Valkey.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0)
        )
        self._join = self._valkey.register_script(scripts.JOIN)
        self._open = self._valkey.register_script(scripts.OPEN)
        self._raise = self._valkey.register_script(scripts.RAISE)
        self._renew = self._valkey.register_script(scripts.RENEW)
        self._close = self._valkey.register_script(scripts.CLOSE)

    def run(self, stop: threading.Event) -> None:
        """Keep the cache until ``stop`` is set; waits for Valkey and Kafka when they are away."""
        away = False
        try:
            while not stop.is_set():
                try:
                    extents, generation = self._enter(stop)
                    if generation is not None:
                        away = False
                        self._follow(generation, extents, stop)
                except Lapsed as exc:
                    _log.warning("the cache begins anew", reason=str(exc))
                    metrics.CACHE_GENERATIONS.labels(str(exc)).inc()
                except (Unavailable, *_AWAY) as exc:
                    failed("kafka" if isinstance(exc, Unavailable) else "valkey", exc)
                    if not away:
                        _log.warning("waiting", error_class=type(exc).__name__)
                    away = True
                    stop.wait(random.uniform(0.1, _BACKOFF_S))  # noqa: S311 - spreads retries
                finally:
                    metrics.CACHE_OPEN.set(0)
        finally:
            self._tail.close()
            self._valkey.connection_pool.disconnect()

    # --- a generation begins

    def _enter(self, stop: threading.Event) -> tuple[Extents, str | None]:
        """Stand where the open generation was read to, or open one; None: neither could be done yet."""
        run_id, newest, *found = self._join()
        if found:
            return self._go_on(newest.decode(), found[0], stop)
        stop.wait(self._quarantine_s)
        extents = self._tail.ask().answer()
        generation = secrets.token_hex(8)
        self._failpoint("cache.opening")
        said = self._open(
            args=[
                run_id,
                generation,
                self._open_ms,
                scripts.BUCKET_S,
                json.dumps(dict(extents.end)),
                extents.topic_id,
                newest,
            ]
        )
        if stop.is_set() or said != b"opened":
            return extents, None
        self._failpoint("cache.opened")
        self._tail.stand_at(extents.end)
        _log.info("the cache is open", generation=generation)
        return extents, generation

    def _go_on(self, generation: str, found: Sequence[bytes], stop: threading.Event) -> tuple[Extents, str | None]:
        extents = self._tail.ask().answer()
        offsets = {found[index].decode(): found[index + 1].decode() for index in range(0, len(found), 2)}
        topic_id = offsets.pop("topic", None)
        positions = {int(partition): int(offset) for partition, offset in offsets.items()}
        if topic_id is None or positions.keys() != extents.end.keys():
            # Evicted, say: who opened it may know better, and without anybody it closes by itself.
            stop.wait(RENEW_S)
            return extents, None
        self._hold(generation, positions, topic_id, extents)
        self._tail.stand_at(positions)
        _log.info("going on with the open cache", generation=generation)
        return extents, generation

    def _hold(self, generation: str, positions: Mapping[int, int], topic_id: str, extents: Extents) -> None:
        """Raise Lapsed unless the log has everything from ``positions`` on."""
        lost = topic_id != extents.topic_id or any(
            not extents.first[partition] <= offset <= extents.end[partition] for partition, offset in positions.items()
        )
        if lost:
            self._end(generation, "gap")

    def _end(self, generation: str, reason: str) -> None:
        """Nothing of this generation is shown from now on. Always raises Lapsed."""
        self._close(args=[generation])
        raise Lapsed(reason)

    # --- while it lasts

    def _follow(self, generation: str, began: Extents, stop: threading.Event) -> None:
        known = None if self._behind(began) else began.asked
        target: Extents | None = began if known is None else None
        asked: tuple[Asked, Mapping[int, int]] | None = None
        renewed = asked_at = 0.0
        while not stop.is_set():
            try:
                self._raise_some(generation)
            except TailLost:
                self._end(generation, "gap")
            now = time.monotonic()
            if asked is None and now - asked_at >= ASK_S:
                # Where we stood when we asked: what is beyond the end then is of a log that lost its tail.
                asked, asked_at = (self._tail.ask(), self._tail.positions), now
            if asked is not None and asked[0].done:
                extents, stood = asked[0].answer(), asked[1]
                asked = None
                self._hold(generation, stood, began.topic_id, extents)
                target = target or extents
            if target is not None and not self._behind(target):
                known, target = target.asked, None
            age = now - known if known is not None else None
            if age is not None:
                metrics.CACHE_BEHIND_SECONDS.set(max(0.0, age))
            if age is not None and age <= self._stale_s and now - renewed >= RENEW_S:
                renewed = now
                self._say_open(generation)

    def _behind(self, extents: Extents) -> bool:
        return any(self._tail.positions[partition] < end for partition, end in extents.end.items())

    def _say_open(self, generation: str) -> None:
        said = self._renew(args=[generation, self._open_ms, scripts.BUCKET_S])
        if said != b"renewed":
            raise Lapsed(said.decode())
        metrics.CACHE_OPEN.set(1)
        self._failpoint("cache.renewed")

    def _raise_some(self, generation: str) -> None:
        messages = self._tail.take(RECORDS_MAX, TAKE_S)
        if not messages:
            return
        self._failpoint("cache.read")
        records = [read_invalidation(self._contract, message) for message in messages]
        floors: dict[str, Stamp] = {}
        for one in records:
            floors[one.key] = max(one.floor, floors.get(one.key, one.floor))
        if WHOLE_MODEL in floors:
            self._end(generation, "rebuilt")
        named = [str(part) for pair in floors.items() for part in pair]
        offsets = {place: self._tail.positions[place] for place in {one.partition for one in records}}
        said = self._raise(args=[generation, json.dumps(offsets), *named])
        if said != b"raised":
            raise Lapsed("lapsed")
        self._failpoint("cache.raised")
        events = [one.event for one in records if one.event is not None]
        self._heard(events)
        self._account(events)

    def _account(self, events: Sequence[CacheInvalidated]) -> None:
        now_ms = self._clock.now_ms()
        metrics.CACHE_INVALIDATIONS.inc(len(events))
        for event in events:
            metrics.CACHE_LAG_SECONDS.observe(max(0, now_ms - event.received_at) / 1000)
            _log.debug(
                "cache told", correlation_id=event.correlation_id, event_id=event.event_id, version=event.version
            )
