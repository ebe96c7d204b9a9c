"""A transaction that nobody will ever decide, made on purpose: refused at the start, repaired, harmless to readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Message

from streams.engine import EXIT_REFUSED, EngineConfig, Refused, SourcePosition
from streams.engine.logs import Logs
from streams.engine.repair import find_hanging, main, settle_hanging
from streams.engine.topics import Needed
from streams.engine.verdict import Abort, verb
from streams.local import KafkaCluster
from tests.faults.engine.brokers import NO_VERIFICATION, hang, rows_for, rows_of
from tests.kafka import read_all
from tests.stack import unique

from .cluster import Cluster

pytestmark = [pytest.mark.services, pytest.mark.faults, pytest.mark.long]

PATIENCE = {"transaction_timeout": 3.0, "hanging_timeout": 4.0}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One broker that takes records of transactions which no coordinator has begun."""
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), brokers=1, overrides=NO_VERIFICATION) as made:
        yield made


@pytest.fixture
def cluster(broker: KafkaCluster, tmp_path: Path) -> Iterator[Cluster]:
    """Workers have processed 400 records and stopped."""
    made = Cluster(broker.bootstrap, unique("hanging"), tmp_path, partitions=2)
    try:
        made.create_topics()
        made.config |= PATIENCE
        made.produce(400)
        made.start()
        made.wait_drained()
        assert made.stop(0) == 0
        yield made
    finally:
        made.close()


def settings(cluster: Cluster) -> EngineConfig:
    return EngineConfig(bootstrap=cluster.bootstrap, group=cluster.group, state_dir=cluster.folder)


def needed(cluster: Cluster) -> Needed:
    return Needed((cluster.a, cluster.b), tuple(cluster.changelogs.values()), (cluster.out, cluster.dead))


def outputs(cluster: Cluster, isolation: str = "read_committed") -> list[Message]:
    return read_all(cluster.bootstrap, cluster.out, cluster.partitions, isolation=isolation)


def position(message: Message) -> SourcePosition | None:
    return SourcePosition.from_headers(cast("list[tuple[str, object]]", message.headers() or []))


def test_given_a_transaction_that_hangs_everywhere_then_workers_refuse_until_it_is_repaired(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    written = [message for message in outputs(cluster) if message.partition() == 0][-10:]
    before = cluster.committed()
    source, offset = (cluster.a, 0), before[cluster.a, 0]
    cluster.produce(200)
    hang(
        settings(cluster),
        f"{cluster.group}-0",
        {
            (cluster.out, 0): rows_for(written, source, offset),
            (cluster.changelogs["progress"], 0): rows_for(written, source, offset),
        },
        {source: offset + len(written)},
    )
    cluster.start()
    assert cluster.exit_code(0) == EXIT_REFUSED, cluster.epitaph(0)
    assert cluster.said(0, "hanging transaction: __consumer_offsets[")
    assert cluster.said(0, "python -m streams.engine.repair")

    found = find_hanging(settings(cluster), needed(cluster))
    assert [(item.role, item.transaction.topic) for item in found.hanging] == [
        ("output", cluster.out),
        ("changelog", cluster.changelogs["progress"]),
        ("offsets", "__consumer_offsets"),
    ]
    assert {item.transactional_id for item in found.hanging} == {f"{cluster.group}-0"}
    assert {verb(item.verdict) for item in found.hanging} == {"abort"}

    topics = [f"--output={cluster.out}", *(f"--changelog={name}" for name in cluster.changelogs.values())]
    command = ["--bootstrap", cluster.bootstrap, "--group", cluster.group, *topics]
    assert main(command) == 1
    assert "kafka-transactions.sh" in capsys.readouterr().out
    assert find_hanging(settings(cluster), needed(cluster)) == found, "looking changes nothing"
    assert main([*command, "--settle"]) == 0
    assert capsys.readouterr().out.count("aborted: ") == 3
    assert main(command) == 0

    assert cluster.committed() == before
    cluster.start()
    cluster.wait_drained()
    assert cluster.stop(0) == 0
    assert cluster.violations(stores=True) == []


def test_given_a_repetition_that_hangs_in_an_output_only_then_the_guard_refuses_and_nothing_is_doubled(
    cluster: Cluster,
) -> None:
    repeated = [message for message in outputs(cluster) if message.partition() == 0][:10]
    hang(settings(cluster), f"{cluster.group}-0", {(cluster.out, 0): rows_of(repeated)})
    cluster.produce(200)
    cluster.start()
    assert cluster.exit_code(0) == EXIT_REFUSED, cluster.epitaph(0)
    assert cluster.said(0, f"hanging transaction: {cluster.out}[0] is undecided from")
    (settled,) = settle_hanging(settings(cluster), needed(cluster)).hanging
    assert isinstance(settled.verdict, Abort)
    assert "repetition" in settled.verdict.because
    cluster.start()
    cluster.wait_drained()
    assert cluster.stop(0) == 0
    assert cluster.violations() == []


def test_given_an_engine_without_the_guard_then_the_orphan_is_committed_and_readers_by_position_see_no_repeat(
    cluster: Cluster,
) -> None:
    repeated = [message for message in outputs(cluster) if message.partition() == 0][:10]
    hang(settings(cluster), f"{cluster.group}-0", {(cluster.out, 0): rows_of(repeated)})
    cluster.produce(200)
    cluster.start(mutant="no_guard")
    cluster.wait_drained()
    assert cluster.stop(0) == 0

    visible = outputs(cluster)
    seen = Counter(position(message) for message in visible)
    assert {place for place, times in seen.items() if times > 1} == {position(message) for message in repeated}
    assert any("repeated" in problem for problem in cluster.violations()), "the oracle sees it"
    once: dict[SourcePosition | None, Message] = {}
    for message in visible:
        once.setdefault(position(message), message)
    assert len(once) == len(visible) - len(repeated)
    # Dropped by position, what is left is each key's outputs in the order of their input.
    for key in {message.key() for message in once.values()}:
        for source in (cluster.a, cluster.b):
            offsets = [p.offset for p, m in once.items() if p is not None and m.key() == key and p.topic == source]
            assert offsets == sorted(set(offsets))


def test_given_a_transaction_at_work_then_it_is_no_hanging_one_and_members_forbid_the_repair(cluster: Cluster) -> None:
    cluster.produce(200)
    cluster.start(hang={"at": "flushed", "after": 1}, config={"transaction_timeout": 60.0, "hanging_timeout": 61.0})

    def states() -> set[str]:
        found = find_hanging(settings(cluster), needed(cluster))
        assert found.hanging == ()
        return {item.state for item in found.pending}

    # One that commits at this moment is pending as well; the one that stands before its commit stays.
    cluster.wait("only the open transaction is left", lambda: states() == {"Ongoing"})
    assert Logs(settings(cluster)).members() > 0
    with pytest.raises(Refused, match="Stop all workers"):
        settle_hanging(settings(cluster), needed(cluster))
    cluster.kill(0)


def test_given_a_group_that_never_was_then_nothing_hangs_and_nobody_is_asked_to_stop(broker: KafkaCluster) -> None:
    config = EngineConfig(bootstrap=broker.bootstrap, group=unique("nobody"), state_dir=Path())
    assert Logs(config).members() == 0
    assert settle_hanging(config, Needed((), (), ())).hanging == ()
    with pytest.raises(Refused, match="missing topic"):
        find_hanging(config, Needed((), (), ("not-there",)))
