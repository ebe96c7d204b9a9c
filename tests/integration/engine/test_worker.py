"""Whole workers at their edges: how they start, refuse and resume."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_INVALID

from streams.engine import EXIT_CLEAN, EXIT_REFUSED

from .cluster import Cluster

pytestmark = pytest.mark.services


def test_given_missing_changelogs_then_exit_78_and_what_to_do(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    cluster = Cluster(kafka_bootstrap, topic_prefix, tmp_path)
    cluster.create_topics(changelogs=False)
    cluster.start()
    try:
        assert cluster.exit_code(0) == EXIT_REFUSED, cluster.tail()
        assert cluster.said(0, "missing topics")
        assert cluster.said(0, "ensure_changelogs")
    finally:
        cluster.close()


def test_given_expired_group_offsets_then_the_worker_resumes_from_its_changelog_and_repeats_nothing(
    cluster: Cluster,
) -> None:
    cluster.produce(800)
    cluster.start()
    cluster.wait_drained()
    assert cluster.stop(0) == EXIT_CLEAN, cluster.tail()
    cluster.admin.delete_consumer_groups([cluster.group])[cluster.group].result(30)
    cluster.produce(800)
    cluster.wipe(0)
    cluster.start()
    cluster.wait_drained()
    assert cluster.stop(0) == EXIT_CLEAN, cluster.tail()
    assert cluster.violations() == []


def test_given_deleted_group_offsets_and_nothing_to_do_then_the_group_has_them_again(cluster: Cluster) -> None:
    cluster.produce(400)
    cluster.start()
    cluster.wait_drained()
    assert cluster.stop(0) == EXIT_CLEAN, cluster.tail()
    before = cluster.committed()
    cluster.admin.delete_consumer_groups([cluster.group])[cluster.group].result(30)
    assert set(cluster.committed().values()) == {OFFSET_INVALID}
    cluster.start()
    cluster.wait("the group's offsets are back", lambda: cluster.committed() == before)
    assert cluster.stop(0) == EXIT_CLEAN, cluster.tail()
    assert cluster.violations(stores=True) == []


def test_given_a_flood_of_poison_then_exit_78_and_its_batch_is_not_committed(cluster: Cluster) -> None:
    cluster.produce(600, poison=1.0)
    cluster.start(config={"flood_run": 20})
    assert cluster.exit_code(0) == EXIT_REFUSED, cluster.tail()
    assert cluster.said(0, "dead letters in a row")
    assert cluster.progressed() < 600
