"""Kill brokers twice in a row under transactional load, round after round, and count what transactions leave behind.

    python -m tests.faults.orphans [--brokers 1|3] [--rounds N] [--client librdkafka|java|both] [--seed N]
        [--property broker.session.timeout.ms=9000]

A round: load runs; brokers are killed (SIGKILL; of three: all, one or two in turn), started, killed again while
clients recover, and started; the load must move again; then it is killed, its transactional ids are taken over,
which aborts what coordinators know, and what is still open after that hangs. Everything readable must then be
every number once: the committed batches, none doubled, none lost. What hangs is reported and settled.

Progress on stderr, one JSON object as the last line of stdout. Exit code 1 when anything hung, doubled or was lost.
Both clients at once work on topics of their own and meet the same kills: the Java client, Kafka's own, is the
control. It needs `javac`. SIGTERM ends the hunt after what it is doing; what was counted is printed.

What it found with Kafka 4.3.1 on one broker with a short session (3 s), with either client; the broker's log names
both causes, and no client can prevent them:

1. Decided, never written. A coordinator that starts finds a transaction in PrepareCommit and sends its markers. A
   broker that is back soon is first fenced, as its old session ends, and until it is registered anew its partitions
   have no leader. The coordinator takes such a partition for deleted ("Couldn't find leader endpoint for partitions
   ... likely deleted already and hence can be skipped"), skips its marker and completes the transaction. Its
   producer may even have been told so. The records stay undecided, and a later transaction of the producer, which
   repeats them, commits them as well. Counted by ``markers_skipped``.
2. Offsets gone back. The group's coordinator loads only a part of __consumer_offsets ("The state machine of the
   coordinator ... is out of sync with the underlying log") and answers with old committed offsets; who trusts them
   repeats everything since. Counted by ``coordinators_behind`` and ``offsets_gone_back``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streams.engine import Crash, EngineConfig
from streams.engine.errors import EngineError
from streams.engine.findings import Findings
from streams.engine.logs import Logs
from streams.engine.repair import find_hanging, settle_hanging
from streams.engine.topics import Needed
from streams.local import Cache, KafkaCluster, LocalStackError, cache_directory
from streams.local.java import java_executable
from streams.local.manifest import load as manifest
from streams.runtime.kafka import ASKING
from tests import kafka

ROOT = Path(__file__).resolve().parents[3]
PARTITIONS = 4
RECORDS = 10
RECOVER_S = 90.0
#: Markers of aborted transactions are written within this, or never.
SETTLE_S = 15.0
CLIENTS = ("librdkafka", "java")
BEHIND = "is out of sync with the underlying log"
SKIPPED = "these partitions are likely deleted already and hence can be skipped"


@dataclass
class Count:
    """What one client's producers left behind."""

    transactions: int = 0
    hanging: int = 0
    duplicates: int = 0
    lost: int = 0
    offsets_gone_back: int = 0
    stalled_rounds: int = 0
    producers_begun_again: int = 0
    transactions_repeated: int = 0
    found: list[str] = field(default_factory=list)


class Prey:
    """One client's load, its topics, and what of its output was seen."""

    def __init__(self, cluster: KafkaCluster, client: str, folder: Path) -> None:
        self.client = client
        self.cluster = cluster
        self.group, self.source, self.out = (f"{client}-{name}" for name in ("hunt", "source", "out"))
        self.count = Count()
        self.config = EngineConfig(
            bootstrap=cluster.bootstrap, group=self.group, state_dir=folder, client={"log_level": 0}
        )
        self.needed = Needed((self.source,), (), (self.out,))
        self._log = folder / f"{client}.log"
        self._classes = folder
        self._asker = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": self.group, "isolation.level": "read_uncommitted",
             "log_level": 0, **ASKING}
        )  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self._next = [0] * PARTITIONS
        self._offsets = [0] * PARTITIONS

    def start(self) -> None:
        arguments = [self.cluster.bootstrap, self.group, self.source, self.out, str(PARTITIONS), str(RECORDS)]
        if self.client == "java":
            jars = Cache(cache_directory(os.environ)).ensure(manifest().kafka)
            command = [str(java_executable()), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
                       "-cp", f"*:{self._classes}", "Load", *arguments]  # fmt: skip
            where = jars
        else:
            command, where = [sys.executable, "-m", "tests.faults.orphans.load", *arguments], ROOT
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=where, stdout=log, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.kill()
        self._asker.close()

    def offsets(self) -> list[int]:
        """Committed batches of each partition."""
        wanted = [TopicPartition(self.source, p) for p in range(PARTITIONS)]
        return [max(0, place.offset) for place in kafka.committed(self._asker, wanted)]

    def moves(self, since: list[int], timeout_s: float) -> bool:
        """Whether every partition gets further within the time."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if all(now > then for now, then in zip(self.offsets(), since, strict=True)):
                return True
            time.sleep(0.2)
        return False

    def judge(self) -> None:
        """Take the ids over, wait for what coordinators know, count what hangs, settle it, read and compare."""
        for partition in range(PARTITIONS):
            holder = Producer({**self.config.producer(partition), "log_level": 0})
            kafka.answered(partial(holder.init_transactions, 60))
        logs = Logs(self.config)
        facts = logs.describe([self.out])
        places = [(self.out, p) for p in range(PARTITIONS)]
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            if all(r.stable >= r.end for r in logs.ranges(places, facts).values()):
                break
            time.sleep(0.2)
        # The group's partition of __consumer_offsets is looked at as well.
        while (findings := self._look()).pending and time.monotonic() < deadline:
            time.sleep(0.2)
        if findings.hanging:
            self.count.hanging += len(findings.hanging)
            self.count.found += [f"{item}: {item.verdict}" for item in findings.hanging]
            settle_hanging(self.config, self.needed)
        self._read()
        text = self._log.read_text(errors="replace")
        self.count.producers_begun_again = text.count(": begins again: ")
        self.count.transactions_repeated = text.count(": again: ")

    def _look(self) -> Findings:
        deadline = time.monotonic() + RECOVER_S
        while True:
            try:
                return find_hanging(self.config, self.needed)
            except Crash:
                # A coordinator is loading still.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def _read(self) -> None:
        reader = Consumer(
            {"bootstrap.servers": self.cluster.bootstrap, "group.id": "reader", "enable.auto.commit": False,
             "isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "error",
             "log_level": 0}
        )  # fmt: skip
        reader.assign([TopicPartition(self.out, p, offset) for p, offset in enumerate(self._next)])
        ended: set[int | None] = set()
        deadline = time.monotonic() + 60
        while len(ended) < PARTITIONS and time.monotonic() < deadline:
            for message in reader.consume(5000, 0.1):
                error, partition = message.error(), message.partition()
                if error is None:
                    value, offset = message.value(), message.offset()
                    assert value is not None
                    assert offset is not None
                    assert partition is not None
                    number = int.from_bytes(value, "big")
                    self.count.duplicates += number in self._seen[partition]
                    self._seen[partition].add(number)
                    self._next[partition] = offset + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
        reader.close()
        if len(ended) < PARTITIONS:
            self.count.found.append("the end of the output is not reached")
        offsets = self.offsets()
        self.count.offsets_gone_back += sum(now < then for now, then in zip(offsets, self._offsets, strict=True))
        self._offsets = offsets
        self.count.transactions = sum(offsets)
        self.count.lost = sum(
            len(set(range(offset * RECORDS)) - seen) for offset, seen in zip(offsets, self._seen, strict=True)
        )
        extra = sum(len(seen) - offset * RECORDS for offset, seen in zip(offsets, self._seen, strict=True))
        if extra + self.count.lost:
            self.count.found.append(f"{extra + self.count.lost} records visible beyond the committed offsets")


def said(folder: Path, text: str) -> int:
    """How often the brokers' logs say it."""
    return sum(log.read_text(errors="replace").count(text) for log in folder.glob("kafka/logs/node-*/kafka.log*"))


def double_kill(cluster: KafkaCluster, turn: int, chance: random.Random) -> str:
    """Kill, start, kill again while clients recover, start. Returns what was killed."""
    size = 1 if cluster.brokers == 1 else (cluster.brokers, 1, 2)[turn % 3]
    killed = []
    for _ in range(2):
        victims = chance.sample(cluster.nodes, size)
        for node in victims:
            node.kill()
        killed.append("+".join(str(node.node_id) for node in victims))
        cluster.start()
        time.sleep(chance.uniform(0.0, 2.0))  # somewhere in the clients' recovery
    cluster.wait_ready()
    return ", then ".join(killed)


class Ended(Exception):
    """SIGTERM."""


def hunt(
    brokers: int,
    rounds: int,
    clients: list[str],
    seed: int,
    properties: dict[str, str],
    folder: Path,
    counts: dict[str, Count],
) -> int:
    """Run the rounds, keeping ``counts`` by client; return how many were finished when it was told to end."""
    chance = random.Random(seed)
    if "java" in clients:
        jars = Cache(cache_directory(os.environ)).ensure(manifest().kafka)
        source = Path(__file__).with_name("Load.java")
        clients_jar = next(jars.glob("kafka-clients-*.jar"))
        subprocess.run(["javac", "-cp", str(clients_jar), "-d", str(folder), str(source)], check=True)
    with KafkaCluster(folder / "kafka", brokers, overrides=properties) as cluster:
        prey = [Prey(cluster, client, folder) for client in clients]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        topics = [NewTopic(name, PARTITIONS, cluster.replication) for p in prey for name in (p.source, p.out)]
        for future in admin.create_topics(topics).values():
            future.result(30)
        counts |= {p.client: p.count for p in prey}
        finished = 0
        try:
            for turn in range(rounds):
                began = time.monotonic()
                before = [p.offsets() for p in prey]
                for p in prey:
                    p.start()
                for p, since in zip(prey, before, strict=True):
                    p.count.stalled_rounds += not p.moves(since, RECOVER_S)
                time.sleep(chance.uniform(0.5, 2.0))  # anywhere between two commits
                killed = double_kill(cluster, turn, chance)
                before = [p.offsets() for p in prey]
                for p, since in zip(prey, before, strict=True):
                    p.count.stalled_rounds += not p.moves(since, RECOVER_S)
                for p in prey:
                    p.kill()
                for p in prey:
                    p.judge()
                finished = turn + 1
                say(f"round {turn + 1}/{rounds}: killed {killed}; {time.monotonic() - began:.0f} s; " + summary(prey))
        except Ended:
            say(f"told to end after {finished} rounds")
        finally:
            for p in prey:
                p.close()
        return finished


def summary(prey: list[Prey]) -> str:
    return "; ".join(
        f"{p.client}: {p.count.transactions} transactions, {p.count.hanging} hanging, {p.count.duplicates} doubled, "
        f"{p.count.lost} lost, {p.count.offsets_gone_back} offsets gone back, {p.count.stalled_rounds} stalled"
        for p in prey
    )


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.orphans", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--client", choices=(*CLIENTS, "both"), default="librdkafka")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--property", action="append", default=[], metavar="NAME=VALUE", help="of every broker")
    given = parser.parse_args()
    properties = dict(item.split("=", 1) for item in given.property)
    clients = list(CLIENTS) if given.client == "both" else [given.client]
    folder = Path(tempfile.mkdtemp(prefix="orphans-"))
    failed: str | None = None
    counts: dict[str, Count] = {}
    finished = 0

    def end(*_: object) -> None:
        raise Ended

    signal.signal(signal.SIGTERM, end)
    try:
        finished = hunt(given.brokers, given.rounds, clients, given.seed, properties, folder, counts)
    except (EngineError, LocalStackError, OSError, AssertionError, Ended) as error:
        failed = repr(error)
    skipped, behind = said(folder, SKIPPED), said(folder, BEHIND)
    shutil.rmtree(folder, ignore_errors=True)
    print(
        json.dumps(
            {
                "brokers": given.brokers, "rounds": finished, "seed": given.seed, "failed": failed,
                "properties": properties,
                "markers_skipped": skipped, "coordinators_behind": behind,
                "clients": {name: asdict(count) for name, count in counts.items()},
            }
        )
    )  # fmt: skip
    clean = failed is None and not any(c.hanging or c.duplicates or c.lost or c.found for c in counts.values())
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
