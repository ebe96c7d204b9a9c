"""`playhead decide` as a command: lines in, decisions and finals out, nothing ever a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from streams.cli.decide import decide, decide_lines

RUN = CliRunner()
NOON = 1_772_366_400_000


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(decide)
    return app


def line(**fields: object) -> bytes:
    report = {"user": "ana", "media": "m", "kind": "progress", "position_ms": 600_000, "received_at": NOON}
    return json.dumps({**report, **fields}).encode()


def decided(*lines: bytes) -> list[dict[str, Any]]:
    return [json.loads(json.dumps(one)) for one in decide_lines(lines)]


def test_decisions_are_printed_then_finals_by_first_appearance() -> None:
    printed = decided(line(event_id="1"), line(user="ben"), line(position_ms=700_000, received_at=NOON + 60_000))
    assert [one["type"] for one in printed] == ["decision"] * 3 + ["final"] * 2
    assert " ".join(printed[0]) == "type index event_id verdict reason notes state"
    assert [one["index"] for one in printed[:3]] == [0, 1, 2]
    assert printed[0]["event_id"] == "1"
    assert printed[0]["reason"] is None
    assert [one["state"]["user"] for one in printed[3:]] == ["ana", "ben"]
    assert printed[3] == {"type": "final", "state": printed[2]["state"]}


def test_rejected_decision_has_no_state_and_keeps_that_of_its_key() -> None:
    printed = decided(line(), line(position_ms=-1, event_id="bad"))
    assert printed[1] == {
        "type": "decision",
        "index": 1,
        "event_id": "bad",
        "verdict": "rejected",
        "reason": "invalid_position",
        "notes": [],
        "state": None,
    }
    assert printed[2]["state"]["position_ms"] == 600_000


def test_key_of_which_nothing_was_valid_has_no_final() -> None:
    assert [one["type"] for one in decided(line(position_ms=-1))] == ["decision"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"not json", "bad_json"),
        (b'{"a":', "bad_json"),
        (b"\xff\xfe", "bad_json"),
        (b'{"position_ms": NaN}', "bad_json"),
        (b'{"position_ms": ' + b"9" * 5000 + b"}", "bad_json"),
        (b"[" * 33 + b"]" * 33, "too_deep"),
        (b"[" * 100_000, "too_deep"),
        (b"[" * 32 + b"]" * 32, "not_an_object"),
        (b"42", "not_an_object"),
        (b"null", "not_an_object"),
        (b"{}", "unknown_kind"),
        (b'{"reports": 5}', "unknown_kind"),
    ],
)
def test_line_that_is_no_report_is_a_rejected_decision(text: bytes, reason: str) -> None:
    printed = decided(line(), text, line(position_ms=700_000, received_at=NOON + 1))
    assert (printed[1]["verdict"], printed[1]["reason"], printed[1]["index"]) == ("rejected", reason, 1)
    assert printed[2]["verdict"] == "accepted"


def test_wrapped_reports_count_each_and_blank_lines_not_at_all() -> None:
    wrapped = json.dumps({"reports": [json.loads(line()), 17, None, json.loads(line(user="ben"))]}).encode()
    printed = decided(b"\n", b"  \r\n", wrapped + b"\r\n", b'{"reports": []}', b"\xef\xbb\xbf" + line(user="cyd"))
    assert [one["verdict"] for one in printed[:5]] == ["accepted", "rejected", "rejected", "accepted", "accepted"]
    assert [one["index"] for one in printed[:5]] == [0, 1, 2, 3, 4]


def test_received_at_absent_is_the_later_of_occurred_at_and_the_line_before() -> None:
    printed = decided(
        line(received_at=None),
        line(received_at=None, occurred_at=NOON),
        line(received_at=None, position_ms=700_000, session_id="s"),
        line(received_at=None, occurred_at="2026-03-01T12:00:10Z", position_ms=710_000),
        line(received_at=NOON + 50_000, position_ms=-1),
        line(received_at=None, position_ms=720_000),
    )
    assert printed[0]["reason"] == "no_time"
    times = [one["state"]["event_time"] - NOON for one in printed[1:-1] if one["state"]]
    assert times == [0, 0, 10_000, 50_000]


def test_media_of_the_key_is_upstream_media_when_only_that_is_given() -> None:
    assert decided(line(media=None, upstream_media="4711"))[-1]["state"]["media"] == "4711"


def test_event_id_printed_is_the_derived_one_or_null() -> None:
    printed = decided(line(), line(occurred_at=NOON), line(occurred_at=NOON, received_at=NOON + 5))
    assert printed[0]["event_id"] is None
    assert printed[1]["event_id"] == printed[2]["event_id"] != None  # noqa: E711
    assert printed[2]["verdict"] == "duplicate"


def test_file_and_standard_input_are_read_alike(app: typer.Typer, tmp_path: Path) -> None:
    file = tmp_path / "two reports.jsonl"
    file.write_bytes(line(user="ané") + b"\noops\n")
    from_file, from_input = RUN.invoke(app, [str(file)]), RUN.invoke(app, ["-"], input=file.read_bytes())
    assert from_file.exit_code == from_input.exit_code == 0
    assert from_file.stdout == from_input.stdout
    assert [json.loads(one)["type"] for one in from_file.stdout.splitlines()] == ["decision", "decision", "final"]


def test_policy_is_chosen_by_name(app: typer.Typer) -> None:
    reports = line(occurred_at=NOON) + b"\n" + line(occurred_at=NOON - 60_000, session_id="s", position_ms=3_000_000)
    for policy, position in (("playthrough", 600_000), ("furthest", 3_000_000)):
        result = RUN.invoke(app, ["-", "--policy", policy], input=reports)
        assert json.loads(result.stdout.splitlines()[-1])["state"]["position_ms"] == position
    assert RUN.invoke(app, ["-", "--policy", "newest"], input=b"").exit_code == 2


def test_file_that_cannot_be_read_is_an_error_without_traceback(app: typer.Typer, tmp_path: Path) -> None:
    result = RUN.invoke(app, [str(tmp_path / "absent")])
    assert result.exit_code == 2
    assert "absent" in result.output
    assert "Traceback" not in result.output


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=60) | st.just(line()), max_size=5))
def test_any_bytes_are_answered_line_by_line(lines: list[bytes]) -> None:
    printed = decided(*lines)
    decisions = [one for one in printed if one["type"] == "decision"]
    assert [one["index"] for one in decisions] == list(range(len(decisions)))
    assert all(one["verdict"] == "rejected" or one["state"] for one in decisions)
