"""Which roles ``playhead up`` starts, and what it shows of their lines."""

from __future__ import annotations

import io
import logging

from streams.cli.deployment import Options, roles
from streams.cli.up import worth_showing
from streams.engine.progress import EVERY, RestoreProgress
from streams.runtime import logs
from streams.runtime.settings import Settings


def test_given_a_long_restore_then_its_line_is_shown_and_other_json_lines_are_not() -> None:
    stream, now = io.StringIO(), [0.0]
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        logs.configure("agents", stream=stream)
        progress = RestoreProgress([2], 100, lambda *_: None, lambda: now[0])
        now[0] = EVERY
        progress.advance(50)
        logs.get("playhead").info("starting")
    finally:
        root.handlers[:], root.level = before
    shown = [worth_showing(line) for line in stream.getvalue().splitlines()]
    assert shown == ["restoring partitions 2: 50 %, 50 of 100 records, 25/s, about 2 s left", None]


def test_given_a_line_of_the_supervisor_or_half_a_line_then_the_first_is_shown_and_the_second_is_not() -> None:
    assert worth_showing("ended with 1, started again") == "ended with 1, started again"
    assert worth_showing('{"event": "restoring par') is None
    assert worth_showing('{"event": 7}') is None


def test_the_pollers_run_from_the_start_for_servers_that_are_connected_later() -> None:
    started = [role.name for role in roles(Settings(), Options(agents=2))]
    assert started == [
        *("serve", "agents-1", "agents-2", "agents-library", "project", "project-library", "project-tasks"),
        *("project-dead_letters", "project-forwarding", "relay", "poll", "work"),
    ]
