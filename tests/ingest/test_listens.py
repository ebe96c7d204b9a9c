"""Listens told in one statement: what the door writes for them, and what the rules make of that."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import PlaybackReported
from streams.domain.playback import decide
from streams.domain.report import Report
from streams.domain.state import State
from streams.ingest.door import Receipt
from streams.ingest.hooks import Listen, ParsedReport, Result, parse
from streams.ingest.listens import told
from streams.runtime.tokens import Principal, Scope
from tests.ingest.fakes import World
from tests.ingest.hooks.payloads import call, encoded, listen

HOME = Principal("t", "home", frozenset({Scope.REPORT}), "b" * 32)
MINUTE = 60_000
T = 1_777_890_600_000


def submitted(at: int, *, duration_ms: int | None = 200_000, kind: str = "single") -> list[Result]:
    """One listen of the one track, ``at`` in epoch ms."""
    record = listen(listened_at=at // 1000)
    record["track_metadata"]["additional_info"]["duration_ms"] = duration_ms
    return parse("listenbrainz", encoded({"listen_type": kind, "payload": [record]}))


def now_playing() -> list[Result]:
    return parse("listenbrainz", encoded({"listen_type": "playing_now", "payload": [listen()]}))


def scrobbled(at: int | None, *, media: str = "tr-6") -> list[Result]:
    time = "" if at is None else f"&time={at}"
    return parse("subsonic", call("scrobble", f"id={media}{time}"))


def hand_in(world: World, results: Sequence[Result], now: int) -> Receipt:
    world.clock.advance(now - world.clock.now_ms())
    reports = [result for result in results if isinstance(result, ParsedReport)]
    bound = [replace(report, upstream_user=None) for report in reports]
    return asyncio.run(world.door.take(HOME, bound, format="listenbrainz", correlation_id="c"))


def judged(events: Sequence[PlaybackReported]) -> State:
    """The state of the one track after all that stands in the log."""
    state: State | None = None
    for event in events:
        report = Report(
            kind=event.kind,
            user=event.user_ref,
            media=event.media_id,
            received_at=event.received_at,
            source=event.source_id,
            event_id=event.event_id,
            media_kind=event.media_kind,
            session_id=event.session_id,
            device_id=event.device_id,
            position_ms=event.position_ms,
            duration_ms=event.duration_ms,
            occurred_at=event.occurred_at,
            played=event.played,
            origin=event.origin,
        )
        state = decide(state, report).state
    assert state is not None
    return state


def plays(*calls: tuple[int, list[Result]]) -> int:
    world = World()
    for now, results in calls:
        hand_in(world, results, now)
    return judged(world.reported()).play_count


@pytest.mark.parametrize("duration_ms", [None, 31_000, 45_000, 60_000, 61_730, 200_000, 15 * MINUTE, 10 * 60 * MINUTE])
def test_two_listens_of_a_track_ten_minutes_apart_are_two_plays(duration_ms: int | None) -> None:
    first, second = T, T + 10 * MINUTE
    assert (
        plays(
            (first + 2 * MINUTE, submitted(first, duration_ms=duration_ms)),
            (second + 2 * MINUTE, submitted(second, duration_ms=duration_ms)),
        )
        == 2
    )


@pytest.mark.parametrize("times", [2, 5])
def test_a_listen_submitted_again_is_a_duplicate_however_late(times: int) -> None:
    calls = [(T + (2 + 50 * n) * MINUTE, submitted(T)) for n in range(times)]
    assert plays(*calls) == 1


def test_a_repeated_listen_after_a_newer_one_changes_nothing() -> None:
    world = World()
    for at in (T, T + 10 * MINUTE):
        hand_in(world, submitted(at), at + 2 * MINUTE)
    before = judged(world.reported())
    hand_in(world, submitted(T), T + 30 * MINUTE)
    assert judged(world.reported()) == before


def test_a_track_on_repeat_counts_each_time() -> None:
    each = 61_730
    ends = [T + each * n for n in range(1, 6)]
    assert plays(*((end, submitted(end - each, duration_ms=each)) for end in ends)) == 5


def test_a_sender_that_states_the_end_of_a_listen_counts_the_same() -> None:
    assert plays((T, submitted(T)), (T + 10 * MINUTE, submitted(T + 10 * MINUTE))) == 2


def test_a_sender_whose_clock_is_an_hour_ahead_counts_the_same() -> None:
    hour = 60 * MINUTE
    assert plays((T, submitted(T + hour)), (T + 10 * MINUTE, submitted(T + hour + 10 * MINUTE))) == 2


def test_now_playing_notices_around_listens_change_no_count() -> None:
    calls: list[tuple[int, list[Result]]] = []
    for begun in (T, T + 10 * MINUTE, T + 20 * MINUTE):
        calls += [(begun + 1_500, now_playing()), (begun + 70_000, now_playing())]  # again after a pause
        calls += [(begun + 2 * MINUTE, submitted(begun))]
    assert plays(*calls) == 3


def test_an_import_newest_first_counts_each_listen() -> None:
    record = listen()["track_metadata"]
    payload = [{"listened_at": (T - n * 10 * MINUTE) // 1000, "track_metadata": record} for n in range(4)]
    results = parse("listenbrainz", encoded({"listen_type": "import", "payload": payload}))
    world = World()
    receipt = hand_in(world, results, T + 60 * MINUTE)
    assert judged(world.reported()).play_count == 4
    assert receipt.accepted == 4
    finishes = {event.event_id: event.session_id for event in world.reported() if event.kind == "finish"}
    told_ids = [finishes[event_id] for event_id in receipt.event_ids]
    assert told_ids == [f"listen-{T - n * 10 * MINUTE}" for n in range(4)]


def test_timed_scrobbles_of_a_track_of_unknown_length_are_plays_each() -> None:
    calls = [(T + n * 10 * MINUTE + 100_000, scrobbled(T + n * 10 * MINUTE)) for n in range(3)]
    assert plays(*calls, calls[-1]) == 3


def test_scrobbles_without_a_time_can_t_be_told_from_retries_and_count_once() -> None:
    assert plays(*((T + n * 10 * MINUTE, scrobbled(None)) for n in range(3))) == 1


def test_scrobbles_without_a_time_count_each_after_their_now_playing_notice() -> None:
    def begun() -> list[Result]:
        return parse("subsonic", call("scrobble", "id=tr-6&submission=false"))

    calls: list[tuple[int, list[Result]]] = []
    for at in (T, T + 10 * MINUTE):
        calls += [(at, begun()), (at + 2 * MINUTE, scrobbled(None)), (at + 2 * MINUTE + 3_000, scrobbled(None))]
    assert plays(*calls) == 2


def test_a_listen_is_a_start_a_progress_where_it_counts_and_a_finish_of_one_session() -> None:
    world = World()
    receipt = hand_in(world, submitted(T), T + 2 * MINUTE)
    events = world.reported()
    assert [(event.kind, event.position_ms, event.occurred_at) for event in events] == [
        ("start", 0, T),
        ("progress", 100_000, T + 100_000),
        ("finish", None, T + 100_000),
    ]
    assert {event.session_id for event in events} == {f"listen-{T}"}
    assert [event.played for event in events] == [None, None, True]
    assert receipt.event_ids == (events[-1].event_id,)
    assert len({event.event_id for event in events}) == 3


def test_what_follows_from_a_listen_is_placed_before_a_time_that_can_t_be_its_beginning() -> None:
    (report,) = submitted(T)
    assert isinstance(report, Listen)
    assert [one.report.occurred_at for one in told(report, "e", received_at=T + 5_000, duration_ms=200_000)] == [
        T - 100_000,
        T,
        T,
    ]


def test_a_report_that_is_no_listen_stays_itself() -> None:
    report = ParsedReport(kind="finish", origin="client", upstream_media="m", played=True, occurred_at=T)
    assert [one.report for one in told(report, "e", received_at=T, duration_ms=None)] == [report]


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.integers(30_000, 20 * MINUTE) | st.none(),
    st.integers(-2 * 60 * MINUTE, 24 * 60 * MINUTE),
    st.integers(0, 20),
    st.lists(st.integers(0, 4), max_size=6),
)
def test_any_sender_s_listens_count_once_each_and_their_retries_never(
    duration_ms: int | None, delay: int, gap_s: int, retried: list[int]
) -> None:
    """Played to the end one after another, told with any delay (or from a clock ahead), some told again."""
    each = (duration_ms or 4 * MINUTE) + gap_s * 1000
    listens = [T + n * each for n in range(5)]
    order = [(n, listens[n] + each + delay) for n in range(5)]
    order += [(n, order[-1][1] + MINUTE) for n in retried]
    state: State | None = None
    for n, now in order:
        report = Listen(
            kind="finish",
            origin="client",
            upstream_user="u",
            upstream_media="m",
            media_kind="music",
            device_id="d",
            duration_ms=duration_ms,
            occurred_at=listens[n],
            played=True,
        )
        for one in told(report, f"e{n}", received_at=now, duration_ms=duration_ms):
            state = decide(
                state,
                Report(
                    kind=one.report.kind,
                    user="u",
                    media="m",
                    received_at=now,
                    source="home",
                    event_id=one.event_id,
                    media_kind="music",
                    session_id=one.report.session_id,
                    device_id="d",
                    position_ms=one.report.position_ms,
                    duration_ms=duration_ms,
                    occurred_at=one.report.occurred_at,
                    played=one.report.played,
                ),
            ).state
    assert state is not None
    assert (state.play_count, state.phase) == (5, "finished")
