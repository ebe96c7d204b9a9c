"""Failpoints: off by default, armed by exact names only."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streams.runtime.errors import ConfigurationError
from streams.runtime.failpoints import POINTS, armed, disarmed


def test_nothing_is_armed_unless_asked_for() -> None:
    assert armed("") is disarmed
    assert armed("  ") is disarmed
    for point in POINTS:
        disarmed(point)


def test_an_armed_point_acts_and_the_others_do_not() -> None:
    hit = armed("relay.published=raise, ingest.acked=raise:0")
    for point in POINTS:
        if point != "relay.published":
            hit(point)
    with pytest.raises(RuntimeError, match=r"failpoint relay\.published"):
        hit("relay.published")


@pytest.mark.parametrize(
    "specification",
    [
        "nowhere=kill",
        "relay.published=explode",
        "relay.published",
        "relay.published=raise:x",
        "relay.published=raise:2",
        "relay.published=raise:-0.1",
        "relay.published=raise:nan",
        "relay.published=raise,",
    ],
)
def test_what_cannot_be_armed_is_refused(specification: str) -> None:
    with pytest.raises(ConfigurationError, match="failpoint"):
        armed(specification)


def test_a_killed_process_dies_at_once_without_cleaning_up() -> None:
    code = (
        "from streams.runtime.failpoints import armed\n"
        "try:\n    armed('relay.published=kill')('relay.published')\n"
        "finally:\n    print('cleaned up')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -9
    assert done.stdout == ""
