"""From JSON values to reports: types, absent values, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.domain.reading import read_report, received_at_of
from streams.domain.report import Rejected, Report, problem

FULL = {
    "event_id": "tv-17:s3:42", "source": "home", "user": "ana", "media": "m-81", "upstream_media": None,
    "media_kind": "video", "session_id": "s3", "device_id": "tv-17", "sequence": 42, "kind": "progress",
    "position_ms": 1830000, "duration_ms": 6600000, "occurred_at": "2026-11-29T20:15:00Z",
    "received_at": 1796069700120, "automated": False, "failed": False, "played": None, "listened_ms": 1790000,
    "origin": "client", "logged_at": 1796069700130,
}  # fmt: skip


def read(**changes: object) -> Report | Rejected:
    return read_report({**FULL, **changes})


def reason(result: Report | Rejected) -> str:
    assert isinstance(result, Rejected)
    return result.reason.value


def test_full_report_is_read_field_by_field() -> None:
    assert read() == Report(
        kind="progress",
        user="ana",
        media="m-81",
        received_at=1_796_069_700_120,
        source="home",
        event_id="tv-17:s3:42",
        media_kind="video",
        session_id="s3",
        device_id="tv-17",
        sequence=42,
        position_ms=1_830_000,
        duration_ms=6_600_000,
        occurred_at=1_795_983_300_000,
        listened_ms=1_790_000,
        logged_at=1_796_069_700_130,
    )


def test_the_rest_may_be_absent_or_null() -> None:
    least = {"user": "ana", "media": "m", "kind": "stop", "received_at": 5}
    assert read_report(least) == Report(kind="stop", user="ana", media="m", received_at=5)
    assert read_report({**dict.fromkeys(FULL), **least}) == read_report(least)
    assert read_report({**least, "session_id": "", "event_id": "", "unknown": {}}) == read_report(least)


def test_upstream_media_stands_in_for_media() -> None:
    result = read(media=None, upstream_media="4711")
    assert isinstance(result, Report)
    assert result.media == "4711"


def test_integral_float_is_an_integer() -> None:
    result = read(position_ms=600000.0, duration_ms=6.6e6, sequence=42.0)
    assert isinstance(result, Report)
    assert (result.position_ms, result.duration_ms, result.sequence) == (600_000, 6_600_000, 42)
    assert all(type(number) is int for number in (result.position_ms, result.duration_ms, result.sequence))


def test_fraction_of_a_duration_or_listening_time_is_cut() -> None:
    result = read(duration_ms=6600000.9, listened_ms=10.5)
    assert isinstance(result, Report)
    assert (result.duration_ms, result.listened_ms) == (6_600_000, 10)


@pytest.mark.parametrize("duration", [0, -1, -1e30, 1e30, 2**63])
def test_impossible_duration_is_unknown(duration: float) -> None:
    result = read(duration_ms=duration)
    assert isinstance(result, Report)
    assert result.duration_ms is None


BAD: list[tuple[dict[str, Any], str]] = [
    ({"kind": None}, "unknown_kind"),
    ({"kind": 7}, "unknown_kind"),
    ({"kind": "PROGRESS!"}, "unknown_kind"),
    ({"user": None}, "missing_user"),
    ({"user": 5}, "invalid_field"),
    ({"media": None}, "missing_media"),
    ({"media": ["m"]}, "invalid_field"),
    ({"position_ms": None}, "missing_position"),
    ({"position_ms": -1}, "invalid_position"),
    ({"position_ms": 1.5}, "invalid_position"),
    ({"position_ms": True}, "invalid_position"),
    ({"position_ms": "600000"}, "invalid_position"),
    ({"position_ms": float("nan")}, "invalid_position"),
    ({"position_ms": float("inf")}, "invalid_position"),
    ({"position_ms": 10**400}, "position_too_large"),
    ({"duration_ms": "long"}, "invalid_field"),
    ({"duration_ms": True}, "invalid_field"),
    ({"sequence": 1.5}, "invalid_field"),
    ({"sequence": True}, "invalid_field"),
    ({"sequence": 10**30}, "invalid_field"),
    ({"automated": "true"}, "invalid_field"),
    ({"failed": 1}, "invalid_field"),
    ({"played": "yes"}, "invalid_field"),
    ({"occurred_at": "yesterday"}, "invalid_field"),
    ({"received_at": True}, "invalid_field"),
    ({"media_kind": "film"}, "invalid_field"),
    ({"origin": "dream"}, "invalid_field"),
    ({"session_id": 5}, "invalid_field"),
    ({"session_id": "a\0b"}, "invalid_text"),
    ({"device_id": "\udfff"}, "invalid_text"),
    ({"user": "u" * 257}, "id_too_long"),
]


@pytest.mark.parametrize(("changes", "expected"), BAD, ids=lambda value: str(value)[:40])
def test_what_is_no_report_is_refused_with_its_event_id(changes: dict[str, Any], expected: str) -> None:
    result = read(**changes)
    assert reason(result) == expected
    assert isinstance(result, Rejected)
    assert result.event_id == "tv-17:s3:42"


@pytest.mark.parametrize("event_id", [5, "\ud800", "e" * 257])
def test_event_id_that_is_wrong_itself_is_not_given_back(event_id: object) -> None:
    result = read(event_id=event_id)
    assert isinstance(result, Rejected)
    assert result.event_id is None


@pytest.mark.parametrize("value", [None, 42, "text", [1, 2], True, 1.5])
def test_what_is_no_object_is_no_report(value: object) -> None:
    assert reason(read_report(value)) == "not_an_object"


def test_received_at_is_the_later_of_occurred_at_and_the_line_before() -> None:
    timeless = {"user": "ana", "media": "m", "kind": "stop"}
    assert reason(read_report(timeless)) == "no_time"
    for occurred_at, before, expected in ((None, 7, 7), (9, None, 9), (9, 7, 9), (7, 9, 9)):
        result = read_report({**timeless, "occurred_at": occurred_at}, previous_received_at=before)
        assert isinstance(result, Report)
        assert result.received_at == expected


def test_received_at_is_told_of_what_is_rejected_too() -> None:
    assert received_at_of({"kind": "?", "received_at": "1970-01-01T00:00:01Z"}) == 1000
    assert received_at_of({"received_at": 1_772_366_400}) == 1_772_366_400_000
    assert received_at_of({"received_at": []}) is None
    assert received_at_of(5) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(FULL)), json_values, max_size=6))
def test_any_value_in_any_field_gives_a_report_without_problem_or_a_refusal(changes: dict[str, Any]) -> None:
    result = read(**changes)
    if isinstance(result, Report):
        assert problem(result) is None
        json.dumps(result.user).encode()
