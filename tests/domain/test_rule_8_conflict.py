"""Rule 8: when a conflict ends."""

from __future__ import annotations

from typing import Any

from tests.domain.given import Story, command, finish, given, progress, seek

PHONE: dict[str, Any] = {"run": "phone"}


def conflict_at(position: float = 3000) -> Story:
    story = given(progress(600), progress(position, at=-60, run="phone")).then("late")
    assert story.shown["conflict"]["position_ms"] == round(position * 1000)
    return story


def test_conflict_stays_while_the_position_is_behind_it() -> None:
    assert conflict_at().when(progress(2999.999, at=60)).shown["conflict"] is not None


def test_conflict_is_dropped_when_the_position_passes_it() -> None:
    conflict_at().when(progress(3000, at=60)).then("accepted", conflict=None)


def test_conflict_is_dropped_by_a_new_epoch() -> None:
    conflict_at().when(seek(0, at=60, run="web")).then("accepted", epoch=2, conflict=None)
    conflict_at().when(command("clear_position", at=60)).then("accepted", conflict=None)


def test_conflict_is_resolved_by_set_position_to_either_side() -> None:
    conflict_at().when(command("set_position", 3000, at=60)).then("accepted", conflict=None, position_ms=3_000_000)
    conflict_at().when(command("set_position", 600, at=60)).then("accepted", conflict=None, position_ms=600_000)


def test_conflict_is_dropped_by_a_finish_beyond_it() -> None:
    conflict_at().when(finish(at=60)).then("accepted", conflict=None, phase="finished")
