"""The loop of a projection: batch, one PostgreSQL transaction, next batch.

    settle: read offsets ─ is it still that log? ─ stand there
       ▲                                             │
       │ any doubt: drop the batch                   ▼
       └──────────── decode ─ dead letters acknowledged ─ tx: rows, outbox, next offset ─ commit

There is one way back from everything that can be waited out (PostgreSQL, Kafka or the registry away, another
owner, a rebalance): drop what is in hand and settle again from the offsets PostgreSQL holds. Whether a COMMIT
whose answer was lost took place, those offsets tell.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Generic

from confluent_kafka import Message

from projections import flood, outbox
from projections.base import E, Folded, Projection, Record
from projections.batches import sort_out
from projections.database import Writer
from projections.decoding import Decoded, Decoder, Poison, place
from projections.flood import FloodGuard
from projections.log_guard import LogGuard
from projections.offsets import Fenced, Offsets, Position
from projections.source import LogAnomaly, LogTruncated, Source, newest_of_each
from schemas.topics import FOREVER_MS
from streams.runtime import logs, metrics
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.contract import Contract
from streams.runtime.deadletter import announce
from streams.runtime.errors import Unavailable
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.outlet import Outlet
from streams.runtime.settings import Settings

TAKE_WAIT_S = 0.25
CHECK_EVERY_S = 2.0
BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 3.0
EVENT_DAYS_KEPT = 30
EVENT_DAYS_AHEAD = 3
HOUSEKEEPING_EVERY_S = 3600.0

_log = logs.get(__name__)


class Runner(Generic[E]):
    """Runs one projection until told to stop.

    Ends with ConfigurationError when an operator must act (another log, a flood, an older build), Fatal when the
    process must be replaced; anything unexpected passes through, and the records are processed again.
    """

    def __init__(
        self,
        projection: Projection[E],
        settings: Settings,
        contract: Contract,
        *,
        clock: Clock | None = None,
        failpoint: Failpoint = disarmed,
        group: str | None = None,
    ) -> None:
        """``group``: the consumer group, by default ``projection.<name>``."""
        self._projection = projection
        self._name = f"projection.{projection.name}"
        self._settings = settings
        self._failpoint = failpoint
        self._clock = clock or SystemClock()
        self._group = group or self._name
        asked = settings.playback.batch_records_max
        self._records_max = min(asked, projection.batch_records_max or asked)
        self._writer = Writer(settings.postgres.conninfo("projector"), projection.prepare)
        self._offsets = Offsets(projection.name, projection.topic.name)
        self._guard = LogGuard(settings.kafka, projection.topic, projection.name, self._clock)
        self._decoder = Decoder(projection, contract, self._clock)
        self._outlet = Outlet(settings.kafka)
        self._flood = FloodGuard()
        self._resumed_through: Mapping[int, int] = {}
        self._positions: dict[int, Position] = {}
        self._checked_at = 0.0
        self._kept_house_at: float | None = None
        # Whoever ran before may have ended between a batch and what it left to tidy.
        self._untidy = True
        self._random = random.Random()  # noqa: S311 - spreads retries

    def run(self, stop: threading.Event) -> None:
        """Project until ``stop`` is set; the batch in hand is finished first."""
        source = Source(
            self._settings.kafka,
            self._projection.topic,
            self._group,
            session_timeout_s=self._settings.playback.session_timeout_s,
            gather_ms=self._projection.gather_ms,
        )
        try:
            failures = 0
            while not stop.is_set():
                try:
                    self._step(source)
                    if failures:
                        _log.info("going on", projection=self._projection.name, after_failures=failures)
                    failures = 0
                except Fenced as exc:
                    metrics.PROJECTION_FENCED.labels(self._projection.name).inc()
                    _log.info("another owner took over, reading its offsets", reason=str(exc))
                    source.unsettled = True
                except Unavailable as exc:
                    failures += 1
                    metrics.PROJECTION_RETRIES.labels(self._projection.name).inc()
                    if failures == 1:
                        _log.warning("waiting", projection=self._projection.name, reason=str(exc))
                    self._wait(source, failures, stop)
        finally:
            # Leaving the group hands the partitions on at once, whatever ended us.
            source.close()
            self._outlet.close()
            self._writer.close()

    def _step(self, source: Source) -> None:
        if source.unsettled and source.assigned:
            self._settle(source)
        try:
            messages = source.take(self._records_max, TAKE_WAIT_S)
        except LogTruncated as exc:
            position = self._positions.get(exc.partition, Position(exc.partition))
            raise self._guard.truncated(position) from exc
        except LogAnomaly as exc:
            self._check()
            # The log is as it should be, so the complaint was about a moment (a leader election).
            source.unsettled = True
            raise Unavailable(f"Kafka could not serve our offsets: {exc}") from exc
        # Fetched for a position that was left since: applied already.
        messages = [m for m in messages if place(m)[1] >= self._positions[place(m)[0]].next_offset]
        if messages:
            self._apply(source, messages)
        if not source.unsettled and time.monotonic() - self._checked_at >= CHECK_EVERY_S:
            self._check()
            self._keep_house()

    def _check(self) -> None:
        """Is it still that log, and how much of it is left?"""
        behind = self._guard.check(self._positions.values())
        metrics.PROJECTION_BEHIND_RECORDS.labels(self._projection.name).set(behind)
        self._checked_at = time.monotonic()

    def _settle(self, source: Source) -> None:
        """Read the offsets, hold them against the log, and stand there."""
        partitions = sorted(source.assigned)
        topic_id = self._guard.topic_id()
        extents = self._guard.extents(partitions)
        with self._writer.transaction() as tx:
            breaker = flood.read_breaker(tx, self._name)
            if breaker is not None and breaker.open:
                raise flood.refusal(self._name, breaker.reason)
            positions = self._offsets.read(tx, partitions)
            for partition, position in positions.items():
                if position.topic_id is None:
                    # What expires by itself was not lost: who comes later begins with what there is.
                    expires = self._projection.topic.retention_ms != FOREVER_MS
                    begin = extents[partition].first if position.adopting or expires else 0
                    positions[partition] = self._offsets.bind(tx, position, topic_id, begin)
        self._resumed_through = breaker.through if breaker else {}
        self._positions = positions
        self._check()
        self._keep_house()
        source.stand_at(positions.values())

    def _apply(self, source: Source, messages: Sequence[Message]) -> None:
        # Asked after the fetch and answered before the commit: these records are of the log we know.
        asked = self._guard.ask()
        started = time.monotonic()
        decoded = self._decoder.decode(messages, self._positions)
        outcomes = self._hold_flood(messages, decoded)
        self._bury(decoded.poison)
        records, moves = sort_out(self._projection, self._positions, messages, decoded)
        with self._writer.transaction() as tx:
            self._failpoint("projection.tx_open")
            self._offsets.hold(tx, [seen for seen, _ in moves])
            folded = self._projection.fold(records, tx) if records else Folded(())
            self._failpoint("projection.rows_written")
            outbox.write(tx, folded.invalidations)
            self._failpoint("projection.outbox_written")
            for seen, new in moves:
                self._offsets.advance(tx, seen, new)
            self._failpoint("projection.offset_written")
            self._guard.confirm(asked, [seen for seen, _ in moves])
        self._positions |= {new.partition: new for _, new in moves}
        if folded.untidy:
            self._untidy, self._kept_house_at = True, None
        self._failpoint("projection.committed")
        self._flood.keep(outcomes)
        source.report({new.partition: new.next_offset for _, new in moves})
        self._account(decoded, records, folded, time.monotonic() - started)

    def _hold_flood(self, messages: Sequence[Message], decoded: Decoded[E]) -> list[bool]:
        """Which messages count as dead letters: those of a flood an operator has resumed do not.

        Opens the breaker and raises ConfigurationError when there are too many.
        """
        counted = [
            dead and not self._was_resumed(message) for message, dead in zip(messages, decoded.outcomes, strict=True)
        ]
        reason = self._flood.trips(counted)
        if reason is None:
            return counted
        through = {partition: place(message)[1] for partition, message in newest_of_each(messages).items()}
        with self._writer.transaction() as tx:
            flood.open_breaker(tx, self._name, reason, through)
        raise flood.refusal(self._name, reason)

    def _was_resumed(self, message: Message) -> bool:
        partition, offset = place(message)
        return offset <= self._resumed_through.get(partition, -1)

    def _bury(self, poison: Sequence[Poison]) -> None:
        """Return when every letter is acknowledged: only then may the offset pass its record."""
        if not poison:
            return
        topic_ids = {partition: position.topic_id or "" for partition, position in self._positions.items()}
        letters = [self._decoder.letter(one, topic_ids[place(one.message)[0]], self._name) for one in poison]
        self._outlet.publish([self._decoder.record_of(letter) for letter in letters])
        for letter in letters:
            announce(letter)

    def _account(self, decoded: Decoded[E], records: Sequence[Record[E]], folded: Folded, seconds: float) -> None:
        name = self._projection.name
        metrics.PROJECTED_RECORDS.labels(name).inc(len(decoded.outcomes))
        metrics.PROJECTION_SECONDS.labels(name).observe(seconds)
        metrics.STALE_PREVENTED.labels(name).inc(folded.stale)
        if records:
            age_ms = self._clock.now_ms() - max(record.timestamp for record in records)
            metrics.PROJECTION_LAG_SECONDS.labels(name).set(max(0, age_ms) / 1000)
        if logging.getLogger(__name__).isEnabledFor(logging.DEBUG):
            for record in records:
                _log.debug(
                    "projected",
                    correlation_id=record.event.correlation_id,
                    event_id=record.event.event_id,
                    partition=record.partition,
                    offset=record.offset,
                )

    def _wait(self, source: Source, failures: int, stop: threading.Event) -> None:
        """Back off with full jitter while staying in the group."""
        longest = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** min(failures, 10))
        until = time.monotonic() + self._random.uniform(BACKOFF_FIRST_S, longest)
        while not stop.is_set() and (left := until - time.monotonic()) > 0:
            source.idle(min(left, 0.1))
        source.unsettled = True

    def _keep_house(self) -> None:
        """Now and then: partitions of processed_events for the days to come, and away with the expired ones; and what
        the projection has to tidy."""
        now = time.monotonic()
        if self._kept_house_at is not None and now - self._kept_house_at < HOUSEKEEPING_EVERY_S:
            return
        self._kept_house_at = now
        try:
            with self._writer.transaction() as tx:
                tx.execute("SELECT model.keep_event_days(%s, %s)", (EVENT_DAYS_AHEAD, EVENT_DAYS_KEPT))
            if self._untidy:
                with self._writer.transaction() as tx:
                    self._projection.tidy(tx)
                self._untidy = False
        except Unavailable as exc:
            # A long reader holds the tables: rows of a day without a partition go to the default one.
            _log.info("housekeeping put off", reason=str(exc))
