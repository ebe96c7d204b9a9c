"""One vocabulary of faults: what `playhead decide` calls a fault is what parsers and door call it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from streams.domain.reading import read_report
from streams.domain.report import Rejected as RulesRejected
from streams.domain.words import Reason
from streams.ingest import hooks
from streams.ingest.hooks import Rejected, parse

PACKAGE = Path(hooks.__file__).parent
SAID = re.compile(r'(?:Refuse|Rejected|Ignored)\(\s*"([a-z_]+)"')
PASSED_ON = re.compile(r'"((?:bad|invalid)_[a-z]+)"')
GOOD = {"user": "ana", "media": "m", "kind": "progress", "position_ms": 1, "received_at": 1_796_069_700_000}
# Words for a fault of rule 0 that were once used beside the rules' own.
SYNONYMS = {"no_user", "no_media", "bad_position", "too_long", "bad_text"}


def said() -> set[str]:
    sources = [path.read_text() for path in PACKAGE.glob("*.py")]
    return {word for source in sources for word in SAID.findall(source) + PASSED_ON.findall(source)}


def test_each_reason_a_parser_gives_is_explained_in_the_readme() -> None:
    explained = set(re.findall(r"`([a-z_]+)`", (PACKAGE / "README.md").read_text()))
    # A duration that can't be read is merely unknown: its word never leaves the package.
    assert said() - {"bad_duration"} - explained == set()


def test_no_fault_of_rule_0_has_a_second_name() -> None:
    assert said() & SYNONYMS == set()
    assert {Reason.MISSING_USER, Reason.MISSING_MEDIA, Reason.INVALID_POSITION, Reason.INVALID_TEXT} <= said()


@pytest.mark.parametrize(
    "damage",
    [
        {"kind": None},
        {"kind": "completed"},
        {"user": None},
        {"media": None},
        {"position_ms": None},
        {"position_ms": -1},
        {"position_ms": 2**50},
        {"position_ms": 1.5},
        {"user": "u" * 257},
        {"session_id": "s\x00"},
        {"device_id": "\ud800"},
        {"media_kind": "opera"},
        {"sequence": "first"},
    ],
)
def test_parse_and_decide_call_a_fault_the_same(damage: dict[str, object]) -> None:
    document = GOOD | damage
    (parsed,) = parse("native", json.dumps(document).encode())
    decided = read_report(document)
    assert isinstance(parsed, Rejected)
    assert isinstance(decided, RulesRejected)
    assert parsed.reason == decided.reason


@pytest.mark.parametrize("body", [b"{", b"[" * 40 + b"]" * 40, b"7"])
def test_a_line_that_is_no_report_has_one_name_too(body: bytes) -> None:
    from streams.cli.decide import decide_lines

    (parsed,) = parse("native", body)
    decision = next(iter(decide_lines([body])))
    assert isinstance(parsed, Rejected)
    assert parsed.reason == decision["reason"]
