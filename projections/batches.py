"""What of a fetched batch is still to be applied, and where that leaves each partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import Message

from projections.base import E, Projection, Record
from projections.decoding import Decoded, place
from projections.offsets import Position
from projections.source import newest_of_each
from schemas.events import SourcePosition
from streams.runtime import metrics

Moves = list[tuple[Position, Position]]
"""Of each partition of a batch: where it stood, where it stands afterwards."""


def sort_out(
    projection: Projection[E], positions: Mapping[int, Position], messages: Sequence[Message], decoded: Decoded[E]
) -> tuple[list[Record[E]], Moves]:
    """The records nobody has applied yet, and for each partition where it stands before and after.

    A record whose cause was applied before is a repeat: a transaction that Kafka lost track of can leave a
    batch in the log twice (the engine's outputs carry their cause for this).
    """
    fresh: list[Record[E]] = []
    last: dict[int, dict[str, tuple[int, int]]] = {}
    for record in decoded.records:
        cause = projection.cause(record.event)
        if cause is not None:
            causes = last.get(record.partition)
            if causes is None:
                causes = last[record.partition] = dict(positions[record.partition].last_causes)
            newest = causes.get(cause.topic_id)
            if newest is not None and (cause.offset, cause.index) <= newest:
                metrics.REPEATS_DROPPED.labels(projection.name).inc()
                continue
            # The order tells age: the newest goes last.
            causes.pop(cause.topic_id, None)
            causes[cause.topic_id] = (cause.offset, cause.index)
        fresh.append(record)
    moves = []
    for partition, message in sorted(newest_of_each(messages).items()):
        seen = positions[partition]
        applied = [SourcePosition(topic, partition, *at) for topic, at in last.get(partition, {}).items()]
        moves.append((seen, seen.after(place(message)[1] + 1, message.leader_epoch(), applied)))
    return fresh, moves
