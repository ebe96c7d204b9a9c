"""Where a unit starts: pure decisions over what the store, the changelog and the group say.

Nothing here guesses. What can be rebuilt is rebuilt; what would lose or double records is refused
with the way out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .changelog import SourceMark
from .errors import Disagreement, Refused
from .store import StoreState

#: The way out when records are gone that were not processed.
ACCEPT_LOSS = "To accept the loss, set the group's offset inside the log and start once with trust_group_offsets."


@dataclass(frozen=True, slots=True)
class LogRange:
    """One partition: first offset kept, end, and the end of what is decided (last stable offset)."""

    topic_id: str
    start: int
    end: int
    stable: int


def rebuild_reason(state: StoreState, logs: Mapping[str, LogRange], now: float, max_age: float) -> str | None:
    """Return why the local copy may not be continued from its changelogs, ``None`` when it may."""
    age = now - state.complete_at
    for topic, log in logs.items():
        position = state.changelogs.get(topic)
        if position is None:
            continue
        if age > max_age and position.offset < log.end:
            # Tombstones older than delete.retention.ms are compacted away; replay would not see them
            # and the old copy would keep deleted keys.
            return f"it is {age / 3600:.1f} h old, deletions in {topic} may be compacted away"
        if position.topic_id != log.topic_id:
            return f"{topic} was recreated"
        if position.offset > log.end:
            return f"local position {position.offset} is beyond the end {log.end} of {topic}"
        if position.offset < log.start:
            return f"local position {position.offset} is before the start {log.start} of {topic}"
    return None


def replay_start(topic: str, partition: int, state: StoreState | None, log: LogRange) -> int:
    """Return the offset to replay a changelog from. Raises Refused when its head is gone."""
    position = state.changelogs.get(topic) if state is not None else None
    if position is not None:
        return position.offset
    if log.start > 0:
        raise Refused(
            f"{topic}[{partition}] starts at {log.start}: its head was deleted, so the state cannot be "
            "rebuilt. Changelogs must have cleanup.policy=compact only. Restore the topic or a local "
            "copy of the state, or process the source again under a new group."
        )
    return 0


def check_changelogs(
    partition: int, marks: Iterable[SourceMark], changelogs: Mapping[str, str], *, trust: bool = False
) -> None:
    """Raise Refused when a table's changelog is another topic than the one its rows went to.

    ``changelogs``: table -> topic id now; ``marks``: the newest of each source. Refused is a table that marks name and
    none of them with the topic of now: only a trusted start can have led to a commit with that id, and since then the
    rows go to it. The others are of sources that were idle since, however long ago they committed. A table that is
    new, or gone, is fine; ``trust`` takes what is there.
    """
    named: dict[str, list[str]] = {}
    for mark in marks:
        for table, topic_id in mark.changelogs:
            named.setdefault(table, []).append(topic_id)
    for table, ids in sorted(named.items()):
        now = changelogs.get(table)
        if now is not None and now not in ids and not trust:
            raise Refused(
                f"table {table!r}[{partition}]: its changelog was recreated: the rows went to topic id "
                f"{' and '.join(sorted(set(ids)))}, the topic is now {now}, so they are gone. Restore the topic, or "
                "process the sources again under a new group. To go on with what the topic holds now, start once with "
                "trust_group_offsets."
            )


def resume_offset(
    topic: str,
    partition: int,
    *,
    committed: int | None,
    mark: SourceMark | None,
    log: LogRange,
    partitions: int,
    trust_group: bool = False,
) -> int:
    """Return the source offset to consume from.

    ``committed`` is the group's offset, ``mark`` what the replayed changelog says; the same
    transaction wrote both. Raises Disagreement when they contradict each other, Refused when they contradict the log.
    """
    where = f"{topic}[{partition}]"
    if mark is not None:
        if mark.topic_id != log.topic_id:
            raise Refused(
                f"{where} was recreated: the state belongs to topic id {mark.topic_id}, the topic is now "
                f"{log.topic_id}. Its offsets mean other records. Start under a new group."
            )
        if mark.partitions != partitions:
            raise Refused(
                f"{where}: the topic had {mark.partitions} partitions and has {partitions} now, so keys "
                "lie elsewhere. Replay into new topics under a new group."
            )
    if mark is None and committed is None:
        return log.start
    if committed is None:
        assert mark is not None
        offset = mark.offset
    elif trust_group or (mark is not None and mark.offset == committed):
        offset = committed
    else:
        said = "nothing" if mark is None else str(mark.offset)
        resume = (
            "Restore the changelog, that of a removed table too when it held the source offsets, or process the "
            "sources again under a new group. Do not delete the group's offsets: everything would be processed again "
            "on top of what the tables hold"
            if mark is None
            else "To resume from the changelog, stop all workers and delete the group's offsets "
            "(kafka-consumer-groups.sh --delete --group ...)"
        )
        raise Disagreement(
            f"{where}: the group's offset is {committed}, the changelog says {said}. They move in one "
            "transaction, so one of them was reset, deleted, belongs to another app, or a broker that was restarted "
            f"lost its part of a transaction. {resume}. To take the group's word, start once with trust_group_offsets "
            "(outputs may repeat or state may miss records)."
        )
    if not log.start <= offset <= log.end:
        raise Refused(
            f"{where}: next offset {offset} is outside the log [{log.start}, {log.end}]: records were "
            f"deleted before they were processed, or the log was cut. {ACCEPT_LOSS}"
        )
    return offset
