"""What a committed transaction has lost, by what is visible and what is aborted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from hypothesis import given
from hypothesis import strategies as st

from streams.engine import SourcePosition
from streams.engine.changelog import SourceMark, source_key
from streams.engine.lost import (
    Ended,
    Incomplete,
    Positions,
    changes_lost,
    ended,
    offset_of,
    outputs_lost,
    outputs_seen,
    proven,
)
from streams.engine.parts import TRANSACTION_PARTS, Parts

PARTITION = 3
HEADER = SourcePosition("source", "id", PARTITION, 41, 0).header()
PARTS = Parts(37, 38, {("out", PARTITION): 3, ("changelog", PARTITION): 3})
POSITIONS = Positions("source", "id", PARTITION, 38, 42)


def change(offset: int, *headers: tuple[str, bytes]) -> Message:
    return Message(topic="changelog", partition=PARTITION, offset=offset, key=b"k", value=b"v", headers=[*headers])


def mark(offset: int, reached: int = 42, source: str = "source", parts: Parts | None = PARTS) -> Message:
    headers = [HEADER] if parts is None else [HEADER, parts.header()]
    return Message(
        topic="changelog", partition=PARTITION, offset=offset, key=source_key(source),
        value=SourceMark("id", reached, 4).encode(), headers=[*headers], timestamp=(TIMESTAMP_CREATE_TIME, 1000),
    )  # fmt: skip


def output(
    offset: int, cause: int, index: int = 0, *, topic: str = "source", partition: int = 0, time: int = 0
) -> Message:
    return Message(
        topic="out", partition=partition, offset=offset, key=b"k", value=b"v", timestamp=(TIMESTAMP_CREATE_TIME, time),
        headers=[SourcePosition(topic, "id", PARTITION, cause, index).header()],
    )  # fmt: skip


def offsets(records: Sequence[Message]) -> list[int]:
    return [offset_of(record) for record in records]


LAST = cast(Ended, ended(mark(12)))


@given(
    st.none() | st.integers(0, 2**62),
    st.integers(0, 2**62),
    st.dictionaries(st.tuples(st.from_regex(r"[a-zA-Z0-9._-]+", fullmatch=True), st.integers(-1, 999)),
                    st.integers(1, 9999), min_size=1, max_size=5),
)  # fmt: skip
def test_given_any_parts_then_their_header_reads_back(
    before: int | None, first: int, counts: dict[tuple[str, int], int]
) -> None:
    parts = Parts(before, first, counts)
    assert Parts.from_headers([("other", b"x"), parts.header()]) == parts


@pytest.mark.parametrize("value", [b"", b"1/2", b"1/2/out:3", b"1/x/out:3:4", b"1/2/out:3:4/5", "text", None, b"\xff"])
def test_given_a_malformed_header_then_value_error(value: object) -> None:
    with pytest.raises(ValueError, match="not the parts"):
        Parts.from_headers([(TRANSACTION_PARTS, value)])


def test_given_no_such_header_then_nothing_is_said() -> None:
    assert Parts.from_headers(None) is None
    assert Parts.from_headers([HEADER]) is None


def test_given_a_mark_then_it_says_which_transaction_ended_there() -> None:
    assert Ended("source", 42, (), 12, 1000, (HEADER, PARTS.header()), PARTS) == LAST
    old = ended(mark(12, parts=None))
    assert old is not None
    assert old.parts is None
    assert ended(change(12, HEADER)) is None


def test_given_aborted_marks_then_only_what_the_group_has_is_proven_and_of_several_the_last() -> None:
    attempts = [mark(10, 40), mark(12, 42), mark(15, 42), change(16), mark(17, 44)]
    assert proven(attempts, {"source": 42}) == ended(attempts[2])
    assert proven(attempts, {"source": 43}) is None
    assert proven(attempts, {"source": None}) is None
    assert proven([mark(12, 42, "another")], {"source": 42}) is None
    assert proven([mark(12, 42, parts=None)], {"source": 42}) is None


def test_given_a_changelogs_part_that_is_aborted_then_it_is_what_belongs_together_up_to_its_last_record() -> None:
    before, newer = [change(5), change(8)], [change(14), mark(15, 44, parts=Parts(42, 42, PARTS.counts))]
    lost = [change(10), change(11), mark(12)]
    assert offsets(changes_lost(LAST, before, [*before, *lost, *newer], 3)) == [10, 11, 12]


def test_given_two_attempts_that_say_the_same_then_the_last_was_the_committed_one() -> None:
    attempts = [change(6), change(7), mark(8), change(10), change(11), mark(12)]
    assert offsets(changes_lost(LAST, [], attempts, 3)) == [10, 11, 12]


def test_given_a_changelogs_part_that_is_visible_then_nothing_is_lost() -> None:
    part = [change(10), change(11), mark(12)]
    assert changes_lost(LAST, part, [change(7), *part, change(14)], 3) == []


@pytest.mark.parametrize(
    ("visible", "copies"),
    [
        ([], []),
        ([], [11, 12]),
        ([11], [10, 11, 12]),
        ([14], [10, 11, 12, 14]),
    ],
    ids=["gone", "not all of it", "another's among it", "newer is visible"],
)
def test_given_a_part_that_is_not_whole_or_not_the_last_then_incomplete(visible: list[int], copies: list[int]) -> None:
    with pytest.raises(Incomplete):
        changes_lost(LAST, map(change, visible), [mark(at) if at == 12 else change(at) for at in copies], 3)


def lost(visible: Sequence[Message], copies: Sequence[Message], partition: int = 0, count: int = 3) -> list[int]:
    return offsets(outputs_lost(POSITIONS, visible, copies, partition, count, {"source", "other"}))


def test_given_outputs_that_are_aborted_then_they_are_lost_in_their_order() -> None:
    before = [output(3, 37)]
    part = [output(5, 38), output(6, 38, 1), output(7, 41)]
    newer = [output(9, 42), output(10, 50, topic="other")]
    assert lost(before, [*before, *part, *newer]) == [5, 6, 7]
    assert not outputs_seen(POSITIONS, before, 0, 3)
    assert lost([*before, *part], [*before, *part, *newer]) == []
    assert outputs_seen(POSITIONS, part[:1], 0, 3)


def test_given_an_older_attempt_with_other_outputs_then_only_the_last_so_many_count() -> None:
    older = [output(1, 38), output(2, 39), output(3, 40)]
    part = [output(5, 38), output(6, 38, 1), output(7, 41)]
    assert lost([], [*older, *part]) == [5, 6, 7]
    assert lost([], [*part, *[output(at + 10, *cause) for at, cause in enumerate([(38, 0), (38, 1), (41, 0)])]]) == [
        10, 11, 12,
    ]  # fmt: skip


def test_given_an_output_that_is_visible_elsewhere_in_the_log_then_it_is_not_written_again() -> None:
    first = [output(1, 38)]
    assert lost(first, [*first, output(5, 38), output(6, 38, 1), output(7, 41)]) == [6, 7]


def test_given_outputs_of_others_then_they_are_no_business_of_the_unit() -> None:
    foreign = [
        output(20, 60, topic="foreign"),
        Message(topic="out", partition=0, offset=21, value=b"v"),
        Message(topic="out", partition=0, offset=22, value=b"v", headers=[("source-position", b"nonsense")]),
    ]
    part = [output(5, 38), output(6, 38, 1), output(7, 41)]
    assert lost(foreign, [*part, *foreign]) == [5, 6, 7]
    assert lost([], []) == [], "gone by retention"


def test_given_too_few_outputs_or_newer_ones_then_incomplete() -> None:
    part = [output(5, 38), output(6, 38, 1), output(7, 41)]
    with pytest.raises(Incomplete, match="2 are found"):
        lost([], part[1:])
    for newer in (output(9, 42), output(9, 7, topic="other")):
        with pytest.raises(Incomplete, match="newer outputs of the unit are visible"):
            lost([newer], [*part, newer])


def test_given_partitions_that_the_producer_chose_then_all_of_them_count() -> None:
    seen = [output(5, 38, partition=0, time=2)]
    aborted = [output(1, 38, 1, partition=1, time=3), output(2, 41, partition=2, time=4)]
    assert lost(seen, [*seen, *aborted], partition=-1) == [1, 2]
    assert not outputs_seen(POSITIONS, seen, -1, 3)
    assert outputs_seen(POSITIONS, [*seen, *aborted], -1, 3)
    newer_elsewhere = output(99, 42, partition=0, time=9)
    assert lost([*seen, newer_elsewhere], [*seen, *aborted, newer_elsewhere], partition=-1) == [1, 2]
