"""Under load, kills, slow fills, evictions and restarts of the cache nobody is shown less than was seen before."""

from __future__ import annotations

import os
import random
import time

import pytest

from streams.effects.cache import keeper
from tests.integration.caches.checker import Checker, disturb, hits, keepers_that_die
from tests.integration.caches.kitchen import Kitchen

pytestmark = [pytest.mark.services, pytest.mark.faults, pytest.mark.timeout(900)]
DURATION_S = float(os.environ.get("PLAYHEAD_CACHE_CHECK_S", "20"))
SEED = int(os.environ.get("PLAYHEAD_CACHE_CHECK_SEED", "7"))


def test_no_reader_is_shown_less_than_was_seen_before_it_asked(kitchen: Kitchen) -> None:
    checker = Checker(kitchen, SEED)
    checker.begin()
    before = hits()
    with kitchen.relaying(), keepers_that_die(kitchen, keeper.QUARANTINE_S) as ended:
        kitchen.wait_open()
        with checker.running():
            done = disturb(kitchen, random.Random(SEED), time.monotonic() + DURATION_S)
    assert not checker.wrong
    served = int(hits() - before)
    print(
        f"\n{checker.reads} versions seen, {served} reads answered by the cache, {checker.own} own writes, "
        f"{len(ended)} keepers killed, Valkey: {', '.join(done)}"
    )
    assert served > 0, "the cache has answered nothing: nothing was tried"
    assert checker.own > 0
