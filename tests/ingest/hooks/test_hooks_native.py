"""The native format: rule 0 field by field, and its three wrappings."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from streams.domain import words
from streams.ingest.hooks import ParsedReport, Rejected, Result, parse
from streams.ingest.hooks.result import Kind, MediaKind, Origin
from tests.ingest.hooks.payloads import JsonObject, encoded, without

DAY_MS = 24 * 3600 * 1000


def native(**fields: Any) -> JsonObject:
    report: JsonObject = {
        "event_id": "e-1",
        "source": "attic",
        "user": "mira",
        "media": "m-1",
        "session_id": "s-1",
        "device_id": "d-1",
        "sequence": 3,
        "kind": "progress",
        "position_ms": 60_000,
        "duration_ms": 5_400_000,
        "occurred_at": 1_777_890_600_000,
    }
    return report | fields


def one(report: object) -> Result:
    (result,) = parse("native", encoded(report))
    return result


def read(report: object) -> ParsedReport:
    result = one(report)
    assert isinstance(result, ParsedReport), result
    return result


def reason(report: object) -> str:
    result = one(report)
    assert isinstance(result, Rejected), result
    return result.reason


def test_full_report_is_read_field_by_field() -> None:
    extra = {"upstream_user": "u9", "upstream_media": "i9", "media_kind": "podcast", "received_at": 1_777_890_600_500}
    flags = {"automated": False, "failed": True, "played": False, "listened_ms": 5, "origin": "poll"}
    assert read(native(**extra, **flags)) == ParsedReport(**native(**extra, **flags))


def test_absent_fields_are_none_and_the_origin_is_client() -> None:
    bare = {"user": "mira", "media": "m-1", "kind": "stop"}
    assert read(bare) == ParsedReport(user="mira", media="m-1", kind="stop", origin="client")


def test_nulls_are_absent_and_unknown_fields_are_tolerated() -> None:
    assert read(native(played=None, favourite_colour="teal", logged_at=5)).played is None


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_kind_is_known(kind: str) -> None:
    assert read(native(kind=kind)).kind == kind


@pytest.mark.parametrize("kind", ["progress", "seek", "set_position"])
def test_kinds_that_need_a_position_are_rejected_without_one(kind: str) -> None:
    assert reason(without(native(kind=kind), "position_ms")) == "missing_position"


@pytest.mark.parametrize("kind", ["start", "pause", "resume", "stop", "finish", "mark_played", "clear_position"])
def test_other_kinds_need_no_position(kind: str) -> None:
    assert read(without(native(kind=kind), "position_ms")).position_ms is None


@pytest.mark.parametrize("kind", get_args(MediaKind))
def test_every_media_kind_is_known(kind: str) -> None:
    assert read(native(media_kind=kind)).media_kind == kind


@pytest.mark.parametrize("origin", get_args(Origin))
def test_every_origin_is_known(origin: str) -> None:
    assert read(native(origin=origin)).origin == origin


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": "completed"}, "unknown_kind"),
        ({"kind": None}, "unknown_kind"),
        ({"kind": ["start"]}, "unknown_kind"),
        ({"user": None}, "missing_user"),
        ({"user": " "}, "missing_user"),
        ({"user": 7}, "invalid_field"),
        ({"media": None}, "missing_media"),
        ({"position_ms": -1}, "invalid_position"),
        ({"position_ms": 1.5}, "invalid_position"),
        ({"position_ms": "60000"}, "invalid_position"),
        ({"position_ms": True}, "invalid_position"),
        ({"position_ms": 30 * DAY_MS + 1}, "position_too_large"),
        ({"position_ms": 1e300}, "position_too_large"),
        ({"duration_ms": "long"}, "invalid_field"),
        ({"sequence": 1.5}, "invalid_field"),
        ({"sequence": 2**63}, "invalid_field"),
        ({"listened_ms": "much"}, "invalid_field"),
        ({"occurred_at": "yesterday"}, "invalid_field"),
        ({"occurred_at": "2026-05-04T10:30:00"}, "invalid_field"),
        ({"occurred_at": [1]}, "invalid_field"),
        ({"played": "yes"}, "invalid_field"),
        ({"automated": 1}, "invalid_field"),
        ({"media_kind": "opera"}, "invalid_field"),
        ({"origin": "thin_air"}, "invalid_field"),
        ({"upstream_user": 7}, "invalid_field"),
        ({"upstream_user": "u" * 257}, "id_too_long"),
        ({"upstream_media": "i\x00"}, "invalid_text"),
        ({"event_id": "é" * 129}, "id_too_long"),
        ({"device_id": "d" * 257}, "id_too_long"),
        ({"session_id": "s\x00"}, "invalid_text"),
        ({"user": "\udfff"}, "invalid_text"),
    ],
)
def test_what_rule_0_forbids_is_rejected(fields: JsonObject, expected: str) -> None:
    assert reason(native(**fields)) == expected


def test_limits_themselves_are_allowed() -> None:
    assert read(native(position_ms=30 * DAY_MS, device_id="d" * 256)).position_ms == 30 * DAY_MS


def test_integral_float_is_an_integer() -> None:
    position = read(native(position_ms=60_000.0)).position_ms
    assert (position, type(position)) == (60_000, int)


@pytest.mark.parametrize("duration", [0, -5])
def test_duration_of_zero_and_below_is_unknown(duration: int) -> None:
    assert read(native(duration_ms=duration)).duration_ms is None


def test_upstream_media_alone_is_enough() -> None:
    assert read(without(native(upstream_media="i-9"), "media")).upstream_media == "i-9"


@pytest.mark.parametrize(
    ("occurred_at", "expected"),
    [
        ("2026-05-04T10:30:00Z", 1_777_890_600_000),
        ("2026-05-04T12:30:00.25+02:00", 1_777_890_600_250),
        (1_777_890_600_000, 1_777_890_600_000),
        (1_777_890_600, 1_777_890_600_000),
        (946_684_800, 946_684_800_000),
        (946_684_799, 946_684_799),
        (5, 5),
    ],
)
def test_times_become_epoch_ms(occurred_at: object, expected: int) -> None:
    assert read(native(occurred_at=occurred_at)).occurred_at == expected


def test_vocabulary_is_the_domain_s() -> None:
    assert set(get_args(Kind)) == set(words.KINDS)
    assert set(get_args(MediaKind)) == set(words.MEDIA_KINDS)
    assert set(get_args(Origin)) == set(words.ORIGINS)


@pytest.mark.parametrize(
    ("received_at", "expected"),
    [
        (1_777_890_600_500, 1_777_890_600_500),
        (1_777_890_600, 1_777_890_600_000),
        ("2026-05-04T10:30:00.5Z", 1_777_890_600_500),
    ],
)
def test_received_at_is_kept_when_given(received_at: object, expected: int) -> None:
    assert read(native(received_at=received_at)).received_at == expected


def test_nan_is_refused() -> None:
    (result,) = parse("native", json.dumps(native(position_ms=float("nan"))).encode())
    assert isinstance(result, Rejected)
    assert result.reason == "bad_json"


def test_wrapped_reports_are_rejected_one_by_one() -> None:
    results = parse("native", encoded({"reports": [native(), native(user=None), 17, None, native()]}))
    assert [type(result) for result in results] == [ParsedReport, Rejected, Rejected, Rejected, ParsedReport]


def test_no_reports_are_no_results() -> None:
    assert parse("native", b'{"reports": []}') == []


def test_over_1000_reports_are_one_rejection() -> None:
    (result,) = parse("native", encoded({"reports": [{}] * 1001}))
    assert isinstance(result, Rejected)
    assert result.reason == "too_many"
    assert len(parse("native", encoded({"reports": [{}] * 1000}))) == 1000


def test_json_lines_skip_blank_lines_and_reject_bad_ones_alone() -> None:
    lines = [encoded(native()), b"", b"  \r", b"not json", encoded({"reports": [native(), native()]}), b"[1]"]
    results = parse("native", b"\r\n".join(lines))
    assert [type(result) for result in results] == [ParsedReport, Rejected, ParsedReport, ParsedReport, Rejected]


def test_json_lines_may_exceed_1_mib_in_all_but_not_in_one_line() -> None:
    long_line = b'{"x": "' + b"y" * 1024 * 1024 + b'"}'
    body = b"\n".join([encoded(native())] * 6_000 + [long_line])
    results = parse("native", body)
    assert len(body) > 2 * 1024 * 1024
    assert len(results) == 6_001
    assert isinstance(results[-1], Rejected)
    assert results[-1].reason == "too_large"


def test_one_report_over_many_lines_is_one_report() -> None:
    (result,) = parse("native", json.dumps(native(), indent=2).encode())
    assert isinstance(result, ParsedReport)


def test_one_broken_document_over_many_lines_is_one_rejection() -> None:
    (result,) = parse("native", json.dumps(native(), indent=2).encode()[:-5])
    assert isinstance(result, Rejected)


@pytest.mark.parametrize("body", [b"", b"\n\n", b"null", b"[]", b"5", b"{", b"\xff"])
def test_unusable_body_is_one_rejection(body: bytes) -> None:
    (result,) = parse("native", body)
    assert isinstance(result, Rejected)


def test_unknown_format_is_a_rejection_not_an_error() -> None:
    assert parse("gramophone", b"{}")[0] == Rejected(
        "unknown_format", "the formats are jellyfin, plex, emby, audiobookshelf, listenbrainz, subsonic, native"
    )
