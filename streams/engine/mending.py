"""Write again what a unit's last committed transaction has lost, before its next one. See :mod:`.lost` for why.

A start reads the last records of the unit's changelogs and outputs, beside what it does anyway: nothing was aborted
behind the newest source mark, and a record of each part that the mark names is visible. Only where that is not so,
all records since then are read, aborted ones too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import Message

from .batch import ANY_PARTITION
from .changelog import table_of
from .config import EngineConfig
from .errors import Refused
from .hanging import wait_places_decided
from .logs import Logs, TopicFacts
from .lost import (
    Ended,
    Incomplete,
    Positions,
    changes_lost,
    ended,
    outputs_lost,
    outputs_seen,
    proven,
    says,
)
from .reading import read, read_stretches
from .resume import LogRange
from .topics import Needed
from .unit import Unit

log = logging.getLogger(__name__)

Place = tuple[str, int]

#: So many offsets before the end of a partition are looked at first, and so many at most at once.
TAIL = 64
STRETCH = 65_536
#: A transaction's records were written at about the same time (ms), and certainly within its timeout and what clocks
#: of brokers differ by.
NEAR = 1_000
FAR = 60_000


@dataclass(slots=True)
class Aftermath:
    """What was found of a unit: records to be written again, and marks, (source, offset), that were taken back: a
    local copy that has one of those is ahead of the changelogs."""

    again: list[Message] = field(default_factory=list)
    undone: set[tuple[str, int]] = field(default_factory=set)


class Mender:
    """For the units of one assignment, which are fenced. Methods raise Crash when brokers do not answer."""

    def __init__(self, config: EngineConfig, logs: Logs, needed: Needed, facts: Mapping[str, TopicFacts]) -> None:
        self._config = config
        self._logs = logs
        self._needed = needed
        self._facts = dict(facts)

    def doubtful(self, units: Iterable[Unit]) -> list[Unit]:
        """Return those of which something may be lost; quick, and right after the fencing."""
        units = list(units)
        places = {unit.partition: self._places(unit) for unit in units}
        ranges = self._ranges(place for mine in places.values() for place in mine)
        tails = self._read({place: (max(r.start, r.stable - TAIL), r.stable) for place, r in ranges.items()})
        return [unit for unit in units if not self._is_whole(unit, ranges, tails)]

    def examine(self, unit: Unit) -> Aftermath:
        """Return what a doubtful unit has lost. Everything it wrote must be decided, where it declares to write.

        Raises Refused when something is lost and cannot be written again, or hangs elsewhere.
        """
        marks = (unit.marks_topic, unit.partition)
        log_range = self._ranges([marks])[marks]
        newest = self._newest_mark(marks, log_range)
        begin = log_range.start if newest is None else newest.offset + 1
        # In a changelog that has become the first only now, all of it is behind the newest mark.
        behind = read(self._config, *marks, begin, log_range.stable, undecided=True)
        aborted = [record for record in behind if ended(record) is not None]
        found = Aftermath(undone={(e.source, e.reached) for record in aborted if (e := ended(record)) is not None})
        last = newest
        if (beyond := proven(aborted, unit.committed)) is not None:
            assert beyond.parts is not None
            before = self._newest_mark(marks, log_range, beyond.source)
            if beyond.parts.mark == (before.reached if before is not None else None):
                last = beyond
        if last is None or last.parts is None or last.source not in unit.sources:
            return found
        if last is newest and unit.committed.get(last.source) not in (None, last.reached):
            return found  # refused later: nothing is changed before
        if self._recreated(last):
            return found  # refused later too, by what it is: no broker has lost these parts
        try:
            again = self._lost(unit, last)
        except Incomplete as error:
            if last is not newest:
                return found  # the group and the changelog disagree, which is refused later
            raise Refused(_unmendable(unit, last, error)) from error
        if last is not newest:
            found.undone.discard((last.source, last.reached))
        found.again = again
        return found

    def mend(self, unit: Unit, aftermath: Aftermath) -> None:
        """Write again what was lost, and return when that is decided. It may be killed anywhere.

        Raises Closed when the unit was given away.
        """
        if not aftermath.again:
            return
        written = {(record.topic() or "", record.partition() or 0) for record in aftermath.again}
        log.warning(
            "unit %s: its last transaction was committed, and a broker that was restarted has lost its part in %s: "
            "%s records are written again",
            unit.partition,
            ", ".join(map(_name, sorted(written))),
            len(aftermath.again),
        )
        unit.write_again(aftermath.again)
        wait_places_decided(self._config, self._logs, self._facts, written, lambda: unit.dead)

    def _places(self, unit: Unit) -> list[Place]:
        return [(topic, unit.partition) for topic in (*self._needed.changelogs, *self._needed.outputs)]

    def _ranges(self, places: Iterable[Place]) -> dict[Place, LogRange]:
        return self._logs.ranges(places, self._facts)

    def _read(
        self, stretches: Mapping[Place, tuple[int, int]], *, undecided: bool = False
    ) -> dict[Place, list[Message]]:
        return read_stretches(self._config, stretches, undecided=undecided)

    def _is_whole(self, unit: Unit, ranges: Mapping[Place, LogRange], tails: Mapping[Place, list[Message]]) -> bool:
        marks = (unit.marks_topic, unit.partition)
        if not ranges[marks].end:
            return True  # it has never committed
        last = ended(tails[marks][-1]) if tails[marks] else None
        if last is None or last.offset + 2 < ranges[marks].end:
            return False  # more than the marker of its commit is behind it
        if last.parts is None or last.source not in unit.sources:
            return True  # of an older build, or app: nothing can be said
        unseen = {
            place: count
            for place, count in last.parts.counts.items()
            if place != marks and not self._shows(unit, last, place, tails)
        }
        if not unseen:
            return True
        chosen = self._chosen(unseen)
        seen = self._read(self._stretches(chosen, last.timestamp - NEAR, last.timestamp + NEAR))
        return all(self._shows(unit, last, place, seen) for place in unseen)

    def _shows(self, unit: Unit, last: Ended, place: Place, read: Mapping[Place, list[Message]]) -> bool:
        """Whether the part of ``last`` in ``place`` is among visible records."""
        assert last.parts is not None
        if place[0] in self._needed.changelogs:
            return any(says(record, last) for record in read.get(place, ()))
        records = [record for at in self._chosen([place]) for record in read.get(at, ())]
        return outputs_seen(_positions(unit, last), records, place[1], last.parts.counts[place])

    def _lost(self, unit: Unit, last: Ended) -> list[Message]:
        """Return what ``last`` has lost, in the order it was written by topic. Raises Incomplete."""
        assert last.parts is not None
        chosen = self._chosen(last.parts.counts)
        elsewhere = set(chosen) - set(self._places(unit))
        wait_places_decided(self._config, self._logs, self._facts, elsewhere, lambda: unit.dead)
        stretches = self._stretches(chosen, last.timestamp - FAR)
        visible, copies = self._read(stretches), self._read(stretches, undecided=True)
        again: list[Message] = []
        for place, count in last.parts.counts.items():
            topic, partition = place
            if topic in self._needed.changelogs:
                again += changes_lost(last, visible[place], copies[place], count)
                continue
            at = self._chosen([place])
            again += outputs_lost(
                _positions(unit, last), [r for p in at for r in visible[p]], [r for p in at for r in copies[p]],
                partition, count, unit.sources,
            )  # fmt: skip
        return again

    def _recreated(self, last: Ended) -> bool:
        """Whether a changelog ``last`` wrote to is another topic now: it was under way when that was made."""
        named = dict(last.changelogs)
        now = {table_of(self._config.group, topic): self._facts[topic].topic_id for topic in self._needed.changelogs}
        return any(named.get(table, topic_id) != topic_id for table, topic_id in now.items())

    def _chosen(self, places: Iterable[Place]) -> list[Place]:
        """Return the partitions that are meant; none of a topic that exists no more."""
        places = list(places)
        self._facts |= self._logs.describe({topic for topic, _ in places} - self._facts.keys())
        return [
            (topic, number)
            for topic, partition in places
            if topic in self._facts
            for number in (range(self._facts[topic].partitions) if partition == ANY_PARTITION else (partition,))
        ]

    def _stretches(self, places: Iterable[Place], since: int, until: int | None = None) -> dict[Place, tuple[int, int]]:
        """Return the offsets that were written between two times (ms), or from one on."""
        ranges = self._ranges(places)
        low = self._logs.since(ranges, since)
        high = self._logs.since(ranges, until) if until is not None else {}
        found: dict[Place, tuple[int, int]] = {}
        for place, log_range in ranges.items():
            begin, end = low[place], high.get(place)
            stable = log_range.stable
            found[place] = (stable if begin is None else begin, stable if end is None else min(end, stable))
        return found

    def _newest_mark(self, place: Place, log_range: LogRange, source: str | None = None) -> Ended | None:
        """Return the newest committed mark in a changelog, of any source or of one."""
        top, size = log_range.stable, TAIL
        while top > log_range.start:
            bottom = max(log_range.start, top - size)
            for record in reversed(self._read({place: (bottom, top)})[place]):
                found = ended(record)
                if found is not None and source in (None, found.source):
                    return found
            top, size = bottom, min(16 * size, STRETCH)
        return None


def _name(place: Place) -> str:
    return f"{place[0]}[{place[1]}]"


def _positions(unit: Unit, last: Ended) -> Positions:
    assert last.parts is not None
    return Positions(last.source, unit.sources[last.source], unit.partition, last.parts.first, last.reached)


def _unmendable(unit: Unit, last: Ended, error: Incomplete) -> str:
    return (
        f"unit {unit.partition}: a broker that was restarted lost records of its last transaction, which processed "
        f"{last.source}[{unit.partition}] up to {last.reached}, and they cannot be written again: {error}. To accept "
        "the loss, start once with trust_group_offsets."
    )
