"""The worked examples of `playhead decide`, through the command's own core."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streams.cli.decide import decide_lines
from streams.domain.policy import PLAYTHROUGH, POLICIES
from tests.matchers import fields_mismatch

EXAMPLES = sorted((Path(__file__).parents[1] / "examples" / "decide").glob("*.json"))


def lines(reports: list[dict[str, Any]]) -> list[bytes]:
    return [(one["__raw__"] if "__raw__" in one else json.dumps(one)).encode() for one in reports]


def test_examples_are_there() -> None:
    assert len(EXAMPLES) >= 42


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_decided_as_expected(path: Path) -> None:
    example = json.loads(path.read_text(encoding="utf-8"))
    expect = example["expect"]
    args = example.get("args", [])
    policy = POLICIES[args[args.index("--policy") + 1]] if args else PLAYTHROUGH
    printed = [json.loads(json.dumps(line)) for line in decide_lines(lines(example["reports"]), policy)]
    decisions = [line for line in printed if line["type"] == "decision"]
    assert [line["index"] for line in decisions] == list(range(len(expect["verdicts"])))

    first: dict[str, dict[str, Any]] = {}
    last: dict[str, dict[str, Any]] = {}
    for line, allowed in zip(decisions, expect["verdicts"], strict=True):
        if allowed is not None:
            assert line["verdict"] in ([allowed] if isinstance(allowed, str) else allowed), line
        if line["state"] is not None:
            key = f"{line['state']['user']}|{line['state']['media']}"
            first.setdefault(key, line["state"])
            last[key] = line["state"]
    for index, reason in expect.get("reasons", {}).items():
        assert decisions[int(index)]["reason"] == reason
    for index, notes in expect.get("notes", {}).items():
        assert set(notes) <= set(decisions[int(index)]["notes"])
    for index, fields in expect.get("after", {}).items():
        state = decisions[int(index)]["state"]
        assert fields_mismatch(fields, state, first[f"{state['user']}|{state['media']}"]) is None
    for key, fields in expect["final"].items():
        assert fields_mismatch(fields, last[key], first[key]) is None
    finals = {f"{line['state']['user']}|{line['state']['media']}": line["state"] for line in printed[len(decisions) :]}
    assert finals == last
