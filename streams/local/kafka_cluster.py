"""Apache Kafka as a cluster of several nodes on loopback, each broker and controller, to be stopped one by one.

    with KafkaCluster(Path("data"), brokers=3) as cluster:
        cluster.bootstrap            # all addresses
        cluster.nodes[0].kill()
        cluster.nodes[0].start()     # same data, same ports

Layout of the folder: stack.lock, ports.json, quorum.json, node-<id>/, logs/node-<id>/.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from streams.local import ports as ports_of
from streams.local.cache import Cache, cache_directory
from streams.local.errors import LocalStackError
from streams.local.kafka import KafkaBroker, Quorum, Voter, random_id
from streams.local.manifest import load
from streams.local.progress import Progress
from streams.local.service import START_TIMEOUT_S
from streams.local.stack import take_folder
from streams.local.unprivileged import temporary_folder

NODE_HEAP_MIB = 256
# Nodes that are stopped together may wait in vain for a quorum that would take their partitions over.
STOP_TOGETHER_S = 15.0
POLL_S = 0.1


class KafkaNode(KafkaBroker):
    """One node. `start` waits until a majority of the nodes runs: start several side by side."""

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers. Raises NotRunningError."""
        self.pause()

    def thaw(self) -> None:
        """SIGCONT after `freeze`. Raises NotRunningError."""
        self.resume()

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return when it is registered and answers. Raises LocalStackError after the timeout."""
        _wait(f"Kafka node {self.node_id} answers", self.answers, timeout_s)


class KafkaCluster:
    """A cluster on one folder. Not started by creating it; `start` or `with` does.

    With three brokers every topic has three copies, two of which must be in sync; one broker is the same as
    in a Stack. Without a folder a temporary one is used and deleted at `close`.
    """

    def __init__(
        self,
        folder: Path | None = None,
        brokers: int = 3,
        *,
        cache: Cache | Path | None = None,
        progress: Progress | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        """`overrides` are server properties for every node. Raises ValueError for an even number of brokers."""
        if brokers < 1 or brokers % 2 == 0:
            raise ValueError("a quorum is an odd number of brokers")
        self.brokers = brokers
        self.replication = min(3, brokers)
        self.nodes: tuple[KafkaNode, ...] = ()
        self._chosen = folder
        self._cache = (
            cache if isinstance(cache, Cache) else Cache(cache or cache_directory(os.environ), progress=progress)
        )
        self._overrides = dict(overrides or {})
        self._folder: Path | None = None
        self._lock: IO[str] | None = None

    def start(self) -> str:
        """Start every node that does not run, side by side, and wait until each answers; the bootstrap servers.

        Raises a LocalStackError; on the first start nothing runs then.
        """
        first = self._lock is None
        if first:
            self._open()
        try:
            self._side_by_side(lambda node: node.start())
        except BaseException:
            if first:
                self.close()
            raise
        return self.bootstrap

    def stop(self) -> None:
        """SIGTERM to all nodes; what waits for a quorum in vain is killed. Data and folder stay ours."""
        self._side_by_side(lambda node: node.stop(STOP_TOGETHER_S))

    def kill(self) -> None:
        """SIGKILL to all nodes at once, as a power cut would. Data and folder stay ours."""
        self._side_by_side(lambda node: node.kill())

    def close(self) -> None:
        """End all nodes, let go of the folder, delete a temporary one. Repeatable.

        By SIGKILL: several nodes that stop together wait for each other, and no data are lost by it.
        """
        if self._lock is None:
            return
        self.kill()
        if self._chosen is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self.nodes, self._folder = (), None
        self._lock.close()
        self._lock = None

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return when every running node answers and every partition has all its copies on running nodes in sync.

        Raises LocalStackError after the timeout.
        """
        running = [node for node in self.nodes if node.running]
        for node in running:
            node.wait_ready(timeout_s)
        _wait("all copies are in sync", lambda: _in_sync(self.bootstrap, {n.node_id for n in running}), timeout_s)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def topic_defaults(self) -> Mapping[str, str]:
        """Settings that make an acknowledged record of an event topic safe: several brokers have copies of it."""
        return KafkaBroker.topic_defaults if self.brokers == 1 else {}

    @property
    def bootstrap(self) -> str:
        """Addresses of all nodes for clients. Raises LocalStackError before the start."""
        if not self.nodes:
            raise LocalStackError("The cluster is not started.")
        return ",".join(node.bootstrap for node in self.nodes)

    def node(self, node_id: int) -> KafkaNode:
        """The node with this id, as Kafka's metadata names it. Raises StopIteration for an unknown one."""
        return next(node for node in self.nodes if node.node_id == node_id)

    def _open(self) -> None:
        folder = (self._chosen or temporary_folder("playhead-kafka-")).expanduser().absolute()
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = take_folder(folder)
        self._folder = folder
        ids = range(1, self.brokers + 1)
        for node_id in ids:
            KafkaNode.stop_stale(folder / f"node-{node_id}")
        ports = ports_of.remembered(
            folder / "ports.json", [f"{role}-{i}" for i in ids for role in ("broker", "controller")], {}
        )
        quorum = _quorum(folder / "quorum.json", [ports[f"controller-{i}"] for i in ids]) if self.brokers > 1 else None
        jars = load().kafka
        self.nodes = tuple(
            KafkaNode(
                folder / f"node-{i}",
                folder / "logs" / f"node-{i}",
                port=ports[f"broker-{i}"],
                controller_port=ports[f"controller-{i}"],
                jars=lambda: self._cache.ensure(jars),
                node_id=i,
                replication=self.replication,
                quorum=quorum,
                heap_mib=NODE_HEAP_MIB,
                overrides=self._overrides,
            )
            for i in ids
        )

    def _side_by_side(self, act: Callable[[KafkaNode], None]) -> None:
        if not self.nodes:
            return
        with ThreadPoolExecutor(len(self.nodes), "kafka-cluster") as pool:
            failures: Sequence[BaseException | None] = [
                job.exception() for job in [pool.submit(act, node) for node in self.nodes]
            ]
        for error in failures:
            if error is not None:
                raise error


def _quorum(path: Path, controller_ports: Sequence[int]) -> Quorum:
    """The quorum of the folder, made once. Raises LocalStackError when its ports or its size are others now."""
    if path.exists():
        known = json.loads(path.read_text("utf-8"))
        quorum = Quorum(known["cluster_id"], tuple(Voter(**voter) for voter in known["voters"]))
        if [voter.controller_port for voter in quorum.voters] != list(controller_ports):
            raise LocalStackError(
                f"{path.parent} holds a cluster on the controller ports "
                f"{[voter.controller_port for voter in quorum.voters]}, and these are taken by others or too few. "
                "Free them, or choose another folder."
            )
        return quorum
    quorum = Quorum(random_id(), tuple(Voter(i, port, random_id()) for i, port in enumerate(controller_ports, 1)))
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(asdict(quorum)), "utf-8")
    os.replace(temporary, path)
    return quorum


def _in_sync(bootstrap: str, running: set[int]) -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        known = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=2)
    except KafkaException:
        return False
    return running <= known.brokers.keys() and all(
        partition.leader in running and set(partition.replicas) & running <= set(partition.isrs)
        for topic in known.topics.values()
        for partition in topic.partitions.values()
    )


def _wait(what: str, holds: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() >= deadline:
            raise LocalStackError(f"Not within {timeout_s:.0f} s: {what}.")
        time.sleep(POLL_S)
