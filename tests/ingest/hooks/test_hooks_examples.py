"""Every worked example of `playhead parse`: the input's bytes in, the printed objects as expected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streams.cli.parse import parse_lines
from tests.ingest.hooks.matching import fits_object

EXAMPLES = Path(__file__).parents[2] / "examples" / "parse"
INPUTS = sorted(path for path in EXAMPLES.glob("*/*") if not path.name.endswith(".expect.json"))


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_example_is_printed_as_expected(path: Path) -> None:
    example: dict[str, Any] = json.loads(path.with_name(f"{path.stem}.expect.json").read_text())
    printed = [dict(line) for line in parse_lines(path.parent.name, path.read_bytes())]
    assert len(printed) == len(example["expect"]), printed
    for expected, line in zip(example["expect"], printed, strict=True):
        assert fits_object(expected, line), line
    output = json.dumps(printed, ensure_ascii=False)
    assert not [text for text in example.get("never", []) if text in output]


def test_every_format_has_examples() -> None:
    assert {path.parent.name for path in INPUTS} == {
        "jellyfin", "plex", "emby", "audiobookshelf", "listenbrainz", "subsonic", "native"
    }  # fmt: skip
