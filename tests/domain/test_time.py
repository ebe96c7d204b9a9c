"""Event time: client clocks are bounded by the receive time, the receive time by the log's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams.domain.playback import Decision, decide
from streams.domain.report import Report
from streams.domain.timekeeping import parse_time, times_of
from tests.domain.given import NOON, command, given, progress

SECOND = 1000
YEAR = 365 * 86_400 * SECOND


def clocked(occurred_at: int | None, received_at: int = NOON, **more: object) -> Report:
    return replace(progress(600), occurred_at=occurred_at, received_at=received_at, **more)  # type: ignore[arg-type]


def event_time(decision: Decision) -> int:
    assert decision.state is not None
    assert decision.state.event_time == decision.event_time
    return decision.event_time


@pytest.mark.parametrize(
    ("occurred_at", "expected", "notes"),
    [
        (NOON - YEAR, NOON - YEAR, ()),
        (NOON + 60 * SECOND, NOON + 60 * SECOND, ()),
        (NOON + 60 * SECOND + 1, NOON, ("clock_ahead",)),
        (None, NOON, ("clock_implausible",)),
        (946_684_800_000, 946_684_800_000, ()),
        (946_684_799_999, NOON, ("clock_implausible",)),
        (0, NOON, ("clock_implausible",)),
        (-5, NOON, ("clock_implausible",)),
        (946_684_799, NOON, ("clock_implausible",)),
        (946_684_800, 946_684_800_000, ("time_in_seconds",)),
        (NOON // 1000, NOON, ("time_in_seconds",)),
        (4_102_444_800, NOON, ("time_in_seconds", "clock_ahead")),
        (4_102_444_801, NOON, ("clock_implausible",)),
    ],
)
def test_occurred_at_counts_within_its_bounds(occurred_at: int | None, expected: int, notes: tuple[str, ...]) -> None:
    decision = decide(None, clocked(occurred_at))
    assert event_time(decision) == expected
    assert decision.notes == notes


def test_webhook_happens_when_it_is_received() -> None:
    decision = decide(None, clocked(NOON - 3600 * SECOND, origin="webhook"))
    assert event_time(decision) == NOON
    assert decision.notes == ()


def test_received_at_in_seconds_is_read_as_such() -> None:
    assert event_time(decide(None, clocked(None, NOON // 1000))) == NOON


@pytest.mark.parametrize(("ahead", "read_as_logged"), [(60 * SECOND, False), (60 * SECOND + 1, True)])
def test_received_at_more_than_60_s_after_logged_at_is_read_as_logged_at(ahead: int, read_as_logged: bool) -> None:
    decision = decide(None, clocked(None, NOON + ahead, logged_at=NOON))
    assert event_time(decision) == (NOON if read_as_logged else NOON + ahead)
    assert ("clock_repaired" in decision.notes) is read_as_logged


def test_state_from_the_future_is_repaired_by_the_next_report() -> None:
    future = NOON + 10 * YEAR
    story = given(
        clocked(None, future, event_id="1"),
        clocked(None, future, event_id="2", kind="mark_unplayed", position_ms=None),
        clocked(None, future, event_id="3", session_id="web", position_ms=700_000),
    )
    story = story.when(clocked(NOON - SECOND, NOON, event_id="4", session_id="phone", position_ms=800_000))
    story.then("accepted", note="clock_repaired", position_ms=800_000, session_id="phone", event_time=NOON - SECOND)
    state = story.state
    assert state is not None
    assert state.command_time == state.epoch_started_at == NOON - SECOND
    assert all(session.event_time <= NOON for session in state.sessions)
    story.when(replace(command("mark_played"), occurred_at=NOON, received_at=NOON)).then("accepted", played=True)


def test_state_at_most_60_s_ahead_of_the_log_is_left_alone() -> None:
    story = given(clocked(None, NOON + 60 * SECOND, event_id="1"))
    story.when(clocked(None, NOON, event_id="2", position_ms=700_000)).then("late", event_time=NOON + 60 * SECOND)


def test_duplicate_repairs_nothing() -> None:
    story = given(clocked(None, NOON + YEAR, event_id="1"))
    assert story.when(clocked(None, NOON, event_id="1")).then("duplicate").state is story.state


def test_event_time_never_falls() -> None:
    story = given(progress(600, at=60, seq=1)).when(progress(610, at=50, seq=2)).then("accepted", position_ms=610_000)
    assert story.state is not None
    assert story.state.event_time == NOON + 60 * SECOND


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-29T20:15:00Z", 1_795_983_300_000),
        ("2026-11-29t20:15:00z", 1_795_983_300_000),
        ("2026-11-29 21:15:00+01:00", 1_795_983_300_000),
        ("2026-11-29T19:45:00.1239-00:30", 1_795_983_300_123),
        ("2026-11-29T20:15:00.1234567Z", 1_795_983_300_123),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ("1969-12-31T23:59:59.5Z", -500),
        (1_795_983_300_000, 1_795_983_300_000),
        (1_795_983_300.9, 1_795_983_300),
        ("2026-11-29T20:15:00+0000", 1_795_983_300_000),
        ("0001-01-01T00:00:00.0000000", -62_135_596_800_000),
        (10**40, 2**63 - 1),
        (-(10**40), -(2**63)),
    ],
)
def test_time_is_rfc_3339_or_epoch_ms(text: object, expected: int) -> None:
    assert parse_time(text) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "now",
        "2026-11-29",
        "2026-11-29T20:15:00",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        True,
        [],
        {},
        "2026-11-29T24:00:00Z",
        "2026-11-29T20:15:00+99:99",
        "٢٠٢٦-11-29T20:15:00Z",
        float("nan"),
        float("inf"),
    ],
)
def test_anything_else_is_no_time(value: object) -> None:
    assert parse_time(value) is None


def test_notes_of_time_come_once() -> None:
    seconds = clocked(NOON // 1000, NOON // 1000, logged_at=NOON // 1000)
    assert times_of(seconds).notes == ("time_in_seconds",)
