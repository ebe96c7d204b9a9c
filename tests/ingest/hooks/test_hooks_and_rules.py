"""Traps that only show over several calls: what servers send in a row, read by the parsers, judged by the rules."""

from __future__ import annotations

from collections.abc import Sequence

from streams.domain.playback import decide
from streams.domain.report import Report
from streams.domain.state import State
from streams.ingest.hooks import Ignored, ParsedReport, Result, parse
from streams.ingest.listens import told
from tests.ingest.hooks.payloads import JsonObject, call, encoded, jellyfin, multipart, plex, session, without

NOW = 1_777_890_600_000
SECOND = 1_000


def read(format: str, *bodies: bytes) -> list[Result]:
    return [result for body in bodies for result in parse(format, body)]


def judged(calls: Sequence[tuple[int, list[Result]]]) -> State:
    """The state of the one item after calls received at the given times (seconds from now)."""
    state: State | None = None
    for number, (at, results) in enumerate(calls):
        received_at = NOW + at * SECOND
        for index, result in enumerate(results):
            if not isinstance(result, ParsedReport):
                continue
            event_id = f"{number}.{index}" if result.occurred_at is None else f"{result.kind} {result.occurred_at}"
            for one in told(result, event_id, received_at=received_at, duration_ms=result.duration_ms):
                state = decide(
                    state,
                    Report(
                        kind=one.report.kind,
                        user=one.report.upstream_user or "the token's",
                        media=one.report.upstream_media or "",
                        received_at=received_at,
                        source="attic",
                        event_id=one.event_id,
                        media_kind=one.report.media_kind,
                        session_id=one.report.session_id,
                        device_id=one.report.device_id,
                        position_ms=one.report.position_ms,
                        duration_ms=one.report.duration_ms,
                        occurred_at=one.report.occurred_at,
                        automated=bool(one.report.automated),
                        played=one.report.played,
                        listened_ms=one.report.listened_ms,
                        origin=one.report.origin,
                    ),
                ).state
    assert state is not None
    return state


def plexed(event: str, offset: int | None, **fields: object) -> list[Result]:
    payload = plex(event, **fields)
    item: JsonObject = payload["Metadata"] | {"viewOffset": offset}
    return read("plex", multipart(payload | {"Metadata": item if offset is not None else without(item, "viewOffset")}))


def test_a_play_that_comes_late_after_its_scrobble_neither_reopens_nor_counts() -> None:
    before = [(0, plexed("media.play", None)), (4_900, plexed("media.scrobble", 4_900_000))]
    for offset in (None, 4_950_000):
        state = judged([*before, (5_020, plexed("media.play", offset))])
        assert (state.play_count, state.phase, state.epoch) == (1, "finished", 1)


def test_a_scrobble_and_the_stop_after_it_are_one_play() -> None:
    calls = [(0, plexed("media.play", 0)), (4_900, plexed("media.scrobble", 4_900_000))]
    assert judged([*calls, (5_400, plexed("media.stop", 5_390_000))]).play_count == 1


def test_fourteen_saves_of_one_watched_episode_are_one_play() -> None:
    saved = encoded(jellyfin("UserDataSaved", SaveReason="PlaybackFinished", Played=True))
    assert all(isinstance(result, Ignored) for result in read("jellyfin", *[saved] * 14))
    stop = jellyfin("PlaybackStop", PlayedToCompletion=True, PlaybackPositionTicks=53_900_000_000)
    calls = [(0, read("jellyfin", encoded(jellyfin("PlaybackStart", PlaybackPositionTicks=0))))]
    calls += [(5_390, read("jellyfin", encoded(stop), *[saved] * 14))]
    assert judged(calls).play_count == 1


def test_a_marked_series_is_told_by_its_episodes_once_each() -> None:
    def marked(item: str, item_type: str) -> bytes:
        return encoded(
            jellyfin("UserDataSaved", SaveReason="TogglePlayed", Played=True, ItemId=item, ItemType=item_type)
        )

    episodes = [marked(f"{n:032x}", "Episode") for n in range(1, 4)]
    results = read("jellyfin", marked("f" * 32, "Series"), marked("e" * 32, "Season"), *episodes)
    reports = [result for result in results if isinstance(result, ParsedReport)]
    assert [(report.kind, report.upstream_media) for report in reports] == [
        ("mark_played", f"{n:032x}") for n in range(1, 4)
    ]


def test_one_hook_for_each_user_of_a_session_is_a_report_of_each() -> None:
    users = ["77e2d4c6b8a01234567890abcdef1234", "88e2d4c6b8a01234567890abcdef1234"]
    results = read("jellyfin", *(encoded(jellyfin("PlaybackProgress", UserId=user)) for user in users))
    assert [result.upstream_user for result in results if isinstance(result, ParsedReport)] == users


def test_two_equal_stops_at_zero_within_a_second_lose_no_position() -> None:
    stop = read("jellyfin", encoded(jellyfin("PlaybackStop", PlaybackPositionTicks=0)))
    calls = [(0, read("jellyfin", encoded(jellyfin("PlaybackProgress")))), (10, stop), (10, stop)]
    state = judged(calls)
    assert (state.position_ms, state.play_count, state.phase) == (1_800_000, 0, "stopped")


def test_a_session_synced_twice_listens_once() -> None:
    def synced(total: float, at: int) -> list[Result]:
        return read("audiobookshelf", encoded(session(timeListening=total, updatedAt=NOW + at * SECOND)))

    state = judged([(0, synced(9, 0)), (1, synced(9, 0)), (20, synced(18, 20)), (21, synced(18, 20))])
    assert state.listened_ms == 18_000


def test_an_offline_session_that_syncs_late_does_not_move_a_newer_position_back() -> None:
    newer = read("audiobookshelf", encoded(session(currentTime=26_640, updatedAt=NOW)))
    old = read("audiobookshelf", encoded(session(id="older", currentTime=1.6, updatedAt=NOW - 3_600 * SECOND)))
    assert judged([(0, newer), (12, old)]).position_ms == 26_640_000


def test_a_play_reported_live_and_scrobbled_afterwards_is_one_play() -> None:
    def reported(state: str, seconds: int) -> list[Result]:
        return read("subsonic", call("reportPlayback", f"mediaId=tr-6&state={state}&positionMs={seconds * SECOND}"))

    live = [(n * 10, reported("playing", n * 10)) for n in range(1, 25)]
    calls = [(0, reported("starting", 0)), *live, (240, reported("stopped", 240))]
    for time in ("", f"&time={NOW}", f"&time={NOW + 240 * SECOND}"):
        assert judged([*calls, (241, read("subsonic", call("scrobble", f"id=tr-6{time}")))]).play_count == 1
