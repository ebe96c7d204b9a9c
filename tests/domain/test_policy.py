"""Where a play counts, where it ends, and where resuming is offered: the table, value by value."""

from __future__ import annotations

import pytest

from streams.domain.limits import DAY_MS
from streams.domain.policy import FURTHEST, KIND_RULES, PLAYTHROUGH, POLICIES, near_start
from streams.domain.words import MediaKind
from tests.domain.given import finish, given, progress, report

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("kind", "duration", "played_at", "finish_at"),
    [
        ("video", 2 * HOUR, 6_480_000, 6_480_000),
        ("video", 1001, 901, 901),
        ("video", None, None, None),
        ("music", 240_000, 120_000, 230_000),
        ("music", 600_000, 240_000, 590_000),
        ("music", 15_000, 7_500, 7_500),
        ("music", 15_001, 7_501, 7_501),
        ("music", None, 240_000, None),
        ("audiobook", 10 * HOUR, 10 * HOUR - 10_000, 10 * HOUR - 10_000),
        ("audiobook", 12_000, 6_000, 6_000),
        ("audiobook", None, None, None),
        ("podcast", HOUR, HOUR - 10_000, HOUR - 10_000),
        ("live", 2 * HOUR, None, None),
        ("live", None, None, None),
    ],
)
def test_marks_of_each_kind(kind: str, duration: int | None, played_at: int | None, finish_at: int | None) -> None:
    rule = KIND_RULES[MediaKind(kind)]
    assert rule.played_at.place(duration) == played_at
    assert rule.finish_at.place(duration) == finish_at


@pytest.mark.parametrize(
    ("position", "duration", "near"),
    [
        (60_000, None, True),
        (60_001, None, False),
        (60_000, 2 * HOUR, True),
        (60_001, 2 * HOUR, False),
        (12_000, 240_000, True),
        (12_001, 240_000, False),
        (0, 1, True),
    ],
)
def test_near_start_is_5_percent_and_at_most_a_minute(position: int, duration: int | None, near: bool) -> None:
    assert near_start(position, duration) is near


@pytest.mark.parametrize(
    ("kind", "duration", "offered"),
    [
        ("video", 7200, True),
        ("video", None, True),
        ("music", 599.999, False),
        ("music", 600, True),
        ("music", None, False),
        ("audiobook", 700, True),
        ("podcast", None, True),
        ("live", 7200, False),
        (None, 7200, True),
    ],
)
def test_resume_is_offered_by_kind(kind: str | None, duration: float | None, offered: bool) -> None:
    story = given(progress(300, duration=duration, media_kind=kind))
    story.then("accepted", position_ms=300_000, resume_position_ms=300_000 if offered else None)


def test_resume_is_not_offered_near_the_start_nor_when_finished() -> None:
    given(progress(60)).then("accepted", resume_position_ms=None)
    given(progress(61)).then("accepted", resume_position_ms=61_000)
    given(finish(6600)).then("accepted", resume_position_ms=None)


def test_state_without_a_kind_counts_as_video_and_null_leaves_what_it_has() -> None:
    given(progress(6480, media_kind=None)).then("accepted", phase="finished")
    story = given(progress(600, media_kind="audiobook")).when(progress(6600, at=60, media_kind=None))
    story.then("accepted", phase="playing").when(progress(6600, at=70, media_kind="video")).then(
        phase="finished", verdict="accepted"
    )


def test_live_never_finishes_by_position_but_by_finish() -> None:
    story = given(report("progress", 7200, media_kind="live")).then("accepted", played=False, phase="playing")
    story.when(report("finish", at=60, media_kind="live")).then("accepted", played=True, phase="finished")


def test_position_may_be_30_days() -> None:
    given(report("progress", 30 * DAY_MS / 1000, duration=None)).then("accepted", position_ms=30 * DAY_MS)


def test_policies_are_two_by_name() -> None:
    assert POLICIES == {"playthrough": PLAYTHROUGH, "furthest": FURTHEST}
