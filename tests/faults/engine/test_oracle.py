"""Each row of the oracle objects to what it is for, and to nothing else in a run as it should be."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.faults.engine import oracle, verdict
from tests.faults.engine.evidence import (
    Change,
    Committed,
    Copy,
    Input,
    Intervention,
    Out,
    Partition,
    Place,
    Sample,
    Topics,
    committed_of,
)
from tests.faults.engine.oracle import Expected, Fold, Log
from tests.faults.engine.workload import OK, UNKNOWN, Workload

TOPICS = Topics("a", "b", "out", "dead", {"progress": "p", "items": "i"})


def changes_of(records: list[Input], table: str) -> list[Change]:
    """The changelog of one source folded record by record."""
    fold = Fold("a" if table == "progress" else "b")
    found: list[Change] = []
    for record in records:
        if not oracle.is_poison(record):
            fold.apply(record)
            found.append(Change(len(found), record.key, fold.table().get(record.key)))
    return found


def copy_at(partition: Partition, marks: dict[str, int], positions: dict[str, int], path: str = "state-0/0") -> Copy:
    """A local copy that has each changelog up to a position."""
    tables = {table: oracle.rows_of(partition.changelogs[table], at) for table, at in positions.items()}
    return Copy(Path(path), tables, positions, marks)


@pytest.fixture
def partition() -> Partition:
    """A whole run of one partition number, nothing wrong with it."""
    made = Partition(0)
    workload = Workload(Random(3), keys=12, poison=0.1)
    for _ in range(400):
        role, key, value = workload.next()
        records = made.inputs[role]
        records.append(Input(role, len(records), key, value))
    made.ends = {role: len(records) for role, records in made.inputs.items()}
    made.committed = dict(made.ends)
    expected = Expected.of(made)
    assert expected.superseded
    for found, wanted in ((made.outputs, expected.outputs), (made.letters, expected.dead)):
        assert wanted
        found += [Out(at, key, value, place, 0) for at, (place, (key, value)) in enumerate(wanted.items())]
    made.changelogs = {table: changes_of(made.inputs[role], table) for role, table in oracle.TABLE_OF.items()}
    whole = {table: len(changes) for table, changes in made.changelogs.items()}
    made.copies = [copy_at(made, made.ends, whole), copy_at(made, {"a": 100, "b": 7}, {"progress": 60}, "state-1/0")]
    return made


def objections(partition: Partition, samples: list[Sample] | None = None) -> set[str]:
    """The rows that object."""
    expected = Expected.of(partition)
    rows = {row.__name__ for row in oracle.PARTITION_ROWS if list(row(partition, expected))}
    if list(oracle.offsets_pass_nothing_unapplied(partition, samples or [], TOPICS)):
        rows.add(oracle.offsets_pass_nothing_unapplied.__name__)
    return rows


def test_given_a_run_as_it_should_be_then_no_row_objects(partition: Partition) -> None:
    assert objections(partition) == set()


def output_lost(partition: Partition) -> None:
    del partition.outputs[20]


def letter_lost(partition: Partition) -> None:
    del partition.letters[0]


def not_consumed(partition: Partition) -> None:
    partition.committed["a"] -= 1
    partition.copies.pop(0)


def output_of_nothing(partition: Partition) -> None:
    partition.outputs.append(Out(999, b"k", b"v", None, -1))


def other_content(partition: Partition) -> None:
    partition.outputs[5] = partition.outputs[5]._replace(value=b"other")


def poison_processed(partition: Partition) -> None:
    letter = partition.letters[0]
    partition.outputs.append(letter._replace(offset=999))


def output_twice(partition: Partition) -> None:
    partition.outputs.append(partition.outputs[-1]._replace(offset=999))


def second_output(partition: Partition) -> None:
    partition.outputs.append(partition.outputs[-1]._replace(offset=999, turn=1))


def letter_twice(partition: Partition) -> None:
    partition.letters.append(partition.letters[-1]._replace(offset=999))


def swapped(partition: Partition) -> None:
    first = partition.outputs[0]
    later = next(
        at
        for at, out in enumerate(partition.outputs[1:], 1)
        if out.cause and first.cause and (out.key, out.cause.role) == (first.key, first.cause.role)
    )
    partition.outputs[0], partition.outputs[later] = partition.outputs[later], partition.outputs[0]


def row_of_changelog_lost(partition: Partition) -> None:
    partition.changelogs["items"].append(Change(999, partition.changelogs["items"][-1].key, None))


def row_of_changelog_deleted_in_vain(partition: Partition) -> None:
    partition.changelogs["items"].append(Change(999, b"gone", b"still here"))


def stale_row_in_copy(partition: Partition) -> None:
    rows = partition.copies[1].tables["progress"]
    rows[next(iter(rows))] = b"older"


def copy_ahead(partition: Partition) -> None:
    partition.committed["a"] = partition.ends["a"] - 1


def copy_incomplete(partition: Partition) -> None:
    positions = partition.copies[0].positions | {"items": 50}
    partition.copies[0] = copy_at(partition, partition.ends, positions)


@pytest.mark.parametrize(
    ("damage", "rows"),
    [
        (output_lost, {"nothing_is_lost", "no_effect_is_doubled"}),
        (letter_lost, {"nothing_is_lost"}),
        (not_consumed, {"nothing_is_lost", "some_copy_is_complete"}),
        (output_of_nothing, {"nothing_is_invented", "no_effect_is_doubled"}),
        (other_content, {"nothing_is_invented"}),
        (poison_processed, {"nothing_is_lost", "nothing_is_invented", "no_effect_is_doubled", "order_is_kept"}),
        (output_twice, {"no_effect_is_doubled"}),
        (second_output, {"no_effect_is_doubled"}),
        (letter_twice, {"no_effect_is_doubled"}),
        (swapped, {"order_is_kept"}),
        (row_of_changelog_lost, {"tables_are_the_fold"}),
        (row_of_changelog_deleted_in_vain, {"tables_are_the_fold"}),
        (stale_row_in_copy, {"tables_are_the_fold"}),
        (copy_ahead, {"nothing_is_lost", "tables_are_the_fold"}),
        (copy_incomplete, {"some_copy_is_complete"}),
    ],
)
def test_given_one_thing_wrong_then_its_rows_object(
    partition: Partition, damage: Callable[[Partition], None], rows: set[str]
) -> None:
    damage(partition)
    assert objections(partition) == rows


def other_bytes_again(partition: Partition) -> None:
    partition.outputs.append(partition.outputs[-1]._replace(offset=999, value=b"other"))


def other_key_again(partition: Partition) -> None:
    partition.letters.append(partition.letters[-1]._replace(offset=999, key=b"other"))


def repeated_between(partition: Partition) -> None:
    """Several are processed again: their outputs, in order, and a letter."""
    partition.outputs[30:30] = [out._replace(offset=999) for out in partition.outputs[20:30]]
    partition.letters.append(partition.letters[0]._replace(offset=999))


def test_given_a_repair_then_identical_repetitions_count_once_and_without_it_they_are_objected_to(
    partition: Partition,
) -> None:
    whole = Partition(**vars(partition))
    whole.outputs, whole.letters = list(partition.outputs), list(partition.letters)
    repeated_between(partition)
    assert objections(partition) == {"no_effect_is_doubled", "order_is_kept"}
    once, dropped = oracle.read_once(partition)
    assert dropped == 11
    assert once == whole
    assert objections(once) == set()
    assert len(partition.outputs) == len(whole.outputs) + 10, "what was read is left as it is"


@pytest.mark.parametrize(
    ("damage", "rows"),
    [
        (other_bytes_again, {"nothing_is_invented", "no_effect_is_doubled"}),
        (other_key_again, {"nothing_is_invented", "no_effect_is_doubled"}),
        (second_output, {"no_effect_is_doubled"}),
        (output_of_nothing, {"nothing_is_invented", "no_effect_is_doubled"}),
        (swapped, {"order_is_kept"}),
        (output_lost, {"nothing_is_lost", "no_effect_is_doubled"}),
        (other_content, {"nothing_is_invented"}),
    ],
)
def test_given_a_repair_then_anything_but_an_identical_repetition_is_still_objected_to(
    partition: Partition, damage: Callable[[Partition], None], rows: set[str]
) -> None:
    damage(partition)
    once, dropped = oracle.read_once(partition)
    assert dropped == 0
    assert objections(once) == rows


def test_given_a_repair_then_the_verdict_counts_what_is_repeated_and_without_it_finds_it(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fake:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> Fake:
            return self

        def __exit__(self, *_: object) -> None: ...
        def partition(self, *_: object) -> Partition:
            return partition

        def offsets(self, group: str) -> list[Committed]:
            return [Committed((group, 0), offset, at) for at, offset in enumerate((5, 6, None, 4))]

    monkeypatch.setattr(verdict, "Reader", Fake)
    outputs = len(partition.outputs)
    repeated_between(partition)
    judged = [
        verdict.judge(
            "", "a", TOPICS, 1, {("a", 0): told}, states=[Path("state-0")], interventions=by_hand(2, repair=repair)
        )
        for told, repair in ((6, True), (7, False))
    ]
    assert judged[0].findings == {}
    assert (judged[0].repeated, judged[0].outputs) == (11, outputs)
    assert judged[1].findings.keys() == {
        "no_effect_is_doubled", "order_is_kept", "offsets_do_not_go_back", "offsets_told_were_written",
    }  # fmt: skip
    assert (judged[1].repeated, judged[1].outputs) == (0, outputs + 10)
    other_bytes_again(partition)
    judged_again = verdict.judge("", "a", TOPICS, 1, {}, interventions=by_hand(2, repair=True))
    assert judged_again.findings.keys() == {"nothing_is_invented", "no_effect_is_doubled"}


def test_given_a_repetition_written_after_its_offset_was_seen_then_it_is_no_objection_once_it_is_dropped(
    partition: Partition,
) -> None:
    last = partition.outputs[-1]
    assert last.cause is not None
    sample = Sample(1.0, {(last.cause.role, 0): last.cause.offset + 1}, {("out", 0): 999})
    partition.outputs.append(last._replace(offset=999))
    assert "offsets_pass_nothing_unapplied" in objections(partition, [sample])
    once, _ = oracle.read_once(partition)
    assert objections(once, [sample]) == set()


def test_given_an_offset_seen_before_its_outputs_were_written_then_objected(partition: Partition) -> None:
    place = next(out.cause for out in partition.outputs[10:] if out.cause)
    at = next(out.offset for out in partition.outputs if out.cause == place)
    committed = {(place.role, 0): place.offset + 1}
    others = max(out.offset for out in partition.outputs if out.cause and out.cause.role == place.role
                  and out.cause.offset <= place.offset)  # fmt: skip
    assert others == at
    honest = Sample(1.0, committed, {("out", 0): at + 1})
    early = Sample(2.0, committed, {("out", 0): at})
    assert objections(partition, [honest]) == set()
    assert objections(partition, [honest, early]) == {"offsets_pass_nothing_unapplied"}


def written(*offsets: int | None) -> list[Committed]:
    """What was written of one partition, a record each ten ms: at 0, 10, 20, ..."""
    return [Committed(("a", 0), offset, at * 10) for at, offset in enumerate(offsets)]


def by_hand(*at_ms: int, repair: bool) -> list[Intervention]:
    return [Intervention(at, at, repair) for at in at_ms]


#: A record of a deletion.
GONE = None


@pytest.mark.parametrize(
    ("offsets", "objections"),
    [
        ([], []),
        ([5], []),
        ([5, 5, 7, 9, 9], []),
        ([5, 7, 6, 8], [(7, 6)]),
        ([5, 7, 6, 7, 0], [(7, 6), (7, 0)]),
        # Deleted or expired: the next is not before the last.
        ([GONE, 5, 6], []),
        ([5, 6, GONE, 6, 9], []),
        ([5, 6, GONE, GONE, 7, 9], []),
        ([5, 6, GONE, 4, 9], [(6, 4)]),
    ],
)
def test_given_written_offsets_then_they_only_rise_deleted_or_not(
    offsets: list[int | None], objections: list[tuple[int, int]]
) -> None:
    found = list(oracle.offsets_do_not_go_back(written(*offsets)))
    assert found == [f"a[0] went back from {before} to {to}" for before, to in objections]


@pytest.mark.parametrize(
    ("offsets", "repairs", "objections"),
    [
        # At 20 ms the group is deleted.
        ([5, 6, GONE, 4, 9], [20], []),
        ([5, 6, GONE, 6, 9], [20], []),
        ([5, 6, GONE, 4, 5, 3], [20], [(5, 3)]),
        ([5, 6, GONE, 7, 4], [20], [(7, 4)]),
        ([5, 6, GONE, 4, GONE, 3], [20], [(4, 3)]),
        ([5, 6, GONE, 4, GONE, 3], [20, 40], []),
        ([5, 4, GONE, 3], [20], [(5, 4)]),
        # A coordinator that did not know of the offset did not delete it; a record of it may be compacted away.
        ([5, 6, 4, 9], [15], []),
        ([5, 6, 4, 9, 8], [15], [(9, 8)]),
        ([5, 6, 4, 3, 9], [12, 15], [(4, 3)]),
        ([5, 6, 4], [25], [(6, 4)]),
        ([5, 6, 4], [5], [(6, 4)]),
    ],
)
def test_given_a_repair_then_a_partition_may_resume_once_before_where_it_was(
    offsets: list[int | None], repairs: list[int], objections: list[tuple[int, int]]
) -> None:
    found = list(oracle.offsets_do_not_go_back(written(*offsets), by_hand(*repairs, repair=True)))
    assert found == [f"a[0] went back from {before} to {to}" for before, to in objections]
    others = [Committed(("b", 1), 10 + at, record.at_ms) for at, record in enumerate(written(*offsets))]
    mixed = [each for pair in zip(written(*offsets), others, strict=True) for each in pair]
    assert list(oracle.offsets_do_not_go_back(mixed, by_hand(*repairs, repair=True))) == found, "each its own"


def test_given_a_clock_that_was_set_back_then_a_repair_excuses_no_more_than_once() -> None:
    times = [Committed(("a", 0), offset, at_ms) for offset, at_ms in ((5, 0), (4, 30), (4, 10), (3, 30))]
    assert list(oracle.offsets_do_not_go_back(times, by_hand(20, repair=True))) == ["a[0] went back from 4 to 3"]


def test_given_any_other_deletion_then_no_partition_may_resume_before_where_it_was() -> None:
    found = list(oracle.offsets_do_not_go_back(written(5, 6, GONE, 4, 9), by_hand(20, repair=False)))
    assert found == ["a[0] went back from 6 to 4"]


def test_given_offsets_that_an_operator_set_then_they_are_not_held_against_the_engine_and_excuse_nothing() -> None:
    reset = [Intervention(15, 25, repair=False)]
    assert list(oracle.offsets_do_not_go_back(written(5, 6, 0, GONE, 6, 7), reset)) == []
    assert list(oracle.offsets_do_not_go_back(written(5, 6, 0, GONE, 4, 7), reset)) == ["a[0] went back from 6 to 4"]
    assert list(oracle.offsets_do_not_go_back(written(5, 6, 0, GONE, 6, 7))) == ["a[0] went back from 6 to 0"]


def test_given_what_the_group_tells_then_it_was_written_and_may_be_older() -> None:
    known = [*written(5, 9, GONE, 7), Committed(("b", 0), 3, 50)]

    def objections(**told: int) -> list[str]:
        return list(oracle.offsets_told_were_written({(topic, 0): at for topic, at in told.items()}, known))

    assert objections(a=9, b=3) == objections(a=7, b=-1001) == objections(a=2) == []
    assert objections(a=10, b=4) == [
        "a[0] is told to be at 10, committed was no more than 9",
        "b[0] is told to be at 4, committed was no more than 3",
    ]
    assert objections(c=0) == ["c[0] is told to be at 0, nothing was committed"]


# Made by hand: group "grp", topic "src", partition 258.
LEGACY_KEY = b"\x00\x00" + b"\x00\x03grp" + b"\x00\x03src" + b"\x00\x00\x01\x02"
KEY = b"\x00\x01" + LEGACY_KEY[2:]
#: Offset 66051; then of version 3 leader epoch -1, metadata "m", commit time.
VALUE = b"\x00\x03" + b"\x00\x00\x00\x00\x00\x01\x02\x03" + b"\xff\xff\xff\xff" + b"\x00\x01m" + b"\x00" * 8


@pytest.mark.parametrize("key", [LEGACY_KEY, KEY])
def test_given_a_record_of_the_groups_offset_then_it_is_read(key: bytes) -> None:
    assert committed_of(key, VALUE, 77, "grp") == Committed(("src", 258), 66051, 77)
    # Version 4 has compact strings behind the offset.
    compact = b"\x00\x04" + VALUE[2:14] + b"\x02m" + b"\x00" * 9
    assert committed_of(key, compact, 77, "grp") == Committed(("src", 258), 66051, 77)
    assert committed_of(key, None, 78, "grp") == Committed(("src", 258), None, 78)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KEY, VALUE),
        (KEY, None),
        # Of the group itself, of a member: not read further.
        (b"\x00\x02" + b"\x00\x05group", VALUE),
        (b"\x00\x02" + b"\x00\x05group", None),
        (b"\x00\x05" + b"\x00\x05group" + b"\x00\x06member", b"\x00\x00"),
    ],
)
def test_given_a_record_of_another_group_or_of_no_offset_then_it_is_skipped(key: bytes, value: bytes | None) -> None:
    assert committed_of(key, value, 77, "group") is None
    assert committed_of(key, value, 77, "gr") is None


def test_given_a_record_of_an_offset_that_is_cut_then_it_is_not_passed_over() -> None:
    for key, value in ((KEY[:-1], VALUE), (KEY, VALUE[:9]), (KEY[:3], None), (b"\x00", None)):
        with pytest.raises(struct.error):
            committed_of(key, value, 77, "grp")


@pytest.mark.parametrize(
    ("history", "seen", "objection"),
    [
        ([OK, UNKNOWN, UNKNOWN], {0: 1, 1: 1}, ""),
        ([OK, OK], {0: 1}, "acknowledged records are not in the log"),
        ([UNKNOWN], {0: 2}, "more than once"),
        ([OK], {0: 1, 1: 1}, "records nobody wrote"),
    ],
)
def test_given_a_history_then_the_log_holds_what_was_acknowledged_once(
    history: list[int], seen: dict[int, int], objection: str
) -> None:
    log = Log()
    log.seen.update(seen)
    found = list(oracle.acknowledged_is_in_the_log(history, log))
    assert bool(found) == bool(objection)
    assert objection in "".join(found)


def test_given_samples_then_a_stall_lasts_while_records_wait_and_none_moves() -> None:
    def sample(at: float, committed: int, end: int) -> Sample:
        return Sample(at, {("a", 0): committed}, {("a", 0): end})

    idle = [sample(0, 5, 5), sample(20, 5, 5), sample(21, 6, 6)]
    assert oracle.longest_stall(idle, ["a"], [0], 30) == 0
    stuck = [sample(0, 5, 5), sample(10, 5, 9), sample(14, 5, 9), sample(15, 9, 9)]
    assert oracle.longest_stall(stuck, ["a"], [0], 15) == 4
    # Nothing was seen for 20 s, and nothing had moved when it was seen again.
    blind = [sample(0, 5, 9), sample(20, 5, 9)]
    assert oracle.longest_stall(blind, ["a"], [0], 25) == 25


def test_given_the_same_seed_then_the_workload_is_the_same_and_has_what_faults_need() -> None:
    first, second = (Workload(Random(9), keys=50, poison=0.02) for _ in range(2))
    records = [first.next() for _ in range(5000)]
    assert records == [second.next() for _ in range(5000)]
    kinds = {value[8:9] for _, _, value in records}
    assert kinds == {b"P", b"!", b"L", b"D"}
    assert {role for role, _, _ in records} == {"a", "b"}


def test_given_places_then_they_sort_by_source_and_offset() -> None:
    assert sorted([Place("b", 1), Place("a", 9)])[0] == Place("a", 9)
