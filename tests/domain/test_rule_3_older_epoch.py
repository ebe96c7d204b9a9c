"""Rule 3: what belongs to an older epoch is late."""

from __future__ import annotations

from typing import Any

from tests.domain.given import Story, command, finish, given, progress, start


def restarted(**more: int) -> Story:
    """A film at 40 min, begun again an hour later on the phone: epoch 2 started at 3600."""
    phone: dict[str, Any] = {"run": "phone"}
    return given(
        progress(2400, at=0, seq=1),
        start(0, at=3600, **phone),
        progress(10, at=3610, **phone),
        progress(31, at=3631, **phone),
    ).then("accepted", epoch=2)


def test_report_more_than_10_s_older_than_the_epoch_is_late() -> None:
    restarted().when(progress(2500, at=3589, run="web")).then("late", "older_epoch", position_ms=31_000)


def test_first_epoch_has_no_lower_bound() -> None:
    given(progress(600, at=0)).when(progress(900, at=-5000, run="phone")).then("late", "older_than_state")


def test_late_finish_of_the_epoch_before_counts_there_once_and_leaves_the_present() -> None:
    story = restarted().when(finish(7200, at=3000, seq=5))
    story.then("late", "older_epoch", play_count=1, played=False, phase="playing", epoch=2, position_ms=31_000)
    assert story.last.play_epoch == 1
    story.when(finish(7200, at=3100, seq=6)).then("late", play_count=1)
    story.when(finish(7200, at=9000, run="phone")).then("accepted", play_count=2, played=True)


def test_play_of_an_epoch_before_the_one_before_counts_nowhere() -> None:
    story = restarted().when(command("clear_position", at=5000)).then("accepted", epoch=3)
    story.when(finish(7200, at=3000, seq=5)).then("late", play_count=0)
    story.when(finish(7200, at=4000, run="web")).then("late", play_count=1)


def test_current_run_ordered_by_sequence_is_not_judged_by_its_clock() -> None:
    story = given(
        progress(2400, at=0),
        start(0, at=3600, run="phone", seq=1),
        progress(31, at=3631, run="phone", seq=2),
    ).then("accepted", epoch=2)
    story.when(progress(60, at=1000, run="phone", seq=3)).then("accepted", position_ms=60_000)


def test_report_at_most_10_s_older_than_the_epoch_is_judged_by_the_other_rules() -> None:
    restarted().when(progress(2500, at=3589.999, run="web")).then("late", "older_epoch")
    restarted().when(progress(2500, at=3590, run="web")).then("late", "older_than_state")
