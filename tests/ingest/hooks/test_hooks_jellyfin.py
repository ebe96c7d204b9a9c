"""Jellyfin: each event of both plugins, and each trap known of their payloads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streams.ingest.hooks import Ignored, Observation, ParsedReport, Rejected, Result, parse
from tests.ingest.hooks.payloads import (
    JELLYFIN_ITEM,
    JELLYFIN_TEMPLATE,
    JELLYFIN_USER,
    SECRETS,
    encoded,
    jellyfin,
    nested,
    without,
)

NO_NEWS = """
Generic SessionStart AuthenticationSuccess AuthenticationFailure TaskCompleted PendingRestart UserCreated UserDeleted
PluginInstallationCancelled PluginInstallationFailed PluginInstalled PluginInstalling PluginUninstalled PluginUpdated
SubtitleDownloadFailure UserLockedOut UserPasswordChanged UserUpdated
"""
CONTAINERS = """
Series Season BoxSet Folder CollectionFolder UserView Playlist MusicAlbum MusicArtist MusicGenre Genre Studio Person
PhotoAlbum AggregateFolder
"""
OCCURRED_AT = 1_777_890_600_765


def one(payload: object) -> Result:
    body = payload if isinstance(payload, bytes) else encoded(payload)
    (result,) = parse("jellyfin", body)
    assert not [secret for secret in SECRETS if secret in repr(result)]
    return result


def report(payload: object) -> ParsedReport:
    result = one(payload)
    assert isinstance(result, ParsedReport), result
    return result


def reason(payload: object) -> str:
    result = one(payload)
    assert isinstance(result, Ignored | Rejected), result
    return result.reason


def test_start_with_json_types_is_a_start() -> None:
    assert report(jellyfin("PlaybackStart")) == ParsedReport(
        kind="start",
        origin="webhook",
        upstream_user=JELLYFIN_USER,
        upstream_media=JELLYFIN_ITEM,
        media_kind="video",
        device_id="tv-attic-1",
        position_ms=1_800_000,
        duration_ms=5_400_000,
        occurred_at=OCCURRED_AT,
        automated=False,
    )


def test_progress_is_a_progress() -> None:
    assert report(jellyfin("PlaybackProgress")).kind == "progress"


@pytest.mark.parametrize("paused", [True, "True", "true", "1", 1])
def test_paused_progress_is_a_pause(paused: object) -> None:
    assert report(jellyfin("PlaybackProgress", IsPaused=paused)).kind == "pause"


def test_automated_progress_is_marked_automated() -> None:
    assert report(jellyfin("PlaybackProgress", IsAutomated="True")).automated is True


@pytest.mark.parametrize(("completed", "played"), [(True, True), ("True", True), ("False", False), ("", None)])
def test_stop_claims_completion_only_when_the_server_does(completed: object, played: bool | None) -> None:
    stop = report(jellyfin("PlaybackStop", PlayedToCompletion=completed))
    assert (stop.kind, stop.played) == ("stop", played)


def test_null_position_became_zero_so_a_pause_at_zero_has_no_position() -> None:
    assert report(jellyfin("PlaybackProgress", IsPaused=True, PlaybackPositionTicks=0)).position_ms is None
    assert report(jellyfin("PlaybackProgress", PlaybackPositionTicks=0)).position_ms == 0


def test_runtime_zero_is_an_unknown_duration() -> None:
    assert report(jellyfin("PlaybackProgress", RunTimeTicks=0)).duration_ms is None


def test_runtime_text_that_wraps_at_24_hours_is_not_used() -> None:
    day_and_a_half = jellyfin("PlaybackProgress", RunTimeTicks=36 * 36_000_000_000, RunTime="12:00:00")
    assert report(day_and_a_half).duration_ms == 36 * 3_600_000


def test_negative_position_is_rejected() -> None:
    assert reason(jellyfin("PlaybackProgress", PlaybackPositionTicks=-10_000)) == "invalid_position"


def test_position_that_is_no_number_is_rejected() -> None:
    assert reason(jellyfin("PlaybackProgress", PlaybackPositionTicks="half")) == "invalid_position"


def test_progress_without_position_is_rejected() -> None:
    assert reason(without(jellyfin("PlaybackProgress"), "PlaybackPositionTicks")) == "missing_position"


@pytest.mark.parametrize("user", [None, "", "00000000000000000000000000000000"])
def test_missing_user_is_rejected_not_replaced_by_a_name(user: str | None) -> None:
    assert reason(jellyfin("PlaybackProgress", UserId=user)) == "missing_user"


def test_missing_item_is_rejected() -> None:
    assert reason(jellyfin("PlaybackProgress", ItemId=None)) == "missing_media"


def test_hyphenated_and_upper_case_guids_meet_the_plain_ones() -> None:
    hyphenated = jellyfin(
        "PlaybackProgress",
        ItemId="0AA1BB2C-C3DD-4EE5-FF60-718293A4B5C6",
        UserId="77e2d4c6-b8a0-1234-5678-90abcdef1234",
    )
    assert report(hyphenated) == report(jellyfin("PlaybackProgress"))


@pytest.mark.parametrize(
    ("item_type", "kind"),
    [
        ("Movie", "video"),
        ("Episode", "video"),
        ("Video", "video"),
        ("MusicVideo", "video"),
        ("Trailer", "video"),
        ("Recording", "video"),
        ("Podcast", "podcast"),
        ("LiveTv", "live"),
        ("LiveTvProgram", "live"),
        ("Channel", "live"),
        ("Program", "live"),
        ("Audio", "music"),
        ("AudioBook", "audiobook"),
        ("LiveTvChannel", "live"),
        ("TvChannel", "live"),
        ("Photo", None),
    ],
)
def test_media_kind_follows_the_item_type(item_type: str, kind: str | None) -> None:
    assert report(jellyfin("PlaybackStart", ItemType=item_type)).media_kind == kind


def test_template_mode_is_read_like_typed_mode() -> None:
    template = (JELLYFIN_TEMPLATE % ("Wind, mostly.", '"2019"')).encode()
    assert report(template) == report(jellyfin("PlaybackProgress"))


@pytest.mark.parametrize(
    "overview",
    [
        'She said "go" and "fly", once.',
        "line one\nline two\r\nand a\ttab",
        'ends with a quote"',
        "a back\\slash and a \\ quote",
        "braces } and ] and , commas",
    ],
)
def test_free_text_that_breaks_the_json_costs_no_report(overview: str) -> None:
    template = (JELLYFIN_TEMPLATE % (overview, "2019")).encode()
    assert report(template) == report(jellyfin("PlaybackProgress"))


def test_absent_number_in_a_template_costs_no_report() -> None:
    assert report((JELLYFIN_TEMPLATE % ("x", "")).encode()).position_ms == 1_800_000


def test_unquoted_true_of_a_template_is_true() -> None:
    template = JELLYFIN_TEMPLATE.replace('"IsPaused": "False"', '"IsPaused": True') % ("x", "2019")
    assert report(template.encode()).kind == "pause"


def test_trailing_comma_of_a_template_costs_no_report() -> None:
    template = (JELLYFIN_TEMPLATE % ("x", "2019")).removesuffix("\n}") + ",\n}"
    assert report(template.encode()).position_ms == 1_800_000


def test_broken_json_whose_free_text_names_a_field_is_rejected_not_guessed() -> None:
    overview = 'trap "here", "UserId": "99999999999999999999999999999999", "Tagline": "'
    assert reason((JELLYFIN_TEMPLATE % (overview, "")).encode()) == "ambiguous_json"


@pytest.mark.parametrize("length", [40, 200, 400])
def test_cut_off_payload_is_rejected(length: int) -> None:
    assert reason((JELLYFIN_TEMPLATE % ("x", "2019")).encode()[:length]) == "bad_json"


def test_html_entities_are_undone() -> None:
    added = one(jellyfin("ItemAdded", Name="Kites &amp; Co&#39;s &quot;Best&quot;"))
    assert isinstance(added, Observation)
    assert added.name == 'Kites & Co\'s "Best"'
    assert report(jellyfin("PlaybackStart", DeviceId="dGVzdA&#x3D;&#x3D;")).device_id == "dGVzdA=="


def test_character_reference_of_thousands_of_digits_is_left_alone() -> None:
    added = one(jellyfin("ItemAdded", Name="&#" + "9" * 5_000 + ";"))
    assert isinstance(added, Observation)
    assert added.name == "&#" + "9" * 1022
    assert reason(jellyfin("PlaybackStart", DeviceId="&#" + "9" * 5_000)) == "id_too_long"


def test_quotes_escaped_twice_are_undone_in_names() -> None:
    added = one(jellyfin("ItemAdded", Name='The \\"Tin\\" Kite'))
    assert isinstance(added, Observation)
    assert added.name == 'The "Tin" Kite'


def test_utc_timestamp_counts_not_local_time_without_offset() -> None:
    local_only = without(jellyfin("PlaybackStart", Timestamp="2026-05-04T12:30:00.7654321"), "UtcTimestamp")
    assert report(local_only).occurred_at is None
    with_offset = without(jellyfin("PlaybackStart"), "UtcTimestamp")
    assert report(with_offset).occurred_at == OCCURRED_AT


def test_text_plain_content_type_is_no_obstacle() -> None:
    (result,) = parse("jellyfin", encoded(jellyfin("PlaybackStart")), "text/plain; charset=utf-8")
    assert isinstance(result, ParsedReport)


def test_byte_order_mark_is_no_obstacle() -> None:
    assert report(b"\xef\xbb\xbf" + encoded(jellyfin("PlaybackStart"))).kind == "start"


def test_form_destination_is_read() -> None:
    assert report(b"NotificationType=PlaybackStart&ItemId=i1&UserId=u1&IsPaused=False").upstream_media == "i1"


@pytest.mark.parametrize(("played", "kind"), [(True, "mark_played"), ("False", "mark_unplayed")])
def test_a_ticked_or_unticked_item_is_a_command(played: object, kind: str) -> None:
    command = report(jellyfin("UserDataSaved", SaveReason="TogglePlayed", Played=played))
    assert (command.kind, command.position_ms) == (kind, None)


@pytest.mark.parametrize("save_reason", ["PlaybackStart", "PlaybackProgress", "PlaybackFinished"])
def test_user_data_saved_by_playback_is_an_echo(save_reason: str) -> None:
    assert reason(jellyfin("UserDataSaved", SaveReason=save_reason, Played=True)) == "playback_echo"


@pytest.mark.parametrize(
    ("save_reason", "expected"),
    [("UpdateUserRating", "no_news"), ("Import", "bulk_import"), ("", "no_save_reason"), ("New", "unknown_event")],
)
def test_other_save_reasons_do_nothing(save_reason: str, expected: str) -> None:
    assert reason(jellyfin("UserDataSaved", SaveReason=save_reason, Played=True)) == expected


def test_user_data_written_through_the_api_sets_the_position() -> None:
    command = report(jellyfin("UserDataSaved", SaveReason="UpdateUserData", Played=True))
    assert (command.kind, command.position_ms) == ("set_position", 1_800_000)


def test_user_data_written_without_position_marks_played_or_does_nothing() -> None:
    saved = jellyfin("UserDataSaved", SaveReason="UpdateUserData", PlaybackPositionTicks=0)
    assert report(saved | {"Played": True}).kind == "mark_played"
    assert reason(saved | {"Played": False}) == "ambiguous_user_data"


def test_toggle_without_played_is_rejected() -> None:
    assert reason(jellyfin("UserDataSaved", SaveReason="TogglePlayed")) == "incomplete"


@pytest.mark.parametrize("container", CONTAINERS.split())
def test_marking_a_series_is_left_to_the_hooks_of_its_episodes(container: str) -> None:
    marked = jellyfin("UserDataSaved", SaveReason="TogglePlayed", Played=True, ItemType=container)
    assert reason(marked) == "container"


def test_item_added_has_no_user_and_is_an_observation() -> None:
    added = one(without(jellyfin("ItemAdded"), "UserId", "PlaybackPositionTicks"))
    assert added == Observation(
        change="added",
        upstream_media=JELLYFIN_ITEM,
        name="The Tin Kite",
        item_kind="movie",
        provider_ids={"imdb": "tt9900112", "tmdb": "99001"},
    )


def test_library_news_without_item_is_rejected() -> None:
    assert reason(without(jellyfin("ItemAdded"), "ItemId")) == "missing_media"
    assert reason(nested("ItemRemoved", Item=None)) == "missing_media"


def test_play_session_of_a_template_is_the_session() -> None:
    assert report(jellyfin("PlaybackStart", PlaySessionId="ps-1")).session_id == "ps-1"


def test_null_in_a_broken_template_is_absent() -> None:
    template = JELLYFIN_TEMPLATE.replace('"DeviceId": "tv-attic-1"', '"DeviceId": null') % ("x", "")
    assert report(template.encode()).device_id is None


def test_item_deleted_is_an_observation_of_removal() -> None:
    removed = one(jellyfin("ItemDeleted"))
    assert isinstance(removed, Observation)
    assert removed.change == "removed"


@pytest.mark.parametrize("event", NO_NEWS.split())
def test_events_without_playback_news_are_ignored(event: str) -> None:
    assert reason(jellyfin(event)) == "no_news"


def test_unknown_event_is_ignored() -> None:
    assert reason(jellyfin("KiteFlown")) == "unknown_event"


def test_payload_without_event_is_rejected() -> None:
    assert reason(without(jellyfin("PlaybackStart"), "NotificationType")) == "no_event"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "empty"),
        (b" \r\n", "empty"),
        (b"not json", "bad_json"),
        (b"[1, 2]", "not_an_object"),
        (b'"text"', "not_an_object"),
        (b"\xff\xfe\x00", "bad_encoding"),
        (b"{" + b" " * 1024 * 1024 + b"}", "too_large"),
        (b'{"a":' * 33 + b"1" + b"}" * 33, "too_deep"),
    ],
)
def test_unreadable_body_is_rejected_with_its_reason(body: bytes, expected: str) -> None:
    assert reason(body) == expected


def test_nul_or_lone_surrogate_in_an_id_is_rejected() -> None:
    assert reason(jellyfin("PlaybackStart", DeviceId="tv\x00")) == "invalid_text"
    assert reason(jellyfin("PlaybackStart", UserId="\ud800")) == "invalid_text"


def test_nul_in_an_overview_nobody_reads_costs_no_report() -> None:
    assert report(jellyfin("PlaybackStart", Overview="x\x00y")).kind == "start"


def test_id_over_256_bytes_is_rejected() -> None:
    assert report(jellyfin("PlaybackStart", DeviceId="é" * 128)).device_id == "é" * 128
    assert reason(jellyfin("PlaybackStart", DeviceId="é" * 128 + "x")) == "id_too_long"


def test_display_text_is_cut_at_1_kib() -> None:
    added = one(jellyfin("ItemAdded", Name="é" * 5_000))
    assert isinstance(added, Observation)
    assert added.name == "é" * 512


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ("Play", "start"),
        ("Progress", "progress"),
        ("Pause", "pause"),
        ("Resume", "resume"),
        ("Stop", "stop"),
        ("Scrobble", "finish"),
    ],
)
def test_the_other_plugin_s_playback_events_are_read(event: str, kind: str) -> None:
    assert report(nested(event)) == ParsedReport(
        kind=kind,  # type: ignore[arg-type]
        origin="webhook",
        upstream_user=JELLYFIN_USER,
        upstream_media=JELLYFIN_ITEM,
        media_kind="video",
        session_id="a0b1c2d3",
        device_id="tv-attic-1",
        position_ms=1_800_000,
        duration_ms=5_400_000,
        played=True if kind == "finish" else None,
    )


@pytest.mark.parametrize(("event", "kind"), [("MarkPlayed", "mark_played"), ("MarkUnplayed", "mark_unplayed")])
def test_the_other_plugin_s_marks_are_commands_without_session(event: str, kind: str) -> None:
    command = report(nested(event, Session=None))
    assert (command.kind, command.position_ms, command.session_id) == (kind, None, None)


def test_the_other_plugin_s_paused_progress_is_a_pause() -> None:
    state = {"PlayState": {"PositionTicks": 10_000, "IsPaused": True}}
    assert report(nested("Progress", Session=state)).kind == "pause"


def test_the_other_plugin_s_stop_of_a_cleared_session_takes_the_stored_position() -> None:
    assert report(nested("Stop", Session={"DeviceId": "d"})).position_ms == 1_800_000


def test_the_other_plugin_s_keys_may_be_camel_case() -> None:
    def camel(value: Any) -> Any:
        if isinstance(value, dict):
            return {name[0].lower() + name[1:]: camel(item) for name, item in value.items()}
        return value

    assert report(camel(nested("Stop"))) == report(nested("Stop"))


def test_the_other_plugin_s_library_news_are_observations() -> None:
    added, removed = one(nested("ItemAdded")), one(nested("ItemRemoved"))
    assert isinstance(added, Observation)
    assert isinstance(removed, Observation)
    assert (added.change, removed.change) == ("added", "removed")
    assert added.provider_ids == {"imdb": "tt9900112"}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (nested("Rate"), "no_news"),
        (nested("ItemUpdated"), "no_news"),
        (nested("AuthenticationSucceeded"), "no_news"),
        (nested("AuthenticationFailed"), "no_news"),
        (nested("SessionStarted"), "no_news"),
        (nested("SessionEnded"), "no_news"),
        (nested("SubtitleDownloadFailure"), "no_news"),
        (nested("HasPendingRestartChanged"), "no_news"),
        (nested("Somersault"), "unknown_event"),
        (nested("Stop", User=None), "missing_user"),
        (nested("Stop", Session={"PlayState": {"PositionTicks": "far"}}), "invalid_position"),
        (nested("Stop", Item=None), "missing_media"),
        (nested("MarkPlayed", Item={"Id": "x", "Type": "Series"}), "container"),
    ],
)
def test_the_other_plugin_s_rest_does_nothing(payload: dict[str, Any], expected: str) -> None:
    assert reason(payload) == expected


def test_details_never_quote_what_was_sent() -> None:
    for name in ("UserId", "ItemId", "PlaybackPositionTicks", "NotificationType", "DeviceId"):
        for value in (SECRETS[1] + "\x00", SECRETS[1] * 40, {"token": SECRETS[1]}, [SECRETS[1]]):
            result = one(json.dumps(jellyfin("PlaybackProgress", **{name: value})).encode())
            assert isinstance(result, Rejected | Ignored)
