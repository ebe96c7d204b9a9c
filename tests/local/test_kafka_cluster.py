"""What a cluster of nodes decides before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.local import KafkaCluster, LocalStackError
from streams.local.kafka import KafkaBroker
from streams.local.kafka_cluster import _quorum


@pytest.mark.parametrize("brokers", [0, 2, 4])
def test_given_a_number_of_brokers_that_makes_no_quorum_then_the_cluster_is_refused(brokers: int) -> None:
    with pytest.raises(ValueError, match="odd"):
        KafkaCluster(brokers=brokers)


def test_given_a_cluster_not_started_then_its_addresses_are_refused() -> None:
    with pytest.raises(LocalStackError, match="not started"):
        _ = KafkaCluster().bootstrap


def test_given_a_folder_then_its_quorum_is_the_same_at_every_start_and_refuses_other_ports(tmp_path: Path) -> None:
    made = _quorum(tmp_path / "quorum.json", [1001, 1002, 1003])
    assert [voter.node_id for voter in made.voters] == [1, 2, 3]
    assert len({voter.directory_id for voter in made.voters}) == 3
    assert _quorum(tmp_path / "quorum.json", [1001, 1002, 1003]) == made
    with pytest.raises(LocalStackError, match="choose another folder"):
        _quorum(tmp_path / "quorum.json", [1001, 1002, 1004])


def test_given_a_node_of_a_quorum_then_it_knows_all_voters_and_keeps_copies(tmp_path: Path) -> None:
    quorum = _quorum(tmp_path / "quorum.json", [1001, 1002, 1003])
    node = KafkaBroker(
        tmp_path, tmp_path, port=1, controller_port=1002, jars=Path, node_id=2, replication=3, quorum=quorum
    )
    settings = node.properties()
    assert settings["controller.quorum.bootstrap.servers"] == "127.0.0.1:1001,127.0.0.1:1002,127.0.0.1:1003"
    assert settings["node.id"] == "2"
    for copies in ("default", "offsets.topic", "transaction.state.log"):
        assert settings[f"{copies}.replication.factor"] == "3"
    assert settings["min.insync.replicas"] == settings["transaction.state.log.min.isr"] == "2"
