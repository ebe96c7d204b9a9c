"""Failures real people met elsewhere: bad tags and payloads, and thresholds that fit one kind only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streams.cli.decide import decide_lines
from streams.domain.playback import decide
from streams.domain.words import Verdict
from tests.domain.given import command, finish, given, progress, stop

BOOK: dict[str, Any] = {"duration": 36_000, "media_kind": "audiobook"}


@pytest.mark.parametrize("field", ["user", "media", "source", "event_id", "session_id", "device_id"])
@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"], ids=["NUL", "surrogate"])
def test_listenbrainz_1567_nul_or_surrogate_stops_nobody(field: str, text: str) -> None:
    bad: dict[str, Any] = {field: text}
    story = given(progress(600)).when(replace(progress(700, at=10), **bad)).then("rejected", "invalid_text")
    story.when(progress(710, at=20)).then("accepted", position_ms=710_000)


def test_jellyfin_webhook_44_broken_json_is_one_rejected_line() -> None:
    good = b'{"user":"ana","media":"m","kind":"stop","position_ms":5,"received_at":1772366400000}'
    printed = list(decide_lines([good, b'{"Overview": "He said "no"', good.replace(b":5,", b":6,")]))
    assert [line.get("verdict") for line in printed] == ["accepted", "rejected", "accepted", None]


@pytest.mark.parametrize("field", ["user", "media"])
def test_jellyfin_webhook_346_null_user_or_item_is_rejected(field: str) -> None:
    line = b'{"user":"ana","media":"m","kind":"stop","received_at":1772366400000}'
    missing = line.replace(b'"ana"', b"null") if field == "user" else line.replace(b'"m"', b"null")
    (decision,) = decide_lines([missing])
    assert (decision["verdict"], decision["reason"]) == ("rejected", f"missing_{field}")


def test_jellyfin_12141_unknown_session_is_no_error() -> None:
    given(progress(600, run=None, device="")).when(stop(610, at=10, run="gone")).then("accepted")


def test_jellify_622_position_a_little_beyond_the_duration_is_its_end() -> None:
    given(progress(7195)).when(stop(7203, at=10)).then("ignored", note="clamped", position_ms=7_195_000, play_count=1)
    given(progress(35_000, **BOOK)).when(progress(36_003, at=1003, **BOOK)).then(
        "accepted", note="clamped", position_ms=36_000_000, phase="finished"
    )


def test_audiobookshelf_4691_chapter_beyond_the_end_is_not_followed() -> None:
    given(progress(600, **BOOK)).when(progress(40_000, at=10, **BOOK)).then("ignored", "beyond_duration")


@pytest.mark.parametrize("position", [32_400, 34_000, 35_989])
def test_jellyfin_5703_audiobook_does_not_end_hours_early(position: float) -> None:
    given(progress(position, **BOOK)).then("accepted", phase="playing", resume_position_ms=position * 1000)


def test_jellyfin_17545_audiobook_position_is_always_kept() -> None:
    given(progress(61, **BOOK)).then("accepted", resume_position_ms=61_000)
    given(progress(61, media_kind="audiobook", duration=None)).then("accepted", resume_position_ms=61_000)


def test_jellyfin_13686_state_of_another_person_is_never_touched() -> None:
    anas = given(progress(600)).state
    for one in (finish(7200, at=10), command("mark_unplayed", at=20)):
        decision = decide(None, replace(one, user="ben"))
        assert decision.verdict is Verdict.ACCEPTED
        assert decision.state is not None
        assert decision.state.user == "ben"
    assert anas is not None
    assert (anas.position_ms, anas.played) == (600_000, False)
