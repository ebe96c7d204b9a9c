"""What becomes of a hanging part: by examples, and for every history of a unit."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.engine.verdict import Abort, Commit, Leave, Shown, Verdict, judge, verb


def offset(reached: int) -> Shown:
    return Shown("the group's offset", reached, ends=True)


def mark(reached: int) -> Shown:
    return Shown("the mark", reached, ends=True)


def output(reached: int) -> Shown:
    return Shown("out[0]", reached, ends=False)


@pytest.mark.parametrize("shown", [offset(50), mark(50), output(50), offset(60)])
def test_given_a_part_that_something_decided_reaches_then_it_is_committed(shown: Shown) -> None:
    found = judge(50, None, [shown])
    assert isinstance(found, Commit)
    assert str(shown.reached) in found.because


@pytest.mark.parametrize("shown", [[], [offset(40)], [offset(40), mark(40), output(40)]])
def test_given_nothing_decided_that_reaches_it_then_it_is_aborted(shown: list[Shown]) -> None:
    found = judge(50, offset(40), shown)
    assert isinstance(found, Abort)
    assert "read again" in found.because


def test_given_an_output_behind_the_last_whole_transaction_then_it_is_of_this_one() -> None:
    assert isinstance(judge(50, offset(40), [output(42)]), Commit)
    assert isinstance(judge(50, None, [offset(40), output(40)]), Abort)


def test_given_an_old_offset_of_the_group_then_the_mark_says_where_transactions_end() -> None:
    assert isinstance(judge(50, None, [offset(10), mark(40), output(40)]), Abort)


@pytest.mark.parametrize("reached", [50, 70])
def test_given_a_partition_that_shows_it_already_then_the_part_is_a_repetition(reached: int) -> None:
    found = judge(50, output(reached), [offset(80), mark(80)])
    assert isinstance(found, Abort)
    assert "repetition" in found.because


def test_given_a_verdict_then_there_is_a_word_for_it() -> None:
    verdicts: list[Verdict] = [Commit(""), Abort(""), Leave("")]
    assert [verb(item) for item in verdicts] == ["commit", "abort", "leave"]
    assert [verb(item, done=True) for item in verdicts] == ["committed", "aborted", "left"]


@dataclass(frozen=True)
class Batch:
    """Source offsets ``[begin, end)``; ``outputs`` by partition: the offsets that caused one there, ascending."""

    begin: int
    end: int
    outputs: dict[str, tuple[int, ...]]


@st.composite
def histories(draw: st.DrawFn) -> list[Batch]:
    """Batches of a unit, one after the other; the last is the one in doubt."""
    begin, made = draw(st.integers(0, 3)), []
    for _ in range(draw(st.integers(1, 4))):
        end = begin + draw(st.integers(1, 4))
        caused = st.lists(st.integers(begin, end - 1), min_size=1, max_size=3).map(lambda found: tuple(sorted(found)))
        made.append(Batch(begin, end, draw(st.dictionaries(st.sampled_from(["x", "y"]), caused))))
        begin = end
    return made


@given(histories(), st.booleans(), st.sets(st.sampled_from(["offsets", "marks", "x", "y"]), min_size=1), st.booleans())
def test_given_any_history_then_the_parts_get_the_outcome_that_anybody_saw(
    history: list[Batch], committed: bool, hung: set[str], old: bool
) -> None:
    """As evidence.py collects it: outputs only where the mark hangs; the group's offset may be an old one."""
    *before, last = history
    parts = {"offsets": last.end, "marks": last.end} | {x: caused[0] + 1 for x, caused in last.outputs.items()}
    hung &= parts.keys()
    decided = parts.keys() - hung
    shown: dict[str, Shown] = {}
    for batch in [*before, last]:
        visible = {"offsets", "marks", *batch.outputs} if batch is not last else (decided if committed else set())
        if "offsets" in visible and not (old and batch is last and "marks" in decided):
            shown["offsets"] = offset(batch.end)
        if "marks" in visible:
            shown["marks"] = mark(batch.end)
        shown |= {x: output(caused[-1] + 1) for x, caused in batch.outputs.items() if x in visible}
    for part in hung:
        others = [
            fact for place, fact in shown.items()
            if place != part and (place in ("offsets", "marks") or ("marks" in hung and place not in hung))
        ]  # fmt: skip
        found = judge(parts[part], shown.get(part), others)
        assert isinstance(found, Commit if committed and decided else Abort), (part, found)
