"""`playhead parse` as a command: files, standard input, exit codes, encodings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from streams.cli.parse import app as whole
from streams.cli.parse import parse
from streams.ingest.hooks import FORMATS
from tests.ingest.hooks import golden

RUN = CliRunner()


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(parse)
    return app


def report(**fields: object) -> bytes:
    return json.dumps({"user": "mira", "media": "m", "kind": "stop", **fields}).encode()


def test_file_is_printed_as_json_lines_with_all_fields(app: typer.Typer, tmp_path: Path) -> None:
    file = tmp_path / "two reports.jsonl"
    file.write_bytes(report() + b"\n" + b"oops\n")
    result = RUN.invoke(app, ["native", str(file)])
    assert result.exit_code == 0
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert " ".join(first) == (
        "type event_id source user media upstream_user upstream_media media_kind session_id device_id sequence "
        "kind position_ms duration_ms occurred_at received_at automated failed played listened_ms origin"
    )
    assert set(second) == {"type", "reason", "detail"}


def test_standard_input_is_read_for_a_dash(app: typer.Typer) -> None:
    result = RUN.invoke(app, ["native", "-"], input=report(device_id="Küche 📺"))
    assert json.loads(result.stdout)["device_id"] == "Küche 📺"


def test_missing_file_and_unknown_format_exit_with_2_and_no_traceback(app: typer.Typer, tmp_path: Path) -> None:
    for arguments in (["native", str(tmp_path / "none")], ["native", str(tmp_path)], ["gramophone", "-"]):
        result = RUN.invoke(app, arguments, input=b"")
        assert result.exit_code == 2
        assert result.stdout == ""
        assert "Traceback" not in result.stderr


@pytest.mark.parametrize("body", [b"", b"\xff\x00", b"{" * 5_000])
def test_unreadable_content_is_an_output_not_an_error(app: typer.Typer, body: bytes) -> None:
    result = RUN.invoke(app, ["jellyfin", "-"], input=body)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["type"] == "rejected"


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085"])
def test_given_a_unicode_line_separator_in_an_id_each_object_is_still_one_line(separator: str) -> None:
    report = {"user": f"u{separator}x", "media": "m", "kind": "stop", "received_at": 1_772_395_200_000, "event_id": "z"}
    body = json.dumps(report).encode()
    for command in (["parse", "native", "-"], ["decide", "-"]):
        done = subprocess.run(
            [sys.executable, "-m", "streams.cli", *command], input=body, capture_output=True, check=True, timeout=120
        )
        for line in done.stdout.decode().splitlines():
            json.loads(line)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_reads_standard_input_and_takes_json_as_it_is(app: typer.Typer, format: str) -> None:
    for body in golden.bodies(format)[:5]:
        plain, asked = (RUN.invoke(app, [format, "-", *more], input=body) for more in ([], ["--json"]))
        assert (plain.exit_code, plain.stdout) == (0, asked.stdout)
        assert all(json.loads(line)["type"] for line in plain.stdout.splitlines())


def test_unknown_fields_are_named_on_standard_error_when_asked_for(app: typer.Typer) -> None:
    body = report(moon_phase=3, tide=1)
    assert RUN.invoke(app, ["native", "-"], input=body).stderr == ""
    result = RUN.invoke(app, ["native", "-", "--unknown"], input=body)
    assert result.stderr == "2 unknown fields: moon_phase, tide\n"
    assert json.loads(result.stdout)["kind"] == "stop"


def test_help_has_examples_and_errors_say_what_to_do(tmp_path: Path) -> None:
    shown = RUN.invoke(whole, ["--help"])
    assert "playhead parse plex - < hook.body" in " ".join(shown.stdout.split())
    missing = RUN.invoke(whole, ["plex", str(tmp_path / "none")])
    assert "or - for standard input" in missing.stderr
    assert "the formats are jellyfin" in RUN.invoke(whole, ["gramophone", "-"]).stderr
