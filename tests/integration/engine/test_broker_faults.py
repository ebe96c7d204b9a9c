"""A transaction that times out, and a broker that does not answer a commit. Killed brokers and moved coordinators are
cases of the fault programme (tests/faults/engine)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streams.engine import EXIT_CRASH, EXIT_RESTART
from streams.local import KafkaCluster
from tests.stack import unique

from .cluster import Cluster

pytestmark = [pytest.mark.services, pytest.mark.faults, pytest.mark.long]

#: The coordinator looks for timed out transactions so often; its default of 10 s is most of a test.
OVERRIDES = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One broker; a test leaves it running."""
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), brokers=1, overrides=OVERRIDES) as made:
        yield made


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Callable[[KafkaCluster], Cluster]]:
    """Makes topics and 600 records, no worker; whatever runs is ended after the test."""
    made: list[Cluster] = []

    def make(brokers: KafkaCluster) -> Cluster:
        made.append(Cluster(brokers.bootstrap, unique("broker-faults"), tmp_path, partitions=2,
                            replication=brokers.replication))  # fmt: skip
        made[0].create_topics()
        made[0].produce(600)
        return made[0]

    yield make
    for cluster in made:
        cluster.close()


Make = Callable[[KafkaCluster], Cluster]


def at_step(cluster: Cluster, step: str, seconds: float, *, after: int = 2) -> tuple[dict[str, Any], Path]:
    """A worker's setting that makes it stand still at a step, and the file that says that it does."""
    mark = cluster.folder / "mark"
    mark.unlink(missing_ok=True)
    return {"at": step, "after": after, "seconds": seconds, "mark": str(mark)}, mark


def finish(cluster: Cluster) -> None:
    """All is processed by workers that are started again, stops cleanly and is right."""
    cluster.wait_drained(revive=True)
    for number in list(cluster.workers):
        assert cluster.stop(number) == 0
    assert cluster.violations(stores=True) == []


def test_given_a_worker_that_stands_still_beyond_the_transaction_timeout_then_its_commit_is_refused_and_it_ends(
    single: KafkaCluster, field: Make
) -> None:
    cluster = field(single)
    hang, mark = at_step(cluster, "before_commit", 5.0)
    cluster.start(hang=hang, config={"transaction_timeout": 1.0})
    cluster.wait("the transaction is open", mark.exists)
    assert cluster.exit_code(0) == EXIT_CRASH
    finish(cluster)


def test_given_a_broker_that_does_not_answer_a_commit_then_the_worker_asks_to_be_started_again(
    single: KafkaCluster, field: Make
) -> None:
    cluster = field(single)
    hang, mark = at_step(cluster, "before_commit", 1.0)
    # The partitions are the worker's for all that time.
    cluster.start(hang=hang, config={"commit_timeout": 5.0, "session_timeout": 30.0})
    cluster.wait("a commit is about to run", mark.exists)
    single.nodes[0].freeze()
    try:
        assert cluster.exit_code(0) == EXIT_RESTART
    finally:
        single.nodes[0].thaw()
    finish(cluster)


def test_given_a_broker_that_does_not_answer_until_the_partitions_are_lost_then_the_worker_goes_on_with_it(
    single: KafkaCluster, field: Make
) -> None:
    cluster = field(single)
    hang, mark = at_step(cluster, "before_commit", 1.0)
    # The commit would end the worker later than that.
    worker = cluster.start(hang=hang, config={"commit_timeout": 20.0})
    cluster.wait("a commit is about to run", mark.exists)
    single.nodes[0].freeze()
    try:
        cluster.wait("the partitions are lost", lambda: cluster.said(0, "lost partitions"))
        time.sleep(16)  # the time itself is the fault: the commit is older than its timeout
    finally:
        single.nodes[0].thaw()
    finish(cluster)
    assert worker.returncode == 0, cluster.epitaph(0)
