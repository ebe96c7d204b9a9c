"""Topics, a seeded workload and worker processes of one fault test."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streams.engine import EngineConfig, ensure_changelogs
from tests import kafka

from . import oracle

#: Multiplies record counts and faults; ``make faults`` sets it to more.
SCALE = int(os.environ.get("ENGINE_FAULTS_SCALE", "1"))
REPOSITORY = Path(__file__).resolve().parents[3]


class Cluster:
    """Everything is named after ``group``; close it to end what still runs."""

    def __init__(self, bootstrap: str, group: str, folder: Path, *, partitions: int = 4, seed: int = 7) -> None:
        self.bootstrap = bootstrap
        self.group = group
        self.folder = folder
        self.partitions = partitions
        self.seed = seed
        self.random = random.Random(seed)
        self.a, self.b, self.out, self.dead = (f"{group}-{role}" for role in ("a", "b", "out", "dead"))
        self.changelogs = {table: f"{group}-{table}-changelog" for table in ("progress", "items")}
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        #: Asks for the group's offsets without ever joining it.
        self._asker = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        self.config: dict[str, Any] = {"session_timeout": 6.0, "max_batch": 100}
        self._next: dict[bytes, int] = {}
        #: Where in its log the current life of a worker begins.
        self._lives: dict[int, int] = {}

    def create_topics(self, *, changelogs: bool = True) -> None:
        topics = [NewTopic(name, self.partitions, 1) for name in (self.a, self.b, self.out, self.dead)]
        for future in self.admin.create_topics(topics).values():
            future.result(30)
        if changelogs:
            config = EngineConfig(bootstrap=self.bootstrap, group=self.group, state_dir=self.folder)
            ensure_changelogs(config, self.changelogs.values(), partitions=self.partitions)

    def produce(self, records: int, *, keys: int = 200, poison: float = 0.0, pause: float = 0.0) -> None:
        """Write a seeded mix: 60 % source a (3 % repeated numbers), 40 % source b (5 % deletions)."""
        chance = self.random
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5,
                             "partitioner": "murmur2_random"})  # fmt: skip
        for index in range(records):
            key = b"k%05d" % chance.randrange(keys)
            if chance.random() < 0.6:
                topic, kind = self.a, b"P"
                if chance.random() < poison:
                    kind = b"!"
                elif key not in self._next or chance.random() >= 0.03:
                    self._next[key] = self._next.get(key, 0) + 1
            else:
                topic, kind = self.b, b"D" if chance.random() < 0.05 else b"L"
            number = self._next.get(key, 0) if topic == self.a else index
            producer.produce(topic, number.to_bytes(8, "little") + kind + b"%d" % index, key)
            if index % 100 == 99:
                producer.poll(0)
                if pause:
                    time.sleep(pause)
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

    def tail(self) -> str:
        logs = sorted(self.folder.glob("worker-*.log"))
        return "\n".join(f"--- {log.name}\n" + log.read_text(errors="replace")[-3000:] for log in logs)

    def kill(self, number: int) -> None:
        self.workers[number].kill()
        self.workers[number].wait(30)

    def stop(self, number: int, timeout: float = 40.0) -> int:
        """SIGTERM, once the worker can handle it; return the exit code."""

        def handles_signals() -> bool:
            return (
                self.workers[number].poll() is not None
                or b"Ready" in self.log(number).read_bytes()[self._lives[number] :]
            )

        self.wait("the worker is up", handles_signals)
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
        return {
            (topic, p): kafka.watermarks(self._asker, topic, p)[1]
            for topic in (self.a, self.b)
            for p in range(self.partitions)
        }

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

    def violations(self) -> list[str]:
        return oracle.violations(
            self.bootstrap, a=self.a, b=self.b, out=self.out, dead=self.dead, changelogs=self.changelogs,
            partitions=self.partitions,
        )  # fmt: skip

    def store_violations(self) -> list[str]:
        states = sorted(self.folder.glob("state-*"))
        return oracle.store_violations(self.bootstrap, states, a=self.a, b=self.b, partitions=self.partitions)

    def close(self) -> None:
        for process in self.workers.values():
            if process.poll() is None:
                process.kill()
                process.wait(30)
        self._asker.close()
