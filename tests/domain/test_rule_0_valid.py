"""Rule 0: what is no report is rejected and leaves the state untouched; what overruns is clamped or ignored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streams.domain.limits import DAY_MS
from streams.domain.playback import decide
from streams.domain.words import Verdict
from tests.domain.given import given, progress, report, seek, stop

GOOD = progress(600)

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown kind": ({"kind": "completed"}, "unknown_kind"),
    "empty kind": ({"kind": ""}, "unknown_kind"),
    "missing user": ({"user": ""}, "missing_user"),
    "missing media": ({"media": " "}, "missing_media"),
    "negative position": ({"position_ms": -1}, "invalid_position"),
    "over 30 days": ({"position_ms": 30 * DAY_MS + 1, "duration_ms": None}, "position_too_large"),
    "id over 256 bytes": ({"session_id": "s" * 257}, "id_too_long"),
    "id over 256 bytes of UTF-8": ({"media": "é" * 129}, "id_too_long"),
    "NUL": ({"device_id": "tv\0"}, "invalid_text"),
    "lone surrogate": ({"event_id": "\ud800"}, "invalid_text"),
    "sequence beyond 64 bits": ({"sequence": 2**63}, "invalid_field"),
    "unknown origin": ({"origin": "dream"}, "invalid_field"),
    "unknown media kind": ({"media_kind": "film"}, "invalid_field"),
}


@pytest.mark.parametrize(("fields", "reason"), BAD.values(), ids=BAD)
def test_invalid_report_is_rejected_and_the_state_untouched(fields: dict[str, Any], reason: str) -> None:
    before = given(GOOD).state
    decision = decide(before, replace(progress(700, at=60), **fields))
    assert (decision.verdict, decision.reason) == (Verdict.REJECTED, reason)
    assert decision.state is before


@pytest.mark.parametrize("kind", ["progress", "seek", "set_position"])
def test_kind_that_needs_a_position_is_rejected_without_one(kind: str) -> None:
    decision = decide(None, report(kind))
    assert (decision.verdict, decision.reason, decision.state) == (Verdict.REJECTED, "missing_position", None)


@pytest.mark.parametrize("fields", [{"position_ms": 30 * DAY_MS, "duration_ms": None}, {"media": "m" * 256}])
def test_values_at_the_limit_are_taken(fields: dict[str, Any]) -> None:
    assert decide(None, replace(GOOD, **fields)).verdict is Verdict.ACCEPTED


@pytest.mark.parametrize("duration", [0, -1])
def test_duration_of_zero_or_less_is_unknown(duration: float) -> None:
    given(progress(6600, duration=duration)).then("accepted", duration_ms=None, played=False)
    given(progress(600)).when(progress(700, at=60, duration=duration)).then("accepted", duration_ms=7_200_000)


@pytest.mark.parametrize(
    ("duration", "position", "clamped"),
    [(3600, 3660, True), (3600, 3660.001, False), (7200, 7272, True), (7200, 7272.001, False)],
)
def test_overrun_is_clamped_up_to_the_larger_of_one_percent_and_a_minute(
    duration: float, position: float, clamped: bool
) -> None:
    story = given(progress(100, duration=duration)).when(progress(position, at=60, duration=duration))
    if clamped:
        story.then("accepted", note="clamped", position_ms=round(duration * 1000))
    else:
        story.then("ignored", "beyond_duration", position_ms=100_000, played=False)


def test_duration_of_the_state_counts_when_the_report_has_none() -> None:
    given(progress(600)).when(seek(100_000, at=60, duration=None)).then("ignored", "beyond_duration")


def test_report_beyond_the_duration_is_remembered_and_its_listening_counts() -> None:
    beyond = progress(100_000, at=60, seq=2, listened_ms=5000)
    story = given(progress(600, seq=1)).when(beyond).then("ignored", "beyond_duration", listened_ms=5000)
    story.when(beyond).then("ignored", "beyond_duration", listened_ms=5000)
    story.when(progress(660, at=60, seq=2)).then("duplicate")


def test_echo_is_ignored_before_all_but_rule_0() -> None:
    story = given(stop(600)).when(stop(900, at=60, origin="echo")).then("ignored", "echo", position_ms=600_000)
    story.when(stop(900, at=60, origin="echo")).then("ignored", "echo")
    story.when(stop(-1, at=60, origin="echo")).then("rejected")
