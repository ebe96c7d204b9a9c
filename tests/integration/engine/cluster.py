"""Topics, a seeded workload and worker processes of one fault test."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streams.engine import EngineConfig, ensure_changelogs
from streams.runtime.kafka import ASKING
from tests import kafka
from tests.faults.engine.evidence import Intervention, Topics
from tests.faults.engine.verdict import judge
from tests.faults.engine.workload import Workload

#: Multiplies record counts and faults; ``make faults`` sets it to more.
SCALE = int(os.environ.get("ENGINE_FAULTS_SCALE", "1"))
REPOSITORY = Path(__file__).resolve().parents[3]


class Cluster:
    """Everything is named after ``group``; close it to end what still runs."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        folder: Path,
        *,
        partitions: int = 4,
        seed: int = 7,
        replication: int = 1,
    ) -> None:
        self.bootstrap = bootstrap
        self.group = group
        self.folder = folder
        self.partitions = partitions
        self.replication = replication
        self.seed = seed
        self.random = random.Random(seed)
        self.a, self.b, self.out, self.dead = (f"{group}-{role}" for role in ("a", "b", "out", "dead"))
        self.changelogs = {table: f"{group}-{table}-changelog" for table in ("progress", "items")}
        self.topics = Topics(self.a, self.b, self.out, self.dead, self.changelogs)
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._asker = self._new_asker()
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        # Stores are written often, so that faults meet them in all states.
        self.config: dict[str, Any] = {"session_timeout": 6.0, "max_batch": 100, "flush_interval": 5.0}
        self._workloads: dict[int, Workload] = {}
        #: Where in its log the current life of a worker begins.
        self._lives: dict[int, int] = {}

    def _new_asker(self) -> Consumer:
        """Asks for the group's offsets without ever joining it. Offsets of open transactions do not make it wait."""
        return Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": self.group, "isolation.level": "read_uncommitted",
             "log_level": 0, **ASKING}
        )  # fmt: skip

    def ask_anew(self) -> None:
        """A topic was created again: a client that knew the old one goes on saying that it has no partitions."""
        self._asker.close()
        self._asker = self._new_asker()

    def create_topics(self, *, changelogs: bool = True) -> None:
        topics = [NewTopic(name, self.partitions, self.replication) for name in (self.a, self.b, self.out, self.dead)]
        for future in self.admin.create_topics(topics).values():
            future.result(30)
        if changelogs:
            config = EngineConfig(bootstrap=self.bootstrap, group=self.group, state_dir=self.folder)
            ensure_changelogs(
                config, self.changelogs.values(), partitions=self.partitions, replication=self.replication
            )

    def produce(self, records: int, *, keys: int = 200, poison: float = 0.0) -> None:
        """Write a seeded mix, see Workload; calls go on from each other."""
        workload = self._workloads.setdefault(keys, Workload(self.random, keys=keys))
        workload.poison = poison
        topics = {"a": self.a, "b": self.b}
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5,
                             "partitioner": "murmur2_random"})  # fmt: skip
        for index in range(records):
            role, key, value = workload.next()
            producer.produce(topics[role], value, key)
            if index % 100 == 99:
                producer.poll(0)
        assert producer.flush(60) == 0

    def start(self, number: int = 0, **settings: Any) -> subprocess.Popen[bytes]:
        """Start a worker; ``config`` entries in ``settings`` extend the cluster's."""
        config = {**self.config, **settings.pop("config", {})}
        given = {
            "bootstrap": self.bootstrap, "group": self.group, "state_dir": str(self.state(number)),
            "a": self.a, "b": self.b, "out": self.out, "dead": self.dead, "config": config, **settings,
        }  # fmt: skip
        with self.log(number).open("ab") as log:
            self._lives[number] = log.tell()
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.engine.worker"],
                cwd=REPOSITORY, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "ENGINE_WORKER": json.dumps(given)},
            )  # fmt: skip
        self.workers[number] = process
        return process

    def state(self, number: int) -> Path:
        return self.folder / f"state-{number}"

    def log(self, number: int) -> Path:
        return self.folder / f"worker-{number}.log"

    def said(self, number: int, text: str) -> bool:
        return text in self.log(number).read_text(errors="replace")

    def is_up(self, number: int) -> bool:
        """Whether its current life handles signals."""
        return "Ready" in self.last_words(number)

    def owned(self, number: int) -> set[int]:
        """The partitions its current life was assigned last."""
        found = re.findall(r"assigned partitions \[(.*?)\]", self.last_words(number))
        return {int(text) for text in found[-1].split(",") if text.strip()} if found else set()

    def last_words(self, number: int) -> str:
        """The log of a worker's current or last life."""
        return self.log(number).read_bytes()[self._lives[number] :].decode(errors="replace")

    def said_now(self, number: int, text: str) -> bool:
        return text in self.last_words(number)

    def epitaph(self, number: int) -> str:
        """Of the log of its last life what says why it ended."""
        lines = self.last_words(number).splitlines()
        return "\n".join(line[:600] for line in ([line for line in lines if "CRITICAL" in line][:5] or lines[-5:]))

    def tail(self) -> str:
        logs = sorted(self.folder.glob("worker-*.log"))
        return "\n".join(f"--- {log.name}\n" + log.read_text(errors="replace")[-3000:] for log in logs)

    def kill(self, number: int) -> None:
        self.workers[number].kill()
        self.workers[number].wait(30)

    def stop(self, number: int, timeout: float = 40.0) -> int:
        """SIGTERM, once the worker can handle it; return the exit code."""

        self.wait("the worker is up", lambda: self.workers[number].poll() is not None or self.is_up(number))
        self.workers[number].send_signal(signal.SIGTERM)
        return self.exit_code(number, timeout)

    def exit_code(self, number: int, timeout: float = 60.0) -> int:
        try:
            return self.workers[number].wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"worker {number} does not end\n{self.tail()}") from None

    def wipe(self, number: int) -> None:
        shutil.rmtree(self.state(number), ignore_errors=True)

    def committed(self) -> dict[tuple[str, int], int]:
        # Not by the admin client: its list_consumer_group_offsets crashed the interpreter (SIGSEGV) while
        # a new broker's group coordinator was still being made.
        wanted = [TopicPartition(topic, p) for topic in (self.a, self.b) for p in range(self.partitions)]
        found = kafka.committed(self._asker, wanted)
        return {(tp.topic, tp.partition): tp.offset for tp in found}

    def ends(self) -> dict[tuple[str, int], int]:
        return self.ends_of((self.a, self.b))

    def ends_of(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        return {(topic, p): self.end(topic, p) for topic in topics for p in range(self.partitions)}

    def end(self, topic: str, partition: int) -> int:
        return kafka.watermarks(self._asker, topic, partition)[1]

    def progressed(self) -> int:
        """Records committed so far."""
        return sum(max(0, offset) for offset in self.committed().values())

    def wait(self, what: str, holds: Callable[[], bool], timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        while not holds():
            assert time.monotonic() < deadline, f"{what}: not within {timeout} s\n{self.tail()}"
            time.sleep(0.1)

    def wait_progress(self, records: int, timeout: float = 60.0, *, since: int | None = None) -> None:
        """Wait for ``records`` to be committed, counted from ``since`` or from now."""
        goal = (self.progressed() if since is None else since) + records
        self.wait(f"{records} more records", lambda: self.progressed() >= goal, timeout)

    def wait_drained(self, timeout: float = 90.0, *, revive: bool = False) -> None:
        ends = self.ends()

        def drained() -> bool:
            if revive:
                self.revive()
            committed = self.committed()
            return all(committed.get(at, 0) >= end for at, end in ends.items() if end)

        self.wait("everything processed", drained, timeout)

    def revive(self) -> list[int]:
        """Start dead workers again; return the exit codes found."""
        codes = []
        for number, process in list(self.workers.items()):
            code = process.poll()
            if code is not None:
                codes.append(code)
                self.start(number)
        return codes

    def violations(self, *, stores: bool = False, interventions: Sequence[Intervention] = ()) -> list[str]:
        """The oracle's findings; with ``stores``, workers have stopped cleanly and local copies are judged as well.

        ``interventions``: operators' in the group's offsets, but for deletions, which cost nothing.
        """
        states = sorted(self.folder.glob("state-*")) if stores else []
        return judge(
            self.bootstrap, self.group, self.topics, self.partitions, self.committed(), states=states,
            interventions=interventions,
        ).texts()  # fmt: skip

    def close(self) -> None:
        for process in self.workers.values():
            if process.poll() is None:
                process.kill()
                process.wait(30)
        self._asker.close()
