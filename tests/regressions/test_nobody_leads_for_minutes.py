"""A client that asked about a topic while the broker that came back was still fenced was told that nobody leads it, and
believed so for fifteen minutes: dead letters could not be shown and read models not rebuilt, though all was well."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from projections.dlq.reading import Places
from projections.rebuild.reading import LogReader
from schemas.topics import PLAYBACK_DECIDED
from streams.local import KafkaCluster
from streams.runtime.errors import Unavailable
from streams.runtime.kafka import apply_topics
from streams.runtime.settings import KafkaSettings

pytestmark = [pytest.mark.services, pytest.mark.faults, pytest.mark.long]

#: Longer than a broker's session with its controller: it is fenced when it can be asked again.
FROZEN_S = 20.0
#: How long new clients are made from before the broker answers; each of them asks at once.
MAKING_S = 1.5
AT_ONCE = 8
CLIENTS_MAX = 80
PATIENCE_S = 20.0

Ask = Callable[[], object]


def answered(ask: Ask) -> bool:
    try:
        ask()
    except Unavailable:
        return False
    return True


def asked_while_it_comes_back(make: Callable[[], Ask], thaw: Callable[[], None]) -> list[Ask]:
    """Questions of clients that were made, and asked, around the moment in which ``thaw`` was called."""
    asks: list[Ask] = []

    def go_on(until: float) -> None:
        while time.monotonic() < until and len(asks) < CLIENTS_MAX:
            asks.append(make())
            answered(asks[-1])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(AT_ONCE):
            pool.submit(go_on, time.monotonic() + MAKING_S)
        time.sleep(0.05)  # the first ones wait for an answer already
        thaw()
    return asks


def reader(stack: ExitStack, kafka: KafkaSettings) -> Ask:
    made = LogReader(kafka, PLAYBACK_DECIDED)
    stack.callback(made.close)
    return lambda: made.extents([3])


def places(stack: ExitStack, kafka: KafkaSettings) -> Ask:
    made = stack.enter_context(Places(kafka))
    return lambda: made.extent(PLAYBACK_DECIDED.name, 3)


@pytest.mark.parametrize("make", [reader, places])
def test_given_a_broker_that_is_fenced_when_it_is_asked_then_who_asked_is_answered_soon(
    make: Callable[[ExitStack, KafkaSettings], Ask], tmp_path: Path
) -> None:
    with KafkaCluster(tmp_path / "kafka", brokers=1) as cluster, ExitStack() as stack:
        kafka = KafkaSettings(bootstrap=cluster.bootstrap)
        list(apply_topics(kafka))
        node = cluster.nodes[0]
        node.freeze()
        time.sleep(FROZEN_S)  # the time itself is the fault
        asks = asked_while_it_comes_back(partial(make, stack, kafka), node.thaw)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and not all(answered(ask) for ask in asks):
            time.sleep(0.5)
        assert [answered(ask) for ask in asks] == [True] * len(asks)
