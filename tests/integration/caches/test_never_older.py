"""Under load, kills, slow answers, evictions and restarts of the cache nobody is shown less than was seen before."""

from __future__ import annotations

import os
import random
import time

import pytest

from streams.runtime.cache import REST_S
from tests.integration.caches.checker import Checker, disturb, evict_answers, hits, keepers_that_die
from tests.integration.caches.kitchen import Kitchen

pytestmark = [
    pytest.mark.services,
    pytest.mark.xdist_group("caches"),
    pytest.mark.faults,
    pytest.mark.timeout(900),
    pytest.mark.long,
]
DURATION_S = float(os.environ.get("PLAYHEAD_CACHE_CHECK_S", "20"))
SEED = int(os.environ.get("PLAYHEAD_CACHE_CHECK_SEED", "7"))
OPEN_MS = 4_000
"""More than in production, for a machine that is busy with other tests; what follows from it is longer too."""
TIMEOUT_S = OPEN_MS / 1000 + 0.1
QUARANTINE_S = REST_S + TIMEOUT_S + 0.4


def test_while_invalidations_are_late_no_reader_is_shown_less_than_was_seen_before_it_asked(kitchen: Kitchen) -> None:
    checker = Checker(kitchen, SEED)
    checker.begin()
    before = hits()
    with kitchen.keeping(), checker.running():
        evict_answers(kitchen, random.Random(SEED), time.monotonic() + DURATION_S / 2)
    _judge(checker, int(hits() - before), "answers evicted, invalidations late")


def test_whatever_is_killed_no_reader_is_shown_less_than_was_seen_before_it_asked(kitchen: Kitchen) -> None:
    checker = Checker(kitchen, SEED, timeout_s=TIMEOUT_S)
    checker.begin()
    before = hits()
    with kitchen.relaying(), keepers_that_die(kitchen, QUARANTINE_S, OPEN_MS) as ended:
        kitchen.wait_open()
        with checker.running():
            done = disturb(kitchen, random.Random(SEED), time.monotonic() + DURATION_S)
    _judge(checker, int(hits() - before), f"{len(ended)} keepers killed, Valkey: {', '.join(done)}")


def _judge(checker: Checker, served: int, what: str) -> None:
    print(f"\n{checker.reads} versions seen, {served} answers from the cache, {checker.own} own writes; {what}")
    assert not checker.wrong
    assert served > 0, "the cache has answered nothing: nothing was tried"
    assert checker.own > 0
