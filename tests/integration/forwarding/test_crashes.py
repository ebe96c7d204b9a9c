"""A worker that ends between any two steps of telling a server: nothing is lost by it, and nothing counted twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.forwarding.household import Household
from tests.integration.forwarding.targets import COUNT_PLAYS
from tests.integration.forwarding.test_targets import Room
from tests.integration.projections.world import environment_of, eventually

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("forwarding"), pytest.mark.long]

POINTS = ["work.claimed", "forward.announced", "forward.written", "forward.noted", "work.done"]


def expire(household: Household) -> None:
    """The server's clock passes the end of every lease."""
    household.query("UPDATE core.tasks SET lease_until = now() - interval '1 ms' WHERE lease_until IS NOT NULL")


def hear(room: Room) -> None:
    """From its beginning, so long that it is another hearing, to its end."""
    room.say("start", 0)
    for position_ms in (1_000, 45_000):
        room.say("progress", position_ms)
    room.say("finish")


def check(room: Room, plays: int, at: int) -> None:
    room.household.work()
    assert (room.plays, room.at) == (plays, at)
    assert room.household.query("SELECT count(*) FROM core.forward_plays") == [(0,)]
    assert room.household.query(
        "SELECT count(*) FROM core.tasks WHERE done_version < wanted_version OR dead_at IS NOT NULL"
    ) == [(0,)]
    assert room.household.letters.written == []


@pytest.mark.parametrize("kind", ["jellyfin", pytest.param("gonic", marks=pytest.mark.faults)])
def test_a_worker_that_crashes_at_every_step_leaves_each_play_counted_once(household: Household, kind: str) -> None:
    room = Room(household, COUNT_PLAYS[kind])
    for number, point in enumerate(POINTS, start=1):
        hear(room)

        def crash(here: str, point: str = point) -> None:
            if here == point:
                raise RuntimeError(point)

        with pytest.raises(RuntimeError, match=point), household.worker(failpoint=crash) as thread:
            thread.join(30)
        expire(household)
        check(room, number, 0)


@contextmanager
def child(household: Household, state: Path, failpoint: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = environment_of(
        household.settings, PLAYHEAD_FAILPOINTS=failpoint, PLAYHEAD_STATE_DIR=str(state), PLAYHEAD_LOG_LEVEL="WARNING"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.forwarding.child"],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def finds_out(process: subprocess.Popen[bytes]) -> bool:
    """Whether it says so, within a minute. What it writes late comes before that."""
    assert process.stdout is not None
    patience = threading.Timer(60, process.kill)
    patience.start()
    try:
        return any(b"a task became another's" in line for line in process.stdout)
    finally:
        patience.cancel()


@pytest.mark.faults
@pytest.mark.parametrize("kind", ["gonic", "plex", "listenbrainz"])
def test_a_worker_killed_at_every_step_leaves_each_play_counted_once(
    household: Household, kind: str, tmp_path: Path
) -> None:
    room = Room(household, COUNT_PLAYS[kind])
    for number, point in enumerate(POINTS, start=1):
        hear(room)
        with child(household, tmp_path, f"{point}=kill") as process:
            assert process.wait(60) == -signal.SIGKILL
        expire(household)
        check(room, number, 0)


@pytest.mark.faults
@pytest.mark.parametrize("point", ["forward.announced", "forward.written"])
def test_a_worker_frozen_past_its_lease_leaves_the_newest_there(
    household: Household, point: str, tmp_path: Path
) -> None:
    """It goes on when another has told the server something newer. What it was just sending no lease can call back;
    then it finds out that it is late, and has it looked at again."""
    room = Room(household, COUNT_PLAYS["jellyfin"])
    room.say("pause", 600_000)
    with child(household, tmp_path, f"{point}=stop:1") as process:

        def frozen() -> bool:
            return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

        eventually(frozen, "it is frozen", 60)
        room.say("pause", 900_000)
        household.query("UPDATE core.tasks SET lease_until = now() - interval '1 ms', next_attempt_at = now()")
        household.work()
        assert room.at == 900_000
        process.send_signal(signal.SIGCONT)
        assert finds_out(process), "that the task is another's"
    expire(household)
    check(room, 0, 900_000)
