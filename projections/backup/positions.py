"""Where projections go on after a restore: pure decisions over what the backup says and what the log holds now.

A projection whose rows are rebuilt begins at the first record. One whose rows are in the backup goes on where the
backup stood, as far as that log has that place: a log that is older than the backup ends before it, another log has
none. Then the log_epoch rises, so that what the log says from there on is newer than every version ever given, and the
causes applied are forgotten: they may be ahead of the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from projections.backup.archive import SavedOffset
from projections.log_guard import Extent


@dataclass(frozen=True, slots=True)
class Placed:
    """One row of model.offsets to be. ``adopting``: begin at the first record there is."""

    partition: int
    topic_id: str | None
    log_epoch: int
    next_offset: int
    adopting: bool
    last_causes: Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Placing:
    """``words``: what an operator should know, for each thing that was not as the backup had it."""

    rows: tuple[Placed, ...]
    words: tuple[str, ...]


def place(
    saved: Sequence[SavedOffset], topic_id: str, extents: Mapping[int, Extent], *, rebuilt: bool, log_epoch: int = 1
) -> Placing:
    """Where one projection (``saved``: its partitions) stands from now on in the log ``topic_id`` with ``extents``.

    ``log_epoch``: the highest that the database knows already; it never falls.
    """
    name, topic = saved[0].projection, saved[0].topic
    words: list[str] = []
    another = any(one.topic_id not in (None, topic_id) for one in saved)
    if another:
        words.append(f"{name}: {topic} is another log than the backup's: it is read from its first record")
    older = [] if another else [one for one in saved if one.next_offset > extents[one.partition].end]
    words += [
        f"{name}: {topic}, partition {one.partition} ends at {extents[one.partition].end}, the backup stood at "
        f"{one.next_offset}: the log is older than the backup, and is read on from its end"
        for one in older
    ]
    epoch = max(log_epoch, *(one.log_epoch for one in saved)) + (1 if another or older else 0)
    rows: list[Placed] = []
    for one in sorted(saved, key=lambda one: one.partition):
        extent = extents[one.partition]
        if rebuilt or another or one.topic_id is None:
            rows.append(Placed(one.partition, None, epoch, 0, True, {}))
            continue
        if one.next_offset < extent.first:
            words.append(
                f"{name}: {topic}, partition {one.partition} begins at {extent.first}: "
                f"{extent.first - one.next_offset} records after the backup are gone"
            )
        at = max(extent.first, min(one.next_offset, extent.end))
        rows.append(Placed(one.partition, topic_id, epoch, at, False, {} if older else one.last_causes))
    return Placing(tuple(rows), tuple(words))
