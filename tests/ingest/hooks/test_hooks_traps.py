"""The table of traps in README.md names tests and payloads that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streams.ingest.hooks import FORMATS
from tests.ingest.hooks import golden

HERE = Path(__file__).parent
TABLES = [table for table in re.split(r"\n\n", (HERE / "README.md").read_text()) if table.startswith("|")]
SECTIONS = {table.splitlines()[0].split("|")[1].strip(): table for table in TABLES}
NAMED = {
    "Jellyfin's webhook plugin": "jellyfin",
    "Plex": "plex",
    "Emby": "emby",
    "Subsonic, OpenSubsonic": "subsonic",
    "ListenBrainz": "listenbrainz",
    "Audiobookshelf": "audiobookshelf",
}


def names_of_tests() -> set[str]:
    sources = [path.read_text() for path in [*HERE.glob("test_*.py"), *HERE.parent.glob("test_*.py")]]
    return {name for source in sources for name in re.findall(r"^def (test_\w+)\(", source, re.MULTILINE)}


def payloads(format: str) -> set[str]:
    return {path.stem for path in golden.payloads(format)}


def test_every_format_of_servers_has_its_table() -> None:
    assert set(SECTIONS) == {*NAMED, "all"}
    assert {*NAMED.values(), "native"} == set(FORMATS)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_trap_names_tests_or_payloads_that_exist(section: str) -> None:
    there = names_of_tests() | (payloads(NAMED[section]) if section in NAMED else payloads("native"))
    for row in SECTIONS[section].splitlines()[2:]:
        trap, answer = row.strip("|").rsplit("|", 1)
        named = re.findall(r"`([^`]+)`", answer)
        assert named, f"no test for: {trap}"
        assert [name for name in named if name not in there] == []
