"""The demo, whole: services, roles, an evening, a library that is disturbed, two servers, and what is mended."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streams.runtime.settings import PREFIX
from tests.house.tree import ROOT

pytestmark = [pytest.mark.services, pytest.mark.long]
PATIENCE_S = 300


def test_the_demo_plays_an_evening_a_library_keeps_what_is_known_of_it_and_what_got_lost_is_mended(
    tmp_path: Path,
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    done = subprocess.run(
        [sys.executable, "-m", "streams.cli", "demo", "--pause", "0", "--data", str(tmp_path / "data")],
        cwd=ROOT,
        env={**environment, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    shown = done.stdout
    assert done.returncode == 0, shown + done.stderr
    assert "What everyone sees now" in shown
    assert "Found: 12 items (passed over: 1 appledouble, 1 not media, 1 temporary, 1 zero bytes)" in shown
    rows = {tuple(cells[:2]): cells[2:] for cells in map(_cells, shown.splitlines()) if len(cells) > 2}
    assert rows["The Long Tide", "moved to another folder, with another name"] == [
        "kept", "present", "Audiobooks/Long Tide, The.mp3", "12:30",
    ]  # fmt: skip
    assert rows["Slack Water", "its whole folder was renamed"] == [
        "kept", "present", "1998 Low Tide/01 Slack Water.mp3", "1:40",
    ]  # fmt: skip
    assert rows["Lamp", "swapped names with Oars"] == ["kept", "present", "Night Boats/02 Oars.wav", "0:25"]
    assert rows["Oars", "swapped names with Lamp"] == ["kept", "present", "Night Boats/01 Lamp.wav", "1:15"]
    assert rows["Fog", "replaced by a better file"][:2] == ["kept", "present"]
    assert rows["Bell", "overwritten with nonsense"][:2] == ["kept", "present"]
    assert rows["Undertow", "deleted"][:2] == ["kept", "missing"]
    assert rows["Landing", "the copy"][:3] == ["new", "present", "Mix/Landing.wav"]
    assert re.search(r"Held \(mass_removal\): 10 of 12 items would be missing", shown)
    scans = [rows[number, status] for number, status in (("1", "finalized"), ("2", "finalized"), ("4", "finalized"))]
    assert [one[0] for one in scans] == ["12", "12", "12"]
    assert [one[4] for one in scans] == ["0", "1", "0"], "missing"
    assert rows["3", "held, then superseded"][0] == "2"
    places = [(cells[0], cells[3]) for cells in map(_cells, shown.splitlines()) if cells[1:2] == ["The Paper Lantern"]]
    assert places == [("den", "0:42:00"), ("attic", "0:42:00"), ("den", "1:01:00"), ("attic", "1:01:00")]
    assert {cause for cause, *_ in rows} >= {"upstream_changed", "row_edited"}
    said = " ".join(shown.split())
    assert "all of it agrees" in said
    assert re.search(r"redriven: \S+, where its topic places it; decided: accepted", said)
    assert {"serve", "relay", "poll", "work"} <= {role for role, where, *_ in rows if where.endswith("/metrics")}


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("│").split("│")] if line.startswith("│") else []
