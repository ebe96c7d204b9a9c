"""What must be true after any fault, one function a row; each returns what is not as it must be.

Independent of the worker: the inputs are folded again in plain dictionaries (``Fold``), and everything else is held
against that. A broken engine must be objected to: tests/faults/engine/test_oracle.py and test_mutants.py prove it.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .evidence import Change, Committed, Copy, Input, Intervention, Out, Partition, Place, Sample, Topics
from .workload import DELETE, OK, POISON, index_of

ROW = struct.Struct("<qqI")
OUTPUT = struct.Struct("<BqqI")
TABLE_OF = {"a": "progress", "b": "items"}
#: So many findings of one kind are told.
TOLD = 5


class Fold:
    """One source of one partition number, folded record by record."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.rows: dict[bytes, tuple[int, int, int]] = {}

    def apply(self, record: Input) -> bytes | None:
        """Apply a record; return its output, None when it has none. Poison is for the caller."""
        number = int.from_bytes(record.value[:8], "little")
        if self.role == "b" and record.value[8:9] == DELETE:
            known = self.rows.pop(record.key, None)
            return OUTPUT.pack(1, number, -1 if known else -2, 0)
        last, count, crc = self.rows.get(record.key, (-1, 0, 0))
        if self.role == "a" and number <= last:
            return None
        self.rows[record.key] = row = (number, count + 1, zlib.crc32(record.value, crc))
        return OUTPUT.pack(0 if self.role == "a" else 1, *row)

    def table(self) -> dict[bytes, bytes]:
        return {key: ROW.pack(*row) for key, row in self.rows.items()}


@dataclass
class Expected:
    """What must have come of one partition number: an output, a dead letter or nothing for each input."""

    outputs: dict[Place, tuple[bytes, bytes]] = field(default_factory=dict)
    dead: dict[Place, tuple[bytes, bytes]] = field(default_factory=dict)
    superseded: set[Place] = field(default_factory=set)
    tables: dict[str, dict[bytes, bytes]] = field(default_factory=dict)

    @classmethod
    def of(cls, partition: Partition) -> Expected:
        made = cls()
        for role, records in partition.inputs.items():
            fold = Fold(role)
            for record in records:
                place = Place(role, record.offset)
                if is_poison(record):
                    made.dead[place] = record.key, record.value
                elif (output := fold.apply(record)) is None:
                    made.superseded.add(place)
                else:
                    made.outputs[place] = record.key, output
            made.tables[TABLE_OF[role]] = fold.table()
        return made


def is_poison(record: Input) -> bool:
    return record.role == "a" and record.value[8:9] == POISON


@dataclass
class Log:
    """How often each attempt of the workload is in the sources, over all partitions."""

    seen: Counter[int] = field(default_factory=Counter)

    def add(self, partition: Partition) -> None:
        for records in partition.inputs.values():
            self.seen.update(index_of(record.value) for record in records)


def read_once(partition: Partition) -> tuple[Partition, int]:
    """Return what a reader has that drops source positions it has seen, and how many outputs and dead letters it drops.

    Only for runs in which an operator had to delete the group's offsets, so that records were processed again. A
    repetition is dropped when key and value are those of the first; any other is kept, for the rows to object.
    """
    outputs, letters = _first_of_each(partition.outputs), _first_of_each(partition.letters)
    dropped = len(partition.outputs) - len(outputs) + len(partition.letters) - len(letters)
    return replace(partition, outputs=outputs, letters=letters), dropped


def _first_of_each(found: Iterable[Out]) -> list[Out]:
    first: dict[tuple[Place, int], Out] = {}
    kept = []
    for out in found:
        if out.cause is not None:
            seen = first.setdefault((out.cause, out.turn), out)
            if seen is not out and (seen.key, seen.value) == (out.key, out.value):
                continue
        kept.append(out)
    return kept


# --- rows, per partition number


def nothing_is_lost(partition: Partition, expected: Expected) -> Iterator[str]:
    """Row 1: each input is applied, superseded or dead; consumed = applied + superseded + dead, exactly."""
    outputs, letters = ({out.cause for out in found} for found in (partition.outputs, partition.letters))
    if missing := expected.outputs.keys() - outputs:
        yield f"{len(missing)} inputs without their output, e.g. {_some(missing)}"
    if missing := expected.dead.keys() - letters:
        yield f"{len(missing)} poison records without a dead letter, e.g. {_some(missing)}"
    for role, end in partition.ends.items():
        committed = partition.committed.get(role, 0)
        if committed != end and partition.inputs[role]:
            yield f"source {role}: consumed to {committed} of {end}"
    consumed = sum(len(records) for records in partition.inputs.values())
    applied, dead = len(outputs - {None}), len(letters - {None})
    if consumed != applied + len(expected.superseded) + dead:
        yield f"{consumed} consumed, {applied} applied + {len(expected.superseded)} superseded + {dead} dead"


def nothing_is_invented(partition: Partition, expected: Expected) -> Iterator[str]:
    """Row 2: each output and dead letter is what one input explains, byte for byte."""
    for found, wanted, what in ((partition.outputs, expected.outputs, "output"), (partition.letters, expected.dead,
                                                                                   "dead letter")):  # fmt: skip
        for out in found:
            if out.cause is None:
                yield f"{what} at {out.offset}: no input explains it"
            elif out.cause not in wanted:
                yield f"{what} at {out.offset}: {_name(out.cause)} should have none"
            elif wanted[out.cause] != (out.key, out.value):
                yield f"{what} at {out.offset}: not what the fold makes of {_name(out.cause)}"


def no_effect_is_doubled(partition: Partition, expected: Expected) -> Iterator[str]:
    """Row 3: a source position occurs once, and each key has as many outputs as the fold."""
    for found, what in ((partition.outputs, "output"), (partition.letters, "dead letter")):
        times = Counter((out.cause, out.turn) for out in found if out.cause is not None)
        if twice := [place for (place, _), count in times.items() if count > 1]:
            yield f"{len(twice)} inputs with a repeated {what}, e.g. {_some(twice)}"
    got = Counter(out.key for out in partition.outputs)
    wanted = Counter(key for key, _ in expected.outputs.values())
    for key in sorted(got.keys() | wanted.keys()):
        if got[key] != wanted[key]:
            yield f"key {key!r}: {got[key]} outputs, the fold has {wanted[key]}"


def order_is_kept(partition: Partition, _: Expected) -> Iterator[str]:
    """Outputs of one key and source stand in the order of their inputs."""
    last: dict[tuple[bytes, str], int] = {}
    for out in partition.outputs:
        if out.cause is not None:
            before = last.get((out.key, out.cause.role), -1)
            if out.cause.offset < before:
                yield f"output at {out.offset}: key {out.key!r}, {_name(out.cause)} after @{before}"
            last[out.key, out.cause.role] = max(before, out.cause.offset)


def tables_are_the_fold(partition: Partition, expected: Expected) -> Iterator[str]:
    """Row 5: table = fold(changelog) = fold(source); a local copy is the changelog up to its own position."""
    for table, rows in expected.tables.items():
        if difference := _difference(rows_of(partition.changelogs[table]), rows):
            yield f"changelog of {table}: {difference}"
    for copy in partition.copies:
        for role, mark in copy.marks.items():
            if mark > partition.committed.get(role, 0):
                yield f"{_path(copy)} is ahead: {role}@{mark}, committed {partition.committed.get(role, 0)}"
        for table, changes in partition.changelogs.items():
            position = copy.positions.get(table, 0)
            if difference := _difference(copy.tables.get(table, {}), rows_of(changes, position)):
                yield f"{_path(copy)}, {table} at {position}: {difference}"


def rows_of(changes: Iterable[Change], before: int | None = None) -> dict[bytes, bytes]:
    """The table that a changelog is, or was before an offset."""
    rows: dict[bytes, bytes] = {}
    for change in changes:
        if before is not None and change.offset >= before:
            break
        if change.value is None:
            rows.pop(change.key, None)
        else:
            rows[change.key] = change.value
    return rows


def some_copy_is_complete(partition: Partition, expected: Expected) -> Iterator[str]:
    """Row 5, after clean stops: whoever had the partition last has all of it on its disk."""
    for role, records in partition.inputs.items():
        if records and not any(
            copy.marks.get(role, 0) >= partition.ends[role] and copy.tables.get(TABLE_OF[role], {}) == expected.tables[
                TABLE_OF[role]] for copy in partition.copies
        ):  # fmt: skip
            yield f"no local copy has reached {role}@{partition.ends[role]}"


PARTITION_ROWS: tuple[Callable[[Partition, Expected], Iterator[str]], ...] = (
    nothing_is_lost,
    nothing_is_invented,
    no_effect_is_doubled,
    order_is_kept,
    tables_are_the_fold,
    some_copy_is_complete,
)

# --- rows of the whole run


def acknowledged_is_in_the_log(history: Sequence[int], log: Log) -> Iterator[str]:
    """Rows 1 and 2 at the door: what was acknowledged is in the log once; of unknown outcome, at most once."""
    lost = [index for index, fate in enumerate(history) if fate == OK and not log.seen[index]]
    if lost:
        yield f"{len(lost)} acknowledged records are not in the log, e.g. {lost[:3]}"
    if doubled := [index for index, times in log.seen.items() if times > 1]:
        yield f"{len(doubled)} records are in the log more than once, e.g. {doubled[:3]}"
    if foreign := [index for index in log.seen if index >= len(history)]:
        yield f"{len(foreign)} records nobody wrote, e.g. {foreign[:3]}"


def offsets_do_not_go_back(written: Iterable[Committed], interventions: Sequence[Intervention] = ()) -> Iterator[str]:
    """Row 8: in the order of their log, the group's offsets of a source partition only rise, also after a deletion.

    Judged is what was written: a coordinator that has come back tells offsets as they were at some time before, or
    none, until something is written to the group. What an operator wrote is not the engine's. After a repair each
    partition may once resume before where it was, at the end of its changelog, with a record of its deletion or
    without: a coordinator deletes what it knows of. Of compacted records the later are left, which rise as well.
    """
    repairs = sorted(each.ended_ms for each in interventions if each.repair)
    last: dict[tuple[str, int], int] = {}
    repaired: dict[tuple[str, int], int] = {}
    for source, offset, at_ms in written:
        if offset is None or any(each.began_ms <= at_ms <= each.ended_ms for each in interventions):
            continue
        before, over = last.get(source, offset), bisect_left(repairs, at_ms)
        if offset < before and over <= repaired[source]:
            yield f"{source[0]}[{source[1]}] went back from {before} to {offset}"
        last[source], repaired[source] = offset, max(over, repaired.get(source, 0))


def offsets_told_were_written(committed: Mapping[tuple[str, int], int], written: Iterable[Committed]) -> Iterator[str]:
    """Row 8: at the end the group is nowhere that was not committed: the log that is judged is this group's, and whole.

    Not the other way round: what is told may be older than what is written.
    """
    furthest: dict[tuple[str, int], int] = {}
    for source, offset, _ in written:
        if offset is not None:
            furthest[source] = max(offset, furthest.get(source, offset))
    for source, offset in committed.items():
        if offset > (found := furthest.get(source, -1)):
            yield f"{source[0]}[{source[1]}] is told to be at {offset}, " + (
                f"committed was no more than {found}" if found >= 0 else "nothing was committed"
            )


def offsets_pass_nothing_unapplied(partition: Partition, samples: Sequence[Sample], topics: Topics) -> Iterator[str]:
    """Row 8: when an offset was seen, the outputs of all inputs before it were in the log already."""
    for role, topic in (("a", topics.a), ("b", topics.b)):
        offsets: list[int] = []
        furthest: list[int] = []
        placed = sorted((out.cause.offset, out.offset) for out in partition.outputs if out.cause is not None
                        and out.cause.role == role)  # fmt: skip
        for cause, offset in placed:
            offsets.append(cause)
            furthest.append(max(offset, furthest[-1] if furthest else -1))
        for sample in samples:
            committed = sample.committed.get((topic, partition.number), -1)
            end = sample.ends.get((topics.out, partition.number))
            before = bisect_left(offsets, committed)
            if end is not None and before and furthest[before - 1] >= end:
                yield f"source {role} at {committed}, but its outputs ended at {end}"


def longest_stall(samples: Sequence[Sample], sources: Sequence[str], partitions: Sequence[int], until: float) -> float:
    """Row 9: the longest time, in s, in which none of ``partitions`` moved though records waited, seen or not."""
    longest, moved = 0.0, samples[0].at if samples else until
    before: tuple[int, ...] = ()
    waiting = False
    for sample in samples:
        now = tuple(sample.committed.get((topic, p), -1) for p in partitions for topic in sources)
        ends = [sample.ends.get((topic, p), 0) for p in partitions for topic in sources]
        if now != before or not waiting:
            moved = sample.at
        before = now
        waiting = any(end > max(0, offset) for offset, end in zip(now, ends, strict=True))
        longest = max(longest, sample.at - moved)
    return max(longest, until - moved) if waiting else longest


def _difference(found: dict[bytes, bytes], wanted: dict[bytes, bytes]) -> str:
    if found == wanted:
        return ""
    wrong = sum(1 for key in found.keys() & wanted.keys() if found[key] != wanted[key])
    return (
        f"{len(wanted.keys() - found.keys())} rows missing, {len(found.keys() - wanted.keys())} too many, {wrong} other"
    )


def _path(copy: Copy) -> str:
    return f"local copy {copy.path.parent.name}/{copy.path.name}"


def _name(place: Place) -> str:
    return f"{place.role}@{place.offset}"


def _some(places: object) -> str:
    assert isinstance(places, list | set | frozenset)
    return ", ".join(_name(place) for place in sorted(places)[:3])
