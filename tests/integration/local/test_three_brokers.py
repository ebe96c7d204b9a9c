"""Three real brokers: one away is not missed, two away stop writes, all killed lose nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streams.local import KafkaCluster
from tests import kafka

pytestmark = [pytest.mark.services, pytest.mark.faults]

TOPIC = "kept"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three nodes with one topic of three copies; a test leaves all of them running and in sync."""
    with KafkaCluster(tmp_path_factory.mktemp("cluster") / "three nodes") as made:
        create_topic(made)
        yield made


def create_topic(cluster: KafkaCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = NewTopic(TOPIC, 3, cluster.replication, config=dict(cluster.topic_defaults))
    admin.create_topics([topic])[TOPIC].result(30)


def write(bootstrap: str, value: bytes, *, timeout_s: float = 60.0) -> int:
    """Write one record to each of the three partitions with acks=all; how many were acknowledged."""
    # Never the errors themselves: comparing one with None leaves an exception behind in the interpreter.
    answers: list[bool] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": int(timeout_s * 1000), "log_level": 0}
    )
    for partition in range(3):
        producer.produce(TOPIC, value, partition=partition, on_delivery=lambda error, _: answers.append(error is None))
    assert producer.flush(timeout_s + 30) == 0
    return sum(answers)


def count(bootstrap: str) -> int:
    asker = Consumer({"bootstrap.servers": bootstrap, "group.id": "asker", "log_level": 0})
    try:
        return sum(kafka.watermarks(asker, TOPIC, partition)[1] for partition in range(3))
    finally:
        asker.close()


def test_given_one_node_killed_or_frozen_then_writes_go_on_and_it_catches_up(cluster: KafkaCluster) -> None:
    before = count(cluster.bootstrap)
    cluster.nodes[0].kill()
    assert write(cluster.bootstrap, b"without the first") == 3
    cluster.nodes[0].start()
    cluster.wait_ready()
    cluster.nodes[1].freeze()
    try:
        assert write(cluster.bootstrap, b"without the second") == 3
    finally:
        cluster.nodes[1].thaw()
    cluster.wait_ready()
    assert count(cluster.bootstrap) == before + 6


def test_given_two_nodes_stopped_and_killed_then_nothing_is_acknowledged_until_they_are_back(
    cluster: KafkaCluster,
) -> None:
    cluster.nodes[0].stop()
    cluster.nodes[2].kill()
    assert write(cluster.bootstrap, b"refused", timeout_s=5) == 0
    # One of the two makes a majority again; the other is started by it.
    cluster.start()
    cluster.wait_ready()
    assert write(cluster.bootstrap, b"accepted") == 3


def test_given_all_nodes_killed_then_their_records_are_there_on_the_same_ports(cluster: KafkaCluster) -> None:
    assert write(cluster.bootstrap, b"kept") == 3
    before, bootstrap = count(cluster.bootstrap), cluster.bootstrap
    cluster.kill()
    assert not any(node.running for node in cluster.nodes)
    assert cluster.start() == bootstrap
    cluster.wait_ready()
    assert count(bootstrap) == before


def test_given_the_nodes_then_copies_are_three_and_they_listen_on_loopback_only(cluster: KafkaCluster) -> None:
    known = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(TOPIC, timeout=30)
    assert all(len(partition.isrs) == 3 for partition in known.topics[TOPIC].partitions.values())
    for node in cluster.nodes:
        listening = {
            connection.laddr.ip.removeprefix("::ffff:")
            for connection in psutil.Process(node.pid).net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }
        assert listening == {"127.0.0.1"}


def test_given_one_broker_closed_then_a_new_cluster_on_its_folder_has_the_records(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path, brokers=1) as first:
        create_topic(first)
        assert write(first.bootstrap, b"kept") == 3
        process = psutil.Process(first.nodes[0].pid)
    assert not process.is_running()
    with KafkaCluster(tmp_path, brokers=1) as again:
        assert count(again.bootstrap) == 3
