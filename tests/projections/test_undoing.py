"""Which commands a correction is."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from projections.api.undoing import BeforeFinish, Command, before_finish, entry_named, occurred_at, undo


def entry(phase: str, position_ms: int, kind: str = "progress", **more: Any) -> dict[str, Any]:
    return {
        "phase": phase,
        "position_ms": position_ms,
        "kind": kind,
        "verdict": "accepted",
        "play_counted": False,
    } | more


def test_before_a_first_finish_it_was_not_played_and_stood_where_the_history_says() -> None:
    newest_first = [entry("finished", 6_600, play_counted=True), entry("playing", 900), entry("playing", 0, "start")]
    assert before_finish(newest_first) == BeforeFinish(900, played=False)


def test_what_was_said_after_the_finish_is_passed_over() -> None:
    newest_first = [entry("finished", 6_600, "stop"), entry("finished", 6_600, play_counted=True), entry("paused", 900)]
    assert before_finish(newest_first) == BeforeFinish(900, played=False)


def test_played_by_an_earlier_playthrough_it_stays_played_unless_that_was_taken_back() -> None:
    earlier = [entry("finished", 6_600), entry("playing", 900), entry("finished", 6_500, play_counted=True)]
    assert before_finish(earlier) == BeforeFinish(900, played=True)
    marked = [entry("finished", 6_600), entry("playing", 900), entry("finished", 0, "mark_played")]
    assert before_finish(marked) == BeforeFinish(900, played=True)
    taken_back = [entry("finished", 6_600), entry("playing", 900), entry("idle", 0, "mark_unplayed"), *earlier]
    assert before_finish(taken_back) == BeforeFinish(900, played=False)
    late = entry("idle", 0, "mark_unplayed", verdict="late")
    assert before_finish([entry("finished", 6_600), entry("playing", 900), late, *earlier[2:]]) == BeforeFinish(
        900, True
    )


def test_without_a_finish_there_is_nothing_before_it() -> None:
    assert before_finish([]) is None
    assert before_finish([entry("playing", 900)]) is None


def test_a_finish_that_came_first_goes_back_to_the_beginning() -> None:
    assert before_finish([entry("finished", 0, "mark_played", play_counted=True)]) == BeforeFinish(0, played=False)
    assert undo(BeforeFinish(0, played=False)) == [Command("mark_unplayed")]


def test_undoing_takes_back_played_only_when_it_was_not_before() -> None:
    assert undo(BeforeFinish(900, played=False)) == [Command("mark_unplayed"), Command("set_position", 900)]
    assert undo(BeforeFinish(900, played=True)) == [Command("set_position", 900)]
    assert undo(BeforeFinish(0, played=True)) == [Command("set_position", 0)]


def test_a_correction_is_younger_than_what_a_clock_ahead_said() -> None:
    assert occurred_at(1_000, 900) == 1_000
    assert occurred_at(1_000, 31_000) == 31_001


def test_an_entry_is_named_as_the_history_names_it() -> None:
    assert entry_named("1.4.120") == (1, 4, 120)


@given(st.text(max_size=40))
def test_any_other_text_names_no_entry(text: str) -> None:
    named = entry_named(text)
    assert named is None or [int(part) for part in text.split(".")] == list(named)
