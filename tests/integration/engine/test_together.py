"""Several apps, each its own group, in one process or apart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streams.engine import EXIT_CLEAN, EXIT_CRASH, EXIT_REFUSED, EngineConfig, ensure_changelogs
from streams.engine.batch import TableSpec
from streams.engine.inspection import look_committed, look_local
from streams.local.processes import wait_until
from tests import kafka

from .cluster import REPOSITORY

pytestmark = pytest.mark.services

PARTITIONS = 3
APPS = ("one", "two")


class Bench:
    """Topics and processes of both apps."""

    def __init__(self, bootstrap: str, prefix: str, folder: Path) -> None:
        self.bootstrap, self.prefix, self.folder = bootstrap, prefix, folder
        self.processes: list[subprocess.Popen[bytes]] = []
        admin = AdminClient({"bootstrap.servers": bootstrap})
        names = [f"{prefix}-{app}-{role}" for app in APPS for role in ("source", "out")]
        for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
            future.result(30)
        for app in APPS:
            ensure_changelogs(self.config(app), [self.table(app).changelog], partitions=PARTITIONS)
        self._askers = {app: Consumer({"bootstrap.servers": bootstrap, "group.id": f"{prefix}-{app}"}) for app in APPS}

    def config(self, app: str) -> EngineConfig:
        return EngineConfig(
            bootstrap=self.bootstrap, group=f"{self.prefix}-{app}", state_dir=self.folder / "state" / app
        )

    def table(self, app: str) -> TableSpec:
        return TableSpec.of(f"{self.prefix}-{app}", "counts")

    @property
    def gate(self) -> Path:
        return self.folder / "gate"

    def produce(self, app: str, records: int, value: bytes = b"v") -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for number in range(records):
            producer.produce(f"{self.prefix}-{app}-source", value, b"k%03d" % (number % 60), number % PARTITIONS)
        assert producer.flush(30) == 0

    def start(self, *apps: str, **settings: Any) -> subprocess.Popen[bytes]:
        given = {
            "bootstrap": self.bootstrap, "prefix": self.prefix, "apps": apps, "gate": str(self.gate),
            "state_dir": str(self.folder / "state"), **settings,
        }  # fmt: skip
        with (self.folder / "worker.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.engine.together_worker"],
                cwd=REPOSITORY, stdout=log, stderr=log, env={**os.environ, "TOGETHER_WORKER": json.dumps(given)},
            )  # fmt: skip
        self.processes.append(process)
        return process

    def said(self) -> str:
        return (self.folder / "worker.log").read_text(errors="replace")

    def tail(self) -> str:
        return self.said()[-4000:]

    def committed(self, app: str, partition: int) -> int:
        asked = [TopicPartition(f"{self.prefix}-{app}-source", partition)]
        return max(0, kafka.committed(self._askers[app], asked)[0].offset)

    def wait_committed(self, app: str, partitions: list[int] | None = None) -> None:
        """Wait until all there is in these partitions is processed."""
        for partition in partitions if partitions is not None else range(PARTITIONS):
            end = kafka.watermarks(self._askers[app], f"{self.prefix}-{app}-source", partition)[1]
            assert wait_until(partial(self._reached, app, partition, end), 60), f"{app}/{partition}\n{self.tail()}"

    def _reached(self, app: str, partition: int, end: int) -> bool:
        return self.committed(app, partition) >= end

    def wait_begun(self, app: str) -> None:
        """Wait until something is processed."""

        def begun() -> bool:
            return sum(self.committed(app, partition) for partition in range(PARTITIONS)) > 100

        assert wait_until(begun, 60), f"{app}\n{self.tail()}"

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        process.send_signal(signal.SIGTERM)
        return process.wait(40)

    def violations(self, app: str) -> list[str]:
        """Compare outputs, changelog and local state with a count of the source."""
        wanted: dict[bytes, list[bytes]] = defaultdict(list)
        for message in kafka.read_all(self.bootstrap, f"{self.prefix}-{app}-source", PARTITIONS):
            key = message.key() or b""
            wanted[key].append(b"%d" % (len(wanted[key]) + 1))
        got: dict[bytes, list[bytes | None]] = defaultdict(list)
        for message in kafka.read_all(self.bootstrap, f"{self.prefix}-{app}-out", PARTITIONS):
            got[message.key() or b""].append(message.value())
        problems = [f"{app}: outputs of {key!r}" for key in wanted.keys() | got.keys() if wanted[key] != got[key]]
        rows: dict[bytes, bytes] = {}
        local: dict[bytes, bytes] = {}
        for partition in range(PARTITIONS):
            rows |= look_committed(self.config(app), "counts", partition).scan(b"")
            with look_local(self.config(app), "counts", partition) as look:
                local |= look.scan(b"")
        table = {key: counts[-1] for key, counts in wanted.items()}
        problems += [
            f"{app}: {name} differs" for name, found in (("changelog", rows), ("store", local)) if found != table
        ]
        return problems

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait(30)
        for asker in self._askers.values():
            asker.close()


@pytest.fixture
def bench(kafka_bootstrap: str, topic_prefix: str, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(kafka_bootstrap, topic_prefix, tmp_path)
    yield made
    made.close()


def test_given_two_apps_in_one_process_kills_lose_and_double_nothing_and_they_can_be_parted(bench: Bench) -> None:
    for app in APPS:
        bench.produce(app, 1500)
    process = bench.start(*APPS)
    for app in APPS:
        bench.wait_begun(app)
    process.kill()
    process.wait(30)
    process = bench.start(*APPS)
    for app in APPS:
        bench.produce(app, 300)
        bench.wait_committed(app)
    assert bench.stop(process) == EXIT_CLEAN, bench.tail()
    apart = [bench.start(app) for app in APPS]
    for app in APPS:
        bench.produce(app, 300)
        bench.wait_committed(app)
    assert [bench.stop(process) for process in apart] == [EXIT_CLEAN] * 2, bench.tail()
    assert [bench.violations(app) for app in APPS] == [[], []]


def test_given_a_partition_that_does_not_go_on_then_all_others_of_both_apps_do(bench: Bench) -> None:
    """A tiny buffer, so that what the waiting partition holds fills it if it can."""
    process = bench.start(*APPS, waits="one/0", max_buffered=100)
    for app in APPS:
        bench.produce(app, 2400)
    bench.wait_committed("one", [1, 2])
    bench.wait_committed("two")
    assert bench.committed("one", 0) == 0
    bench.gate.touch()
    bench.wait_committed("one")
    assert bench.stop(process) == EXIT_CLEAN, bench.tail()
    assert [bench.violations(app) for app in APPS] == [[], []]


def test_given_a_failing_app_then_the_process_ends_with_its_exit_code_and_the_other_loses_nothing(bench: Bench) -> None:
    process = bench.start(*APPS, raises_at="bad")
    bench.produce("two", 900)
    bench.wait_committed("two")
    bench.produce("one", 1, b"bad")
    assert process.wait(60) == EXIT_CRASH, bench.tail()
    assert f"RuntimeError: a bug of app one; agent counting at {bench.prefix}-one-source[0]@" in bench.said()
    assert "giving away partitions" in bench.said(), "the other app left its group"
    bench.produce("two", 300)
    again = bench.start("two")
    bench.wait_committed("two")
    assert bench.stop(again) == EXIT_CLEAN, bench.tail()
    assert bench.violations("two") == []


def test_given_two_apps_of_one_group_then_exit_78(bench: Bench) -> None:
    process = bench.start("one", "one")
    assert process.wait(60) == EXIT_REFUSED, bench.tail()
    assert "two apps have the group" in bench.tail()
