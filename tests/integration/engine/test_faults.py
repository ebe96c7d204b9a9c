"""Single pitfalls with one or two workers, against real Kafka; the programme of faults is in tests/faults/engine.

After every fault its oracle folds the inputs and compares outputs, changelogs, dead letters and local stores.
``ENGINE_FAULTS_SCALE`` multiplies records and faults.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from streams.engine import EXIT_CLEAN, EXIT_CRASH, EXIT_RESTART

from .cluster import SCALE, Cluster

pytestmark = [pytest.mark.services, pytest.mark.faults]


def assert_exactly_once(cluster: Cluster, *, workers: int = 1, stores: bool = True) -> None:
    """Drain, stop, and let the oracle judge."""
    cluster.wait_drained()
    for number in range(workers):
        assert cluster.stop(number) == EXIT_CLEAN, cluster.tail()
    assert cluster.violations(stores=stores) == [], cluster.tail()


def test_pitfall_02_given_tiny_buffers_and_rolling_restarts_then_no_partition_stands_still(cluster: Cluster) -> None:
    cluster.config |= {"max_batch": 20, "max_buffered": 40}
    cluster.produce(1500)
    for number in (0, 1):
        cluster.start(number)
    cluster.wait_progress(100)
    for number in (0, 1) * SCALE:
        cluster.produce(400)
        assert cluster.stop(number) == EXIT_CLEAN, cluster.tail()
        cluster.start(number)
    assert_exactly_once(cluster, workers=2)


def test_pitfall_03_given_a_commit_that_never_returns_then_exit_70_and_a_restart_goes_on(cluster: Cluster) -> None:
    cluster.config |= {"commit_timeout": 2.0, "instance_id": "one"}
    cluster.produce(2000)
    cluster.start(hang={"at": "before_commit", "after": 4})
    assert cluster.exit_code(0) == EXIT_RESTART, cluster.tail()
    cluster.start()
    assert_exactly_once(cluster)


def test_pitfall_06_given_sigterm_during_a_rebalance_then_exit_0(cluster: Cluster) -> None:
    cluster.produce(1000)
    cluster.start(0)
    cluster.wait_progress(1)
    cluster.start(1)
    cluster.wait("the rebalance begins", lambda: cluster.said(0, "giving away partitions"))
    assert cluster.stop(0) == EXIT_CLEAN, cluster.tail()
    cluster.wait_drained()
    assert cluster.stop(1) == EXIT_CLEAN, cluster.tail()
    assert cluster.violations() == []


def test_invariant_10_and_pitfalls_07_and_12_given_an_agent_that_raises_or_returns_then_exit_1_and_no_record_lost(
    cluster: Cluster,
) -> None:
    # Waiting for the dead agent's batch would take the whole quiesce timeout.
    cluster.config |= {"quiesce_timeout": 600.0, "instance_id": "one"}
    cluster.produce(1500)
    cluster.start(agent_raises_at=300)
    assert cluster.exit_code(0) == EXIT_CRASH, cluster.tail()
    assert cluster.said(0, "agent bug")
    cluster.start(agent_returns_at=300)
    assert cluster.exit_code(0) == EXIT_CRASH, cluster.tail()
    assert cluster.said(0, "agent on_a returned")
    cluster.start()
    assert_exactly_once(cluster)


def test_pitfalls_05_and_08_given_a_stale_init_transactions_then_the_owner_ends_and_its_restart_goes_on(
    cluster: Cluster,
) -> None:
    from confluent_kafka import Producer

    cluster.config |= {"instance_id": "one"}
    cluster.produce(1000)
    cluster.start()
    cluster.wait_drained()
    stale = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": f"{cluster.group}-1"})
    stale.init_transactions(30)
    cluster.produce(1000)
    assert cluster.exit_code(0) == EXIT_CRASH, cluster.tail()
    cluster.start()
    assert_exactly_once(cluster)


def test_invariant_08_given_local_state_deleted_damaged_or_old_then_it_is_rebuilt(cluster: Cluster) -> None:
    cluster.config |= {"instance_id": "one"}
    for round_ in range(3):
        cluster.produce(800)
        cluster.start()
        cluster.wait_drained()
        assert cluster.stop(0) == EXIT_CLEAN, cluster.tail()
        if round_ == 0:
            shutil.copytree(cluster.state(0), cluster.folder / "old")
            cluster.wipe(0)
        elif round_ == 1:
            for current in cluster.state(0).glob("*/CURRENT"):
                current.write_bytes(b"\0damaged")
            shutil.rmtree(cluster.state(0) / "0")
            shutil.copytree(cluster.folder / "old" / "0", cluster.state(0) / "0")
    shutil.rmtree(cluster.folder / "old")
    assert cluster.said(0, "local state unusable")
    assert cluster.violations(stores=True) == [], cluster.tail()


def test_pitfall_13_given_an_idle_dynamic_member_then_it_uses_little_cpu_and_leaves_the_group_when_stopped(
    cluster: Cluster,
) -> None:
    cluster.produce(200)
    process = cluster.start()
    cluster.wait_drained()
    before = _cpu_seconds(process.pid)
    time.sleep(5)  # the time itself is what is measured
    assert _cpu_seconds(process.pid) - before < 0.25
    assert cluster.stop(0) == EXIT_CLEAN, cluster.tail()
    described = cluster.admin.describe_consumer_groups([cluster.group])[cluster.group].result(30)
    assert list(described.members) == []


def test_given_few_keys_and_empty_partitions_then_kills_lose_nothing(cluster: Cluster) -> None:
    cluster.config |= {"instance_id": "one"}
    cluster.produce(1500, keys=2)
    cluster.start(die={"at": "committed", "after": 3})
    assert cluster.exit_code(0) == -signal.SIGKILL
    cluster.wipe(0)
    cluster.start()
    assert_exactly_once(cluster)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
