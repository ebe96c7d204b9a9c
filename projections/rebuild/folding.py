"""Fold a projection's log into tables beside the live ones: no effects, no invalidations, resumable at any moment.

Rows and ``offsets`` of the schema move in one transaction, as those of the live model do; so a kill -9 costs the batch
in hand, and the next call goes on where the last commit was.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from typing import Any, Final, Generic

from confluent_kafka import Message

from projections.base import Bulk, Connection, E, Projection, Record, Step
from projections.batches import sort_out
from projections.database import Writer
from projections.decoding import Decoder
from projections.log_guard import LogGuard
from projections.offsets import Offsets, Position
from projections.rebuild import starts
from projections.rebuild.aimed import aim_of, cursor_of
from projections.rebuild.reading import LogReader
from streams.runtime import logs
from streams.runtime.clock import SystemClock
from streams.runtime.contract import Contract
from streams.runtime.errors import ConfigurationError
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.settings import Settings

RECORDS_MAX: Final = 20_000
"""Records in one transaction: what a kill costs."""

_log = logs.get(__name__)


class Folding(Generic[E]):
    """Folds into one schema that ``tables.create`` made. Not thread-safe; close it.

    ``poison``: records passed so far that can't be applied. They are dead letters of the live model's making.
    """

    def __init__(
        self,
        schema: str,
        projection: Projection[E],
        settings: Settings,
        contract: Contract,
        *,
        failpoint: Failpoint = disarmed,
        records_max: int = RECORDS_MAX,
    ) -> None:
        self._projection = projection
        self._failpoint = failpoint
        self._records_max = records_max
        aim = aim_of(schema, [*projection.tables, "offsets"], projection.elsewhere, projection.reads)
        conninfo: dict[str, Any] = {
            **settings.postgres.conninfo("owner"),
            "cursor_factory": cursor_of(aim),
            # What a crash of the server loses is folded again.
            "options": "-c synchronous_commit=off",
        }
        self._writer = Writer(conninfo, projection.prepare)
        self._offsets = Offsets(projection.name, projection.topic.name)
        self._guard = LogGuard(settings.kafka, projection.topic, projection.name, SystemClock())
        self._decoder = Decoder(projection, contract, SystemClock())
        self._reader = LogReader(settings.kafka, projection.topic)
        self._bulk: Bulk[E] | None = None
        # Rows of one batch are on their way to PostgreSQL while those of the next are made.
        self._sender = ThreadPoolExecutor(1, "rebuild")
        self.poison = 0
        self.positions: dict[int, Position] = {}

    def begin(self, positions: Mapping[int, Position], *, bulk_since: date | None = None) -> None:
        """Stand where the schema's offsets say, and at ``positions`` where they say nothing yet.

        ``bulk_since``: the tables hold nothing but what is folded here, from the first record of the log on, so the
        projection's bulk fold may be used; rows that expire count from that day.

        Raises ConfigurationError when the log is another one by now, or begins later.
        """
        topic_id = self._guard.topic_id()
        with self._writer.transaction() as tx:
            known = self._offsets.read(tx, sorted(positions))
            for partition, position in known.items():
                if position.topic_id is None:
                    wanted = positions[partition]
                    tx.execute(
                        "UPDATE model.offsets SET log_epoch = %s WHERE projection = %s AND partition = %s",
                        (wanted.log_epoch, self._projection.name, partition),
                    )
                    unbound = replace(position, log_epoch=wanted.log_epoch)
                    known[partition] = self._offsets.bind(tx, unbound, topic_id, wanted.next_offset)
            self._bulk = None if bulk_since is None else self._projection.bulk(tx, bulk_since)
        self._guard.check(known.values())
        self.positions = known

    def fold(self, ends: Mapping[int, int], stop: threading.Event, moved: Callable[[int], None] | None = None) -> bool:
        """Apply every record below ``ends`` (partition → offset); True when the schema's offsets are exactly there,
        False when ``stop`` was set before. ``moved`` is called after each commit with the records it passed.

        Raises ConfigurationError when the schema is beyond an end, Fenced when somebody else folds into it,
        Unavailable when PostgreSQL or Kafka is away.
        """
        beyond = [p for p, end in ends.items() if self.positions[p].next_offset > end]
        if beyond:
            raise ConfigurationError(f"partitions {beyond} are folded further than the live model has read")
        begin = {partition: self.positions[partition].next_offset for partition in ends}
        read = dict(self.positions)
        sending: Future[int] | None = None
        try:
            for messages in self._reader.between(begin, ends, self._records_max, stop):
                work = self._prepared(messages, read)
                if sending is not None:
                    sent, sending = sending.result(), None
                    if moved is not None:
                        moved(sent)
                sending = self._sender.submit(work)
        finally:
            if sending is not None:
                sent = sending.result()
                if moved is not None:
                    moved(sent)
        if stop.is_set():
            return False
        self._pass(ends)
        return True

    def begins(self) -> dict[int, int] | None:
        """Of each partition the first record there is now; None when none of the topic's ever expires."""
        return starts.first_there_are(self._projection.topic, self.positions, self._reader)

    def close(self) -> None:
        self._sender.shutdown()
        self._reader.close()
        self._writer.close()

    def _prepared(self, messages: Sequence[Message], read: dict[int, Position]) -> Callable[[], int]:
        """What makes the rows of ``messages`` and their offsets, in one transaction; ``read``, where they were read
        from, moves on at once."""
        asked = self._guard.ask()
        with _without_collections():
            decoded = self._decoder.decode(messages, read)
            records, moves = sort_out(self._projection, read, messages, decoded)
            steps = self._bulk.steps(records) if self._bulk is not None and records else None
        read |= {new.partition: new for _, new in moves}

        def work() -> int:
            with self._writer.transaction() as tx:
                self._offsets.hold(tx, [seen for seen, _ in moves])
                self._write(tx, records, steps)
                self._failpoint("rebuild.rows_written")
                for seen, new in moves:
                    self._offsets.advance(tx, seen, new)
                self._guard.confirm(asked, [seen for seen, _ in moves])
            self.positions |= {new.partition: new for _, new in moves}
            self.poison += len(decoded.poison)
            self._failpoint("rebuild.committed")
            return len(messages)

        return work

    def _write(self, tx: Connection, records: Sequence[Record[E]], steps: Sequence[Step] | None) -> None:
        if steps is None:
            if records:
                self._projection.fold(records, tx)
            return
        for step in steps:
            if step.data is None:
                tx.execute(step.statement.encode())
            else:
                with tx.cursor().copy(step.statement.encode()) as copy:
                    copy.write(step.data)

    def _pass(self, ends: Mapping[int, int]) -> None:
        """Step over what is no record between the last one and the ends."""
        short = [self.positions[p] for p, end in sorted(ends.items()) if self.positions[p].next_offset < end]
        if not short:
            return
        with self._writer.transaction() as tx:
            for seen in short:
                new = replace(seen, next_offset=ends[seen.partition])
                self._offsets.advance(tx, seen, new)
                self.positions[seen.partition] = new


@contextmanager
def _without_collections() -> Iterator[None]:
    """Nothing of a batch is in a cycle, and looking for some in so many new objects is more than half of the work."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def fold_into(
    schema: str,
    projection: Projection[Any],
    settings: Settings,
    contract: Contract,
    *,
    begin: Mapping[int, Position],
    ends: Mapping[int, int],
    stop: threading.Event | None = None,
    moved: Callable[[int], None] | None = None,
    failpoint: Failpoint = disarmed,
) -> bool:
    """Fold the records of ``projection`` below ``ends`` (partition → offset) into ``schema``, which ``tables.create``
    made; from where the schema stands, ``begin`` where it has read nothing. False when ``stop`` was set before.

    Raises what ``Folding`` raises.
    """
    folding = Folding(schema, projection, settings, contract, failpoint=failpoint)
    try:
        folding.begin(begin)
        return folding.fold(ends, stop or threading.Event(), moved)
    finally:
        folding.close()
