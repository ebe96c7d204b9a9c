"""``playhead agents repair`` against a broker on which a transaction of the playback agent hangs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from schemas.topics import PLAYBACK_DECIDED, PLAYBACK_REPORTED
from streams.agents.app import AGENTS, config
from streams.agents.mending import topics
from streams.cli.app import main
from streams.engine.logs import Logs
from streams.local import KafkaCluster
from streams.local.processes import wait_until
from streams.runtime.settings import Settings
from tests.faults.engine.brokers import NO_VERIFICATION, Row, hang
from tests.kafka import committed

pytestmark = [pytest.mark.services, pytest.mark.faults]

PLAYBACK = AGENTS["playback"]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """A broker with all topics, on which a decision and the group's offset hang in a transaction."""
    with KafkaCluster(tmp_path, brokers=1, overrides=NO_VERIFICATION) as cluster:
        monkeypatch.setenv("PLAYHEAD_KAFKA__BOOTSTRAP", cluster.bootstrap)
        monkeypatch.setenv("PLAYHEAD_KAFKA__REPLICATION", "1")
        assert main(["topics", "apply"]) == 0
        made = Settings.load()
        _make_internal_topics(cluster.bootstrap)
        row = {(PLAYBACK_DECIDED.name, 3): [Row(b"k", b"never decided")]}
        hang(config(made, PLAYBACK), "playback-3", row, {(PLAYBACK_REPORTED.name, 3): 1})
        yield made


def _make_internal_topics(bootstrap: str) -> None:
    """A broker makes them when the first group and the first transactional id ask."""
    Producer({"bootstrap.servers": bootstrap, "transactional.id": "first"}).init_transactions(60)
    asker = Consumer({"bootstrap.servers": bootstrap, "group.id": "first"})
    committed(asker, [TopicPartition(PLAYBACK_REPORTED.name, 3)])
    asker.close()


def test_given_a_hanging_transaction_then_repair_shows_refuses_at_work_and_settles_it(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["agents", "repair"]) == 1
    shown = capsys.readouterr().out
    assert f"playback: hangs: output {PLAYBACK_DECIDED.name}[3] from offset 0" in shown
    assert "(playback-3)" in shown
    assert "; abort: nothing decided shows it" in shown
    assert "--settle" in shown

    member = Consumer({"bootstrap.servers": settings.kafka.bootstrap, "group.id": PLAYBACK.name, "log_level": 0})
    member.subscribe([PLAYBACK_REPORTED.name])
    assert wait_until(lambda: member.poll(0.2) is not None or Logs(config(settings, PLAYBACK)).members() > 0, 30)
    assert main(["agents", "repair", "--settle"]) == 78
    assert "Stop all workers" in capsys.readouterr().err
    member.close()

    assert main(["agents", "repair", "playback", "--settle", "--json"]) == 0
    aborted = json.loads(capsys.readouterr().out)["agents"]["playback"]["hanging"]
    assert [(item["role"], item["verdict"]) for item in aborted] == [("output", "abort"), ("offsets", "abort")]
    assert main(["agents", "repair"]) == 0
    assert "playback: nothing hangs" in capsys.readouterr().out


def test_given_every_agent_then_repair_looks_at_all_that_it_writes() -> None:
    for agent in AGENTS.values():
        needed = topics(agent)
        assert set(agent.outputs) < set(needed.outputs)
        assert len(needed.changelogs) == max(1, len(agent.tables))


def test_given_no_broker_then_repair_says_that_it_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLAYHEAD_KAFKA__BOOTSTRAP", "127.0.0.1:1")
    assert main(["agents", "repair"]) == 69
    assert "127.0.0.1:1" in capsys.readouterr().err
