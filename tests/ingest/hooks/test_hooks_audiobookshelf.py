"""Audiobookshelf: sessions, progress and socket events, and each trap known of them."""

from __future__ import annotations

import pytest

from streams.ingest.hooks import Ignored, Observation, ParsedReport, Rejected, Result, parse
from tests.ingest.hooks.payloads import SECRETS, encoded, progress, session, without

NO_NEWS = """
item_updated items_updated user_session_closed user_online user_offline init task_started task_finished
library_updated stream_open stream_closed
"""


def every(payload: object) -> list[Result]:
    results = parse("audiobookshelf", encoded(payload))
    assert not [secret for secret in SECRETS if secret in repr(results)]
    return results


def report(payload: object) -> ParsedReport:
    (result,) = every(payload)
    assert isinstance(result, ParsedReport), result
    return result


def reason(payload: object) -> str:
    (result,) = every(payload)
    assert isinstance(result, Ignored | Rejected), result
    return result.reason


def test_session_is_an_import_with_its_own_time_in_whole_ms() -> None:
    assert report(session()) == ParsedReport(
        kind="progress",
        origin="import",
        upstream_user="abs-user-1",
        upstream_media="abs-item-1",
        media_kind="audiobook",
        session_id="5e551011-0000-4000-8000-00000000aaaa",
        device_id="abs-phone",
        position_ms=5_400_375,
        duration_ms=30_000_125,
        occurred_at=1_777_890_600_123,
        listened_ms=900_500,
    )


def test_list_of_sessions_is_read_one_by_one_with_the_device_around_it() -> None:
    bad = session(currentTime=-1)
    bare = without(session(), "deviceInfo")
    first, second, third = every({"sessions": [bare, bad, 17], "deviceInfo": {"deviceId": "around"}})
    assert isinstance(first, ParsedReport)
    assert first.device_id == "around"
    assert isinstance(second, Rejected)
    assert second.reason == "invalid_position"
    assert isinstance(third, Rejected)
    assert third.reason == "not_an_object"


def test_time_listened_is_a_delta_and_never_a_total() -> None:
    assert reason({"currentTime": 20, "timeListened": 9, "duration": 91.75}) == "incomplete"
    named = {"userId": "u", "libraryItemId": "i", "currentTime": 20, "timeListened": 9, "duration": 91.75}
    assert report(named).listened_ms is None


def test_session_without_user_is_rejected() -> None:
    assert reason(without(session(), "userId")) == "missing_user"


def test_session_without_item_is_rejected() -> None:
    assert reason(without(session(), "libraryItemId")) == "incomplete"


def test_podcast_episode_is_named_with_its_show() -> None:
    episode = report(session(mediaType="podcast", episodeId="ep-9"))
    assert (episode.upstream_media, episode.media_kind) == ("abs-item-1/ep-9", "podcast")


def test_session_and_progress_of_one_item_name_the_same_media() -> None:
    assert report(session()).upstream_media == report(progress()).upstream_media


def test_progress_object_is_a_client_s_progress() -> None:
    assert report(progress()) == ParsedReport(
        kind="progress",
        origin="client",
        upstream_user="abs-user-1",
        upstream_media="abs-item-1",
        media_kind="audiobook",
        position_ms=5_400_375,
        duration_ms=30_000_125,
        occurred_at=1_777_890_600_123,
    )


def test_stale_progress_field_is_not_used() -> None:
    assert report(progress(progress=0.99)).position_ms == 5_400_375


def test_finished_progress_is_a_finish_when_it_was_last_updated() -> None:
    finished = report(progress(isFinished=True, finishedAt=1_500_000_000_000))
    assert (finished.kind, finished.played, finished.occurred_at) == ("finish", True, 1_777_890_600_123)


def test_finished_progress_may_have_lost_its_position() -> None:
    assert report(progress(isFinished=True, currentTime=None)).position_ms is None


@pytest.mark.parametrize(
    ("current_time", "expected"),
    [(None, "missing_position"), (-3, "invalid_position"), ("abc", "invalid_position"), (True, "invalid_position")],
)
def test_values_the_server_stores_but_nobody_played_are_rejected(current_time: object, expected: str) -> None:
    assert reason(progress(currentTime=current_time)) == expected


def test_position_as_text_is_read() -> None:
    assert report(progress(currentTime="15")).position_ms == 15_000


def test_position_beyond_30_days_is_rejected() -> None:
    assert reason(progress(currentTime=30 * 24 * 3600 + 1)) == "position_too_large"


def test_duration_zero_is_unknown() -> None:
    assert report(progress(duration=0)).duration_ms is None


def test_reading_an_e_book_is_ignored() -> None:
    assert reason(progress(duration=0, ebookLocation="epubcfi(/6/4)", ebookProgress=0.2)) == "ebook"


def test_socket_event_of_progress_carries_its_session() -> None:
    event = {
        "event": "user_item_progress_updated",
        "data": {"id": "mp-77", "sessionId": "s-5", "deviceDescription": "x / y", "data": progress()},
    }
    assert (report(event).session_id, report(event).position_ms) == ("s-5", 5_400_375)
    assert report([event["event"], event["data"]]) == report(event)


def test_user_updated_tells_its_newest_progress_and_no_token() -> None:
    older = progress(libraryItemId="other", lastUpdate=1_700_000_000_000)
    event = {
        "event": "user_updated",
        "data": {"id": "abs-user-1", "token": SECRETS[1], "mediaProgress": [older, progress()]},
    }
    assert report(event).upstream_media == "abs-item-1"


def test_user_updated_without_progress_is_ignored() -> None:
    assert reason({"event": "user_updated", "data": {"id": "u", "token": SECRETS[1]}}) == "no_news"


def test_library_events_are_observations() -> None:
    item = {"id": "i-1", "mediaType": "book", "media": {"metadata": {"title": "Rope", "isbn": "978", "asin": "B0"}}}
    assert every({"event": "items_added", "data": [item, {"id": "i-2"}]}) == [
        Observation(
            change="added",
            upstream_media="i-1",
            name="Rope",
            item_kind="book",
            provider_ids={"isbn": "978", "asin": "B0"},
        ),
        Observation(change="added", upstream_media="i-2"),
    ]
    for event, change in (("item_added", "added"), ("item_removed", "removed"), ("items_removed", "removed")):
        (result,) = every({"event": event, "data": {"id": "i-3"}})
        assert isinstance(result, Observation)
        assert (result.change, result.upstream_media) == (change, "i-3")


@pytest.mark.parametrize("event", NO_NEWS.split())
def test_events_without_news_are_ignored(event: str) -> None:
    assert reason({"event": event, "data": {}}) == "no_news"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"event": "user_session_closed", "data": "s-1"}, "no_news"),
        ({"event": "balloon_popped", "data": {}}, "unknown_event"),
        ({"event": "item_added", "data": None}, "missing_media"),
        ({"event": "user_item_progress_updated", "data": None}, "not_an_object"),
        ({"sessions": []}, "nothing_in_it"),
        ({"sessions": [{}] * 1001}, "too_many"),
        ({}, "not_an_object"),
        (7, "not_an_object"),
        ({"title": "T v2.36.0", "body": "B", "urls": []}, "incomplete"),
    ],
)
def test_the_rest_does_nothing(payload: object, expected: str) -> None:
    assert reason(payload) == expected


def test_a_thousand_sessions_are_read_and_one_more_is_not() -> None:
    assert len(every({"sessions": [session()] * 1000})) == 1000
    assert reason({"event": "items_added", "data": [{"id": "i"}] * 1001}) == "too_many"


@pytest.mark.parametrize("last_update", [0, -1, 2**63, "soon", None])
def test_unusable_time_is_unknown(last_update: object) -> None:
    assert report(progress(lastUpdate=last_update)).occurred_at is None


def test_session_never_updated_happened_when_it_started() -> None:
    assert report(session(updatedAt=None)).occurred_at == 1_777_880_000_000


def test_podcast_episode_s_progress_is_a_podcast() -> None:
    assert report(progress(mediaItemType="podcastEpisode", episodeId="ep-9")).media_kind == "podcast"


def test_progress_lists_of_the_api_are_read_one_by_one() -> None:
    assert [type(result) for result in every({"mediaProgress": [progress(), progress(userId=None)]})] == [
        ParsedReport,
        Rejected,
    ]
    assert len(every([progress(), progress()])) == 2


@pytest.mark.parametrize("total", [-5, "much", None])
def test_unusable_listening_time_costs_no_position(total: object) -> None:
    assert report(session(timeListening=total)).listened_ms is None
