"""The dead letter projection: dead.letters to a list for operators, without payloads.

Of one origin (a partition of a topic, and who gave up) the newest KEPT_OF_ONE_ORIGIN letters have a row, and of all
those of the topic's retention: a flood fills the table no further, and pushes out nobody else's letters. What has no
row is counted, and lies in the topic. What operators made of a letter is no part of this: core.dead_letter_marks.

A letter that comes again is the same one. What was given up once more since, as a task may be, has failed later: its
row tells of that, under the number it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from projections.base import Connection, Folded, Projection, Record
from schemas.events import DeadLetter, Event, SourcePosition
from schemas.placement import partition_of
from schemas.topics import DEAD_LETTERS
from streams.runtime.deadletter import dead_letter_key
from streams.runtime.errors import Permanent

KEPT_OF_ONE_ORIGIN: Final = 2_000
"""As many as a flood has before its consumer's breaker has opened twenty times."""
BATCH_RECORDS_MAX: Final = 100
"""Letters carry whole records: so many of the largest are 100 MiB."""

_COLUMNS: Final = (
    "letter_id, topic, topic_id, topic_partition, topic_offset, consumer, cause_class, error_class, error_text,"
    " source_id, correlation_id, schema_id, key_bytes, value_bytes, attempts, failed_at, logged_at, number,"
    " partition, log_epoch, version"
)
_ORIGINS: Final = """
SELECT o.topic, o.topic_partition, o.consumer, o.letters, o.first_at, o.last_at, o.partition, o.log_epoch, o.version
FROM model.dead_letter_origins o
JOIN unnest(%s::text[], %s::int[], %s::text[]) AS w (topic, topic_partition, consumer)
    USING (topic, topic_partition, consumer)"""
_KNOWN: Final = "SELECT letter_id, number, failed_at FROM model.dead_letters WHERE letter_id = ANY(%s)"
_INSERT: Final = f"INSERT INTO model.dead_letters ({_COLUMNS}) VALUES ({', '.join(['%s'] * 21)})"  # noqa: S608
_UPSERT_ORIGIN: Final = """
INSERT INTO model.dead_letter_origins
    (topic, topic_partition, consumer, letters, first_at, last_at, partition, log_epoch, version)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (topic, topic_partition, consumer) DO UPDATE SET
    letters = excluded.letters, last_at = excluded.last_at, partition = excluded.partition,
    log_epoch = excluded.log_epoch, version = excluded.version"""
_EVICT: Final = (
    "DELETE FROM model.dead_letters WHERE topic = %s AND topic_partition = %s AND consumer = %s AND number <= %s"
)
_EXPIRE: Final = "DELETE FROM model.dead_letters WHERE logged_at < %s AND partition = %s"

OriginKey = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class Origin:
    """Letters of one partition of a topic that one consumer gave up; ``version`` is (log_epoch, offset) of the newest.
    ``letters`` counts them all; times are those of the letters, epoch ms."""

    letters: int
    first_at: int
    last_at: int
    version: tuple[int, int]


class DeadLetterProjection(Projection[DeadLetter]):
    """dead.letters to model.dead_letters and model.dead_letter_origins."""

    name = "dead_letters"
    topic = DEAD_LETTERS
    version = 2
    batch_records_max = BATCH_RECORDS_MAX
    tables = ("dead_letters", "dead_letter_origins")
    from_anywhere = False

    def accept(self, key: bytes, event: Event, partition: int) -> DeadLetter:
        if not isinstance(event, DeadLetter):
            raise Permanent(f"a {type(event).__name__} is no dead letter", cause="wrong_event")
        if key != dead_letter_key(event.topic, event.partition):
            raise Permanent("the key is not where the record lay", cause="key_mismatch")
        if partition != partition_of(key, self.topic.partitions):
            raise Permanent("letters of this place are in another partition", cause="wrong_partition")
        return event

    def cause(self, event: DeadLetter) -> SourcePosition | None:
        # The same letter may be written twice, and then has the same id.
        del event
        return None

    def fold(self, batch: Sequence[Record[DeadLetter]], tx: Connection) -> Folded:
        origins = _origins(batch, tx)
        rows = tx.execute(_KNOWN.encode(), ([record.event.event_id for record in batch],)).fetchall()
        known: dict[str, tuple[int, int]] = {letter_id: (number, failed_at) for letter_id, number, failed_at in rows}
        fresh: list[tuple[Any, ...]] = []
        stale = 0
        touched: dict[OriginKey, tuple[Origin, int]] = {}
        for record in batch:
            letter, key = record.event, _key(record.event)
            origin = origins.get(key) or Origin(0, letter.failed_at, letter.failed_at, (0, -1))
            version = (record.log_epoch, record.offset)
            if version <= origin.version:
                stale += 1
                continue
            number, failed_at = known.get(letter.event_id, (0, 0))
            is_listed = number > max(0, origin.letters - KEPT_OF_ONE_ORIGIN)
            if is_listed and letter.failed_at <= failed_at:
                origin = replace(origin, version=version)
            else:
                number = number if is_listed else origin.letters + 1
                known[letter.event_id] = number, letter.failed_at
                fresh.append(_row(record, number))
                origin = Origin(max(number, origin.letters), origin.first_at, letter.failed_at, version)
            origins[key] = origin
            touched[key] = origin, record.partition
        _write(fresh, touched, batch, tx)
        return Folded((), stale=stale)


def _write(
    fresh: Sequence[tuple[Any, ...]],
    touched: dict[OriginKey, tuple[Origin, int]],
    batch: Sequence[Record[DeadLetter]],
    tx: Connection,
) -> None:
    newest: dict[int, int] = {}
    for record in batch:
        newest[record.partition] = max(record.timestamp, newest.get(record.partition, 0))
    with tx.pipeline():
        # A letter that is written once more would meet its own row.
        tx.execute(b"DELETE FROM model.dead_letters WHERE letter_id = ANY(%s)", ([row[0] for row in fresh],))
        if fresh:
            tx.cursor().executemany(_INSERT.encode(), list({row[0]: row for row in fresh}.values()))
        for key, (origin, partition) in sorted(touched.items()):
            tx.execute(
                _UPSERT_ORIGIN.encode(),
                (*key, origin.letters, origin.first_at, origin.last_at, partition, *origin.version),
            )
            tx.execute(_EVICT.encode(), (*key, origin.letters - KEPT_OF_ONE_ORIGIN))
        for partition, logged_at in newest.items():
            tx.execute(_EXPIRE.encode(), (logged_at - DEAD_LETTERS.retention_ms, partition))


def _key(letter: DeadLetter) -> OriginKey:
    return letter.topic, letter.partition, letter.consumer


def _origins(batch: Sequence[Record[DeadLetter]], tx: Connection) -> dict[OriginKey, Origin]:
    keys = sorted({_key(record.event) for record in batch})
    rows = tx.execute(_ORIGINS.encode(), tuple(list(column) for column in zip(*keys, strict=True))).fetchall()
    return {(row[0], row[1], row[2]): Origin(row[3], row[4], row[5], (row[7], row[8])) for row in rows}


def _row(record: Record[DeadLetter], number: int) -> tuple[Any, ...]:
    """In the order of _COLUMNS."""
    letter = record.event
    return (
        letter.event_id,
        letter.topic,
        letter.topic_id,
        letter.partition,
        letter.offset,
        letter.consumer,
        letter.cause_class,
        letter.error_class,
        letter.error_text,
        letter.source_id,
        letter.correlation_id,
        letter.schema_id,
        None if letter.key is None else len(letter.key),
        None if letter.value is None else len(letter.value),
        letter.attempts,
        letter.failed_at,
        record.timestamp,
        number,
        record.partition,
        record.log_epoch,
        record.offset,
    )
