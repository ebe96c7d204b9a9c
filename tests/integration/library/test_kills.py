"""Scanners that are killed at any step, and scanners that go on when their lease is over: the same library.

``PLAYHEAD_SCANNER_KILLS`` says how many kills; ``PLAYHEAD_SCANNER_SEED`` repeats a run.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from schemas.library import ItemObserved, ScanListed
from tests.integration.library.house import House
from tests.integration.library.library import Library
from tests.integration.projections.world import environment_of

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("library"), pytest.mark.faults, pytest.mark.long]

KILLS = int(os.environ.get("PLAYHEAD_SCANNER_KILLS", "3"))
STEPS = 80
"""About as many steps as a scan has here; a worker that gets further is killed at the end of it."""


@contextmanager
def scanner(house: House, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that is alone."""
    house.stop_worker()
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.library.child", *arguments],
        env={**os.environ, **environment_of(house.settings)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def healed(library: Library, generation: int) -> None:
    """Another worker takes over and comes to the end."""
    library.house.start_worker()

    def over() -> bool:
        scans = library.scans()
        [(done,)] = library.house.query(
            "SELECT max(done_version) FROM core.tasks WHERE kind = 'scan' AND key = %s", library.source_id
        )
        newest = max(generation, -1 if done is None else done)
        return bool(scans) and scans[-1].generation >= newest and scans[-1].status == "finalized"

    library.house.wait(over, "an attempt has come to its end")
    library.wait_idle()
    # When it died after its last word the one above was its own, and there is one more.
    library.house.wait(over, "the last attempt has come to its end")
    library.check()


def test_a_scanner_that_is_killed_at_any_step_leaves_the_same_library(library: Library) -> None:
    seed = int(os.environ.get("PLAYHEAD_SCANNER_SEED", random.randrange(10**6)))
    print(f"PLAYHEAD_SCANNER_SEED={seed}")
    chance = random.Random(seed)
    library.make(*(f"{folder}/{number}.mp3" for folder in "abcd" for number in range(6)))
    expected: dict[bytes, str] = {}
    for kill in range(KILLS):
        if kill:
            # A move, a song that is gone, and new ones.
            moved, gone = chance.sample(sorted(expected), 2)
            target = f"{chance.choice('abcde')}/moved{kill}.mp3".encode()
            library.rename(moved, target)
            library.remove(gone)
            library.make(*(f"{chance.choice('abcd')}/new{kill}-{number}.mp3" for number in range(3)))
            expected[target] = expected.pop(moved)
            del expected[gone]
        at = chance.randint(1, STEPS)
        generation = library.ask()
        with scanner(library.house, "kill", str(at)) as child:
            assert child.wait(60) == -signal.SIGKILL
        healed(library, generation)
        now = library.ids()
        assert {path: now.get(path) for path in expected} == expected, f"kill {kill} at step {at}"
        expected = now
        if not kill:
            library.play()


@pytest.mark.parametrize("where", ["3", "listed"])
def test_a_scanner_that_is_frozen_past_its_lease_and_goes_on_changes_nothing(library: Library, where: str) -> None:
    library.make(*(f"{folder}/{number}.mp3" for folder in "abcd" for number in range(6)))
    library.scan()
    library.play()
    library.rename("a/1.mp3", "d/moved.mp3")
    library.remove("d/5.mp3")
    generation = library.ask()
    with scanner(library.house, "stop", where) as child:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        # What the frozen one has not seen comes now; another worker sees it.
        library.make("a/new.mp3")
        library.remove("d/4.mp3")
        healed(library, generation)
        library.house.stop_worker()
        before, told = library.items(), len(library.house.observed(library.source_id))
        os.kill(child.pid, signal.SIGCONT)
        child.wait(30)
        library.house.start_worker()
        late = library.house.observed(library.source_id)[told:]
        assert all(isinstance(event, ItemObserved | ScanListed) and event.generation == generation for event in late)
        assert late, "it has gone on"
        assert any(isinstance(event, ScanListed) for event in late) == (where == "listed")
        # A record that comes after them is done, so they are.
        library.scan()
        after = library.items()
    library.check()
    assert after == before
