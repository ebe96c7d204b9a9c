"""What a decision means for each table."""

from __future__ import annotations

from datetime import date

import pytest

from projections.models.playback import PlaybackProjection
from projections.models.playback_rows import (
    changes_state,
    continue_key,
    event_key,
    in_history,
    is_turn,
    logged_day,
    minute_key,
    progress_key,
)
from schemas.events import SourcePosition
from streams.runtime.errors import Permanent
from tests.projections.decisions import NOW_MS, decision, key_of, partition_for

MINUTE = NOW_MS // 60_000 * 60_000


@pytest.mark.parametrize("verdict", ["duplicate", "rejected"])
def test_what_left_the_state_alone_is_no_news_for_progress_and_history(verdict: str) -> None:
    event = decision(verdict=verdict, kind="stop")
    assert not changes_state(event)
    assert not in_history(event)


@pytest.mark.parametrize("kind", ["start", "pause", "resume", "seek", "stop", "finish", "mark_played", "set_position"])
@pytest.mark.parametrize("verdict", ["accepted", "pending", "late", "ignored"])
def test_every_turn_is_history_whatever_became_of_it(kind: str, verdict: str) -> None:
    event = decision(kind=kind, verdict=verdict)
    assert is_turn(event)
    assert in_history(event)
    assert minute_key(event) is None


def test_progress_that_counted_a_play_is_a_turn() -> None:
    assert minute_key(decision(play_counted=True, play_epoch=1)) is None


def test_the_ignored_heartbeat_of_a_paused_player_is_no_history() -> None:
    assert not in_history(decision(verdict="ignored", reason="unchanged"))


def test_progress_of_one_run_shares_a_key_within_a_minute_and_not_beyond() -> None:
    first = decision(report_event_time=MINUTE)
    assert minute_key(first) == minute_key(decision(report_event_time=MINUTE + 59_999, position_ms=9))
    assert minute_key(first) != minute_key(decision(report_event_time=MINUTE + 60_000))


@pytest.mark.parametrize(
    "changes",
    [
        {"epoch": 2},
        {"phase": "finished"},
        {"verdict": "late"},
        {"report_session_id": "s-2"},
        {"report_device_id": None},
        {"source_id": "flat"},
        {"media_id": "n" * 32},
        {"user_ref": "f" * 32},
    ],
)
def test_progress_that_says_something_new_within_the_minute_has_a_key_of_its_own(changes: dict[str, object]) -> None:
    first = decision(report_event_time=MINUTE)
    assert minute_key(decision(report_event_time=MINUTE, **changes)) != minute_key(first)


def test_an_event_key_is_the_same_for_every_delivery_and_differs_by_source_and_user() -> None:
    once = decision(event_id="e-9")
    again = decision(event_id="e-9", verdict="duplicate", logged_at=NOW_MS + 5, media_id="n" * 32)
    assert event_key(once) == event_key(again)
    assert event_key(once) != event_key(decision(event_id="e-9", source_id="flat"))
    assert event_key(once) != event_key(decision(event_id="e-9", user_ref="a" * 32))


def test_the_day_is_that_of_the_log_in_utc() -> None:
    midnight = 1_796_083_200_000
    assert logged_day(decision(logged_at=midnight - 1)) == date(2026, 11, 30)
    assert logged_day(decision(logged_at=midnight)) == date(2026, 12, 1)


def test_cache_keys_are_named_as_documented() -> None:
    assert progress_key("u", "m") == "progress:u:m"
    assert continue_key("u") == "continue:u"


def test_a_decision_in_its_place_is_accepted() -> None:
    event = decision()
    assert PlaybackProjection().accept(key_of(event), event, partition_for(event)) is event


def test_what_disagrees_with_its_key_or_place_is_refused_with_its_cause() -> None:
    projection = PlaybackProjection()
    event = decision()
    here = partition_for(event)
    elsewhere = (here + 1) % 12

    def cause_of(key: bytes, candidate: object, partition: int) -> str:
        with pytest.raises(Permanent) as refused:
            projection.accept(key, candidate, partition)  # type: ignore[arg-type]
        return refused.value.cause

    position = event.cause
    assert cause_of(b"other:key", event, here) == "key_mismatch"
    assert cause_of(key_of(event), event, elsewhere) == "wrong_partition"
    moved = decision(cause=SourcePosition(position.topic_id, elsewhere, 0, 0))
    assert cause_of(key_of(moved), moved, here) == "wrong_partition"
    negative = decision(cause=SourcePosition(position.topic_id, here, -1, 0))
    assert cause_of(key_of(negative), negative, here) == "invalid_value"
    for strange in (decision(verdict="perhaps"), decision(logged_at=-1), decision(logged_at=2**60)):
        assert cause_of(key_of(strange), strange, here) == "invalid_value"
    nobody = decision(media_id="")
    assert cause_of(b"u:", nobody, here) == "invalid_value"
    assert cause_of(b"k", object(), here) == "wrong_event"
