"""Brokers stopped, killed, frozen and moved: on one broker, which all wait for, and on three, where two must do."""

from __future__ import annotations

import time
from typing import Any

from streams.engine import EXIT_CRASH, EXIT_RESTART, EngineConfig
from streams.engine.repair import settle_hanging
from streams.engine.topics import Needed
from streams.engine.verdict import verb
from streams.local.kafka_cluster import KafkaNode
from tests.kafka import read_all

from ..brokers import NO_VERIFICATION, coordinator_node, hang, rows_for
from ..case import KILLED, Act, Case, add
from ..field import Field, Violation
from ..refusals import assert_refused, start_all

BROKER_FREEZE_S = 8.0
DOWN_S = 3.0


def each_node(field: Field) -> list[KafkaNode]:
    """The nodes to break, one after the other."""
    nodes: list[KafkaNode] = list(field.brokers.nodes)
    return nodes if len(nodes) > 1 else nodes * 2


def stop(field: Field) -> None:
    """Stop cleanly, start again."""
    _cycle(field, "broker stopped", KafkaNode.stop)


def kill(field: Field) -> None:
    """kill -9, start again."""
    _cycle(field, "broker kill -9", KafkaNode.kill)


def freeze(field: Field) -> None:
    """SIGSTOP, SIGCONT: connections stay, nothing answers."""
    for node in each_node(field):
        field.wait_progress(500, timeout=90)
        node.freeze()
        field.faults["broker frozen"] += 1
        time.sleep(BROKER_FREEZE_S)  # the time itself is the fault
        node.thaw()
        field.brokers.wait_ready()


def loop(how: str) -> Act:
    """Restart again and again, with hardly any time between."""

    def act(field: Field) -> None:
        node: KafkaNode = field.random.choice(field.brokers.nodes)
        for _ in range(4):
            (KafkaNode.kill if how == "kill -9" else KafkaNode.stop)(node)
            node.start()
            field.faults[f"broker {how}, in a loop"] += 1
            time.sleep(field.random.uniform(0, 2))  # it is killed again at another moment of its boot
        field.brokers.wait_ready()
        field.wait_progress(500, timeout=90)

    return act


def coordinator(field: Field) -> None:
    """Take the coordinator of the group, or of a transactional id, away, so that another broker becomes it."""
    group = field.cluster.group
    for name, transactions in ((group, False), (f"{group}-0", True), (group, False), (f"{group}-7", True)):
        field.wait_progress(500, timeout=90)
        node = field.brokers.node(coordinator_node(settings(field), name, transactions=transactions))
        node.stop()
        field.faults[f"coordinator of {'transactions' if transactions else 'the group'} moved"] += 1
        field.wait_progress(500, timeout=90)
        node.start()
        field.brokers.wait_ready()


def with_worker(field: Field) -> None:
    """A broker and a worker die together."""
    for node in each_node(field):
        field.wait_progress(500, timeout=90)
        number = field.random.choice(field.workers)
        field.kill(number)
        node.kill()
        field.faults["broker kill -9"] += 1
        time.sleep(DOWN_S)  # it is away for a while
        node.start()
        field.brokers.wait_ready()


def hanging(field: Field) -> None:
    """Leave a transaction that no coordinator knows in output, changelog and offsets: refused until it is repaired."""
    cluster = field.cluster
    source = cluster.a, 0
    offset = cluster.committed()[source]
    field.more(1_000)
    written = [m for m in read_all(cluster.bootstrap, cluster.out, cluster.partitions) if m.partition() == 0][-10:]
    hang(
        settings(field),
        f"{cluster.group}-0",
        {
            (cluster.out, 0): rows_for(written, source, offset),
            (cluster.changelogs["progress"], 0): rows_for(written, source, offset),
        },
        {source: offset + len(written)},
    )
    field.faults["hanging transaction"] += 1
    assert_refused(field, "hanging transaction: __consumer_offsets[", "python -m streams.engine.repair")
    topics = Needed((cluster.a, cluster.b), tuple(cluster.changelogs.values()), (cluster.out, cluster.dead))
    settled = settle_hanging(settings(field), topics).hanging
    parts = [(item.role, verb(item.verdict)) for item in settled]
    if parts != [("output", "abort"), ("changelog", "abort"), ("offsets", "abort")]:
        raise Violation(f"the repair settled {settled}")
    start_all(field)
    field.wait_drained()
    field.stop_all()
    if found := cluster.violations(stores=True):
        raise Violation(f"after the repair: {found}")


def settings(field: Field) -> EngineConfig:
    return EngineConfig(bootstrap=field.cluster.bootstrap, group=field.cluster.group, state_dir=field.cluster.folder)


def _cycle(field: Field, what: str, down: object) -> None:
    assert callable(down)
    for node in each_node(field):
        field.wait_progress(500, timeout=90)
        down(node)
        field.faults[what] += 1
        time.sleep(DOWN_S)  # it is away for a while
        node.start()
        field.brokers.wait_ready()


# A worker that gives up on a silent broker starts again.
_BROKERS: dict[str, Any] = {
    "brokers": True,
    "repairs": True,
    "codes": frozenset({EXIT_CRASH, EXIT_RESTART}),
    "heal_s": 150.0,
}
add(Case(name="broker-stopped", does="a broker stopped for 3 s, then the next", act=stop, **_BROKERS))
add(Case(name="broker-killed", does="kill -9 of a broker for 3 s, then the next", act=kill, **_BROKERS))
add(
    Case(name="broker-frozen", does=f"a broker frozen for {BROKER_FREEZE_S:g} s, then the next", act=freeze, **_BROKERS)
)
add(Case(name="broker-restart-loop", does="a broker stopped and started four times", act=loop("stopped"), **_BROKERS))
add(Case(name="broker-kill-loop", does="a broker killed and started four times", act=loop("kill -9"), **_BROKERS))
add(
    Case(
        name="broker-and-worker-killed",
        does="kill -9 of a broker and a worker together, then the next",
        act=with_worker,
        **{**_BROKERS, "codes": frozenset({KILLED, EXIT_CRASH, EXIT_RESTART})},
    )
)
add(
    Case(
        name="coordinator-moved",
        does="the brokers that coordinate the group and transactions stopped, twice each",
        act=coordinator,
        replicated=True,
        **_BROKERS,
    )
)
add(
    Case(
        name="hanging-transaction",
        does="a transaction without coordinator in output, changelog and offsets: refused, repaired",
        act=lambda field: field.wait_progress(1000),
        refusal=hanging,
        config={"transaction_timeout": 3.0, "hanging_timeout": 4.0},
        properties=NO_VERIFICATION,
        **{**_BROKERS, "codes": frozenset(), "repairs": False},
    )
)
