"""The cache is never fresh: nobody relays what became stale, or nobody keeps the cache."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streams.runtime import metrics
from tests.integration.caches.kitchen import Kitchen
from tests.integration.projections.world import environment_of, eventually

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("caches"), pytest.mark.long]


@contextmanager
def playhead(kitchen: Kitchen, *arguments: str) -> Iterator[None]:
    """``playhead …`` as a process, until it is left."""
    process = subprocess.Popen(
        [sys.executable, "-m", "streams.cli", *arguments],
        env=environment_of(kitchen.settings),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(30)


def position(kitchen: Kitchen, user: str, media: str) -> int:
    row = kitchen.progress(user, media)
    assert row is not None
    return int(row["position_ms"])


def reads(outcome: str) -> float:
    labels = {"kind": "progress", "outcome": outcome}
    return metrics.REGISTRY.get_sample_value("playhead_cache_reads_total", labels) or 0.0


def test_never_fresh_because_nobody_relays_the_outbox_waits_and_a_relay_mends_it(
    kitchen: Kitchen, topic_prefix: str
) -> None:
    user, media = topic_prefix, "film"
    with kitchen.keeping():
        kitchen.decide(user, media, 1_000)
        kitchen.relay_all()
        assert position(kitchen, user, media) == 1_000
        kitchen.decide(user, media, 2_000)
        hits = reads("hit")
        assert position(kitchen, user, media) == 1_000, "the symptom"
        assert reads("hit") == hits + 1
        assert kitchen.outbox_rows() > 0

        with playhead(kitchen, "relay"):
            eventually(lambda: position(kitchen, user, media) == 2_000, "the cache is fresh")
        assert kitchen.outbox_rows() == 0


def test_never_fresh_because_nobody_keeps_the_cache_reads_go_past_it_and_a_cache_worker_opens_it(
    kitchen: Kitchen, topic_prefix: str
) -> None:
    user, media = topic_prefix, "film"
    kitchen.decide(user, media, 1_000)
    closed = reads("closed")
    assert position(kitchen, user, media) == 1_000
    assert reads("closed") == closed + 1, "the symptom"
    with playhead(kitchen, "cache"):
        kitchen.wait_open()
        assert position(kitchen, user, media) == 1_000
        assert position(kitchen, user, media) == 1_000
    assert reads("hit") > 0
