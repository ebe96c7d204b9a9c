"""kill -9 at every step boundary of the cache worker: no invalidation is lost, nothing stale is shown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.integration.caches.kitchen import OPEN_MS, QUARANTINE_S, Kitchen
from tests.integration.projections.world import environment_of, eventually

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("caches"), pytest.mark.faults, pytest.mark.long]
ANA, FILM = "a" * 32, "f" * 32


@pytest.mark.parametrize("point", ["opening", "opened", "renewed", "read", "raised"])
def test_a_keeper_killed_at_a_boundary_leaves_nothing_stale(kitchen: Kitchen, point: str) -> None:
    kitchen.decide(ANA, FILM, 1_000)
    kitchen.relay_all()
    # The cache is open when it dies, and for a while: the next goes on where that one was.
    was_open = point in ("read", "raised")
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.caches.child", str(QUARANTINE_S), str(OPEN_MS)],
        env={**os.environ, **environment_of(kitchen.settings, PLAYHEAD_FAILPOINTS=f"cache.{point}=kill")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        generation = kitchen.wait_open() if was_open else None
        if was_open:
            first = kitchen.progress(ANA, FILM)
            assert first is not None
            assert first["position_ms"] == 1_000
            kitchen.forge(ANA, FILM, position_ms=77)
            again = kitchen.progress(ANA, FILM)
            assert again == first, "it is kept"
        version = kitchen.decide(ANA, FILM, 2_000)
        kitchen.relay_all()
        assert child.wait(60) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()
    if point == "raised":
        # Two keys in two partitions: of one at least.
        floors = {kitchen.floor_of(generation or "", key) for key in (f"progress:{ANA}:{FILM}", f"continue:{ANA}")}
        assert f"1.1.{version}" in floors
    with kitchen.keeping():

        def newest() -> bool:
            shown = kitchen.progress(ANA, FILM)
            return shown is not None and shown["version"] == version

        eventually(newest, "the newest is shown")
        kitchen.forge(ANA, FILM, position_ms=88)
        kept = kitchen.progress(ANA, FILM)
        assert kept is not None
        assert kept["position_ms"] == 2_000


def test_a_worker_that_follows_at_once_goes_on_with_what_is_kept(kitchen: Kitchen) -> None:
    kitchen.decide(ANA, FILM, 1_000)
    with kitchen.keeping() as first:
        generation = kitchen.wait_open()
        kitchen.progress(ANA, FILM)
        with kitchen.keeping():
            first.set()
            version = kitchen.decide(ANA, FILM, 2_000)
            kitchen.relay_all()
            eventually(lambda: kitchen.floor(f"progress:{ANA}:{FILM}") == f"1.1.{version}", "the second has told it")
            assert kitchen.wait_open() == generation


def test_a_rebuilt_model_empties_the_cache(kitchen: Kitchen) -> None:
    kitchen.decide(ANA, FILM, 1_000)
    with kitchen.keeping():
        generation = kitchen.wait_open()
        kitchen.progress(ANA, FILM)
        kitchen.forge(ANA, FILM, position_ms=77)
        kitchen.invalidate("model", 2)
        kitchen.wait_open(other_than=generation)
        shown = kitchen.progress(ANA, FILM)
        assert shown is not None
        assert shown["position_ms"] == 77


def test_an_invalidation_nobody_can_read_keeps_its_key_out_of_the_cache_and_no_other(kitchen: Kitchen) -> None:
    kitchen.decide(ANA, FILM, 1_000)
    other = "5" * 32
    kitchen.decide(ANA, other, 1_000)
    key = f"progress:{ANA}:{FILM}"
    with kitchen.keeping():
        kitchen.poison(key)
        eventually(lambda: kitchen.floor(key) is not None, "it was read")
        for media in (FILM, other):
            kitchen.progress(ANA, media)
            kitchen.forge(ANA, media, position_ms=77)
        shown = [kitchen.progress(ANA, media) for media in (FILM, other)]
        assert [row and row["position_ms"] for row in shown] == [77, 1_000]


def test_a_worker_that_can_not_keep_up_closes_the_cache(kitchen: Kitchen) -> None:
    kitchen.decide(ANA, FILM, 1_000)
    with kitchen.keeping(open_ms=2_000, stale_s=0.0):
        eventually(lambda: kitchen.state() is None, "nobody says that it is open")
        for position in (77, 78):
            kitchen.forge(ANA, FILM, position_ms=position)
            shown = kitchen.progress(ANA, FILM)
            assert shown is not None
            assert shown["position_ms"] == position
