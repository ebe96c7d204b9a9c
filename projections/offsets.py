"""Where a projection stands, kept in PostgreSQL beside the rows it made.

``next_offset`` moves in the transaction of its rows, and only from the value this owner last saw: an owner that
was replaced meanwhile changes nothing (compare-and-set), so no lock is held between batches and no generation
number is trusted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg

from projections.base import Connection
from schemas.events import SourcePosition
from streams.runtime.errors import ConfigurationError, PlayheadError

CAUSE_TOPICS_MAX = 8
"""Topic ids of causes remembered for each partition; the newest stay."""


class Fenced(PlayheadError):
    """Another owner moved this partition: roll back, drop the batch, read the offsets again."""


@dataclass(frozen=True, slots=True)
class Position:
    """One partition of one projection. ``topic_id`` None: not bound to a log yet.

    ``adopting``: an operator accepted whatever log there is, from its first record. ``last_causes``: topic id of
    a cause to (offset, index) of the newest applied.
    """

    partition: int
    topic_id: str | None = None
    leader_epoch: int | None = None
    log_epoch: int = 1
    next_offset: int = 0
    adopting: bool = False
    last_causes: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def applied(self, cause: SourcePosition) -> bool:
        """Whether what this cause led to was applied before: an orphaned batch, written twice to the log."""
        last = self.last_causes.get(cause.topic_id)
        return last is not None and (cause.offset, cause.index) <= last

    def after(self, next_offset: int, leader_epoch: int | None, causes: Sequence[SourcePosition]) -> Position:
        """The position when records up to ``next_offset``, caused by ``causes`` in order, are applied."""
        last = dict(self.last_causes)
        for cause in causes:
            last.pop(cause.topic_id, None)
            last[cause.topic_id] = (cause.offset, cause.index)
        newest = dict(list(last.items())[-CAUSE_TOPICS_MAX:])
        return replace(
            self,
            next_offset=next_offset,
            leader_epoch=self.leader_epoch if leader_epoch is None else leader_epoch,
            last_causes=newest,
        )


class Offsets:
    """The rows of one projection and topic in model.offsets. Every call runs in the caller's transaction."""

    def __init__(self, projection: str, topic: str) -> None:
        self._projection = projection
        self._topic = topic

    def read(self, tx: Connection, partitions: Sequence[int]) -> dict[int, Position]:
        """The positions of ``partitions``; those never read before begin at 0, bound to no log."""
        tx.execute(
            "INSERT INTO model.offsets (projection, topic, partition)"
            " SELECT %s, %s, p FROM unnest(%s::int[]) AS p ON CONFLICT DO NOTHING",
            (self._projection, self._topic, sorted(partitions)),
        )
        rows = tx.execute(
            "SELECT partition, topic_id, leader_epoch, log_epoch, next_offset, adopting, last_causes"
            " FROM model.offsets WHERE projection = %s AND topic = %s AND partition = ANY(%s)",
            (self._projection, self._topic, list(partitions)),
        ).fetchall()
        return {row[0]: _position(row) for row in rows}

    def bind(self, tx: Connection, position: Position, topic_id: str, next_offset: int) -> Position:
        """Tie an unbound position to the log it reads from now on. Raises Fenced."""
        done = tx.execute(
            "UPDATE model.offsets SET topic_id = %s, next_offset = %s, adopting = false, updated_at = now()"
            " WHERE projection = %s AND topic = %s AND partition = %s AND topic_id IS NULL AND log_epoch = %s",
            (topic_id, next_offset, self._projection, self._topic, position.partition, position.log_epoch),
        )
        if done.rowcount != 1:
            raise Fenced(f"partition {position.partition} was bound by another owner")
        return replace(position, topic_id=topic_id, next_offset=next_offset, adopting=False)

    def hold(self, tx: Connection, positions: Sequence[Position]) -> None:
        """Lock the rows until the transaction ends, so that two owners of a partition wait here and not inside
        each other's rows. Raises Fenced when a position is not what we last saw."""
        rows = tx.execute(
            "SELECT partition, topic_id, log_epoch, next_offset FROM model.offsets"
            " WHERE projection = %s AND topic = %s AND partition = ANY(%s) ORDER BY partition FOR NO KEY UPDATE",
            (self._projection, self._topic, [position.partition for position in positions]),
        ).fetchall()
        found = {row[0]: tuple(row[1:]) for row in rows}
        for position in positions:
            if found.get(position.partition) != (position.topic_id, position.log_epoch, position.next_offset):
                raise Fenced(f"partition {position.partition} was moved by another owner")

    def advance(self, tx: Connection, seen: Position, new: Position) -> None:
        """Move from ``seen`` to ``new``. Raises Fenced when the row is not at ``seen``."""
        done = tx.execute(
            "UPDATE model.offsets SET next_offset = %s, leader_epoch = %s, last_causes = %s, updated_at = now()"
            " WHERE projection = %s AND topic = %s AND partition = %s"
            " AND next_offset = %s AND log_epoch = %s AND topic_id = %s",
            (
                new.next_offset,
                new.leader_epoch,
                json.dumps(new.last_causes),
                self._projection,
                self._topic,
                seen.partition,
                seen.next_offset,
                seen.log_epoch,
                seen.topic_id,
            ),
        )
        if done.rowcount != 1:
            raise Fenced(f"partition {seen.partition} was moved by another owner")


def _position(row: Sequence[Any]) -> Position:
    partition, topic_id, leader_epoch, log_epoch, next_offset, adopting, causes = row
    last = {topic: (int(offset), int(index)) for topic, (offset, index) in causes.items()}
    return Position(partition, topic_id, leader_epoch, log_epoch, next_offset, adopting, last)


def adopt_log(conninfo: Mapping[str, Any], projection: str) -> int:
    """Accept whatever log there is now for ``projection``; returns the new log_epoch.

    All partitions begin at the first record there is, under a higher log_epoch, so what they hold wins over every
    row of the former log; rows of keys that the new log does not mention stay. A running projector notices by
    itself. Raises ConfigurationError when the projection has never run.
    """
    with psycopg.connect(**dict(conninfo)) as connection:
        rows = connection.execute(
            "SELECT log_epoch FROM model.offsets WHERE projection = %s FOR UPDATE", (projection,)
        ).fetchall()
        if not rows:
            raise ConfigurationError(f"projection {projection!r} has never run here: there is no log to replace")
        log_epoch = max(int(row[0]) for row in rows) + 1
        connection.execute(
            "UPDATE model.offsets SET log_epoch = %s, topic_id = NULL, leader_epoch = NULL, next_offset = 0,"
            " adopting = true, last_causes = '{}', updated_at = now() WHERE projection = %s",
            (log_epoch, projection),
        )
    return log_epoch


def rewind(conninfo: Mapping[str, Any], projection: str) -> None:
    """Read the same log again from its first record. Changes no row: everything in it was applied before."""
    with psycopg.connect(**dict(conninfo)) as connection:
        connection.execute(
            "UPDATE model.offsets SET next_offset = 0, leader_epoch = NULL, last_causes = '{}', updated_at = now()"
            " WHERE projection = %s",
            (projection,),
        )
