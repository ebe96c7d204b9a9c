"""Each golden payload is printed to the byte as expected, and none of what is secret in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams.ingest.hooks import FORMATS
from tests.ingest.hooks import golden
from tests.ingest.hooks.golden import __main__ as command
from tests.ingest.hooks.payloads import SECRETS

CASES = [(format, path) for format in FORMATS for path in golden.payloads(format)]
# The titles of people and machines that stand in the payloads; a user's id is none of them, where the format has ids.
NAMES = ("Attic TV", "mira did", "media.example")


@pytest.mark.parametrize(("format", "path"), CASES, ids=[f"{format}/{path.stem}" for format, path in CASES])
def test_payload_is_printed_as_expected(format: str, path: Path) -> None:
    assert golden.printed(format, path) == golden.expected(format)[path.name]


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_is_expected_of_payloads_that_are_not_there(format: str) -> None:
    assert list(golden.expected(format)) == [path.name for path in golden.payloads(format)]


@pytest.mark.parametrize("format", FORMATS)
def test_no_secret_or_name_of_a_payload_is_printed(format: str) -> None:
    output = "".join(golden.now(format).values())
    assert [text for text in (*SECRETS, *NAMES) if text in output] == []


def test_each_kind_of_result_and_of_report_is_among_the_expected() -> None:
    lines = [
        json.loads(line)
        for format in FORMATS
        for section in golden.expected(format).values()
        for line in section.splitlines()[1:]
        if line
    ]
    assert {line["type"] for line in lines} == {"report", "observation", "ignored", "rejected"}
    assert len({line["kind"] for line in lines if line["type"] == "report"}) == 11


def test_a_change_is_shown_and_written_only_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for format in FORMATS:
        (tmp_path / format).mkdir()
        (tmp_path / f"{format}.expected").touch()
    (tmp_path / "native" / "one.json").write_text('{"user": "u", "media": "m", "kind": "dance"}')
    monkeypatch.setattr(golden, "GOLDEN", tmp_path)
    assert command.main([]) == 1
    assert '+{"type": "rejected", "reason": "unknown_kind"' in capsys.readouterr().out
    assert (tmp_path / "native.expected").read_text() == ""
    assert command.main(["--write"]) == 0
    assert command.main([]) == 0
