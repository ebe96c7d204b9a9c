"""Workers that run until they are stopped or killed, traffic for them, and an eye on what comes out."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

from streams.engine import EngineConfig, ensure_changelogs

from .broker import PARTITIONS, Topics, client
from .engine_job import Job, Watched, job_coders
from .processes import REPOSITORY, worker_command

START_PATIENCE_S = 90.0
TICK_S = 0.005


class Worker:
    """A process of the engine with the bench job. ``events`` are its lines, see engine_workers.Tell."""

    def __init__(self, settings: dict[str, Any], log: Path) -> None:
        self.started = time.time()
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                worker_command("live", settings), cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._log = log
        self._changed = threading.Condition()
        self.events: list[dict[str, Any]] = []
        self._ended = False
        self._process = psutil.Process(self.process.pid)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.events.append(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self, event: str, count: int, patience_s: float = START_PATIENCE_S) -> list[dict[str, Any]]:
        """The first ``count`` events of that kind. Raises TimeoutError with the worker's log."""

        def enough() -> bool:
            return self._ended or len(self.told(event)) >= count

        with self._changed:
            if not self._changed.wait_for(enough, patience_s) or len(self.told(event)) < count:
                raise TimeoutError(f"no {count} x {event!r}:\n{self._log.read_text(errors='replace')[-3000:]}")
        return self.told(event)[:count]

    def told(self, event: str) -> list[dict[str, Any]]:
        """All events of that kind so far."""
        return [each for each in self.events if each["event"] == event]

    def cpu_s(self) -> float:
        """CPU seconds so far."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def rss_mib(self) -> float:
        """Resident size now."""
        return float(self._process.memory_info().rss) / (1 << 20)

    def end(self, how: signal.Signals = signal.SIGTERM) -> float:
        """Signal the process, wait for its end, return when it was signalled."""
        at = time.time()
        if self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(60)
        return at

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGKILL)
        # Nobody else holds the other end: the listener comes to the end of the lines.
        self._listener.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Traffic:
    """Records at an even ``per_s``, all keys in turn, until ``close``. Their ``at`` is when they were sent, ns.

    Sent with librdkafka's own linger of 5 ms, so a latency measured from ``at`` has that in it.
    """

    def __init__(self, bootstrap: str, topic: str, per_s: int, keys: int = 1_000) -> None:
        self._producer = Producer({**client(bootstrap), "partitioner": "murmur2_random"})
        self._topic, self._per_s, self._keys = topic, per_s, keys
        self._encode = Job().encode_watched
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._stop.wait(TICK_S):
            due = int((time.monotonic() - began) * self._per_s)
            for number in range(sent, due):
                value = watched(number, number % self._keys, time.time_ns())
                self._producer.produce(self._topic, self._encode(value, b""), f"key-{number % self._keys}".encode())
            sent = due
            self._producer.poll(0)

    def close(self) -> None:
        """Stop sending; what was sent is acknowledged."""
        self._stop.set()
        self._thread.join()
        self._producer.flush(30)


class Watcher:
    """Reads a topic as a read_committed consumer would. ``seen``: (partition, sent ns, seen ns) of each record."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {**client(bootstrap), "group.id": f"{topic}-watcher", "isolation.level": "read_committed",
             "enable.auto.commit": False, "fetch.wait.max.ms": 500, "fetch.error.backoff.ms": 5}
        )  # fmt: skip
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        self._decode = job_coders().decode["Progress", 1]
        self.seen: list[tuple[int, int, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            first = self._consumer.poll(0.2)
            if first is None:
                continue
            for message in [first, *self._consumer.consume(1_000, 0)]:
                value, partition, now = message.value(), message.partition(), time.time_ns()
                if message.error() is None and value is not None and partition is not None:
                    self.seen.append((partition, self._decode(value, 0).at, now))

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join()
        self._consumer.close()


def watched(number: int, key: int, at: int) -> Watched:
    """A record of the job."""
    return Watched(
        event_id=f"{number:016x}", user=f"user-{key % 997:05d}", media=f"media-{key:07d}",
        position_ms=number % 7_200_000, duration_ms=7_200_000, kind="progress", device=f"device-{key % 5}", at=at,
    )  # fmt: skip


def job_settings(topics: Topics, folder: Path, name: str, worker: str = "1") -> dict[str, Any]:
    """Settings of a live worker; made with its topics and its changelog unless they are there."""
    group = topics.name(name)
    if topics.name(f"{name}-source") not in topics.made:
        source, out = topics.make(f"{name}-source"), topics.make(f"{name}-out")
        config = EngineConfig(bootstrap=topics.bootstrap, group=group, state_dir=folder)
        ensure_changelogs(config, [f"{group}-progress-changelog"], partitions=PARTITIONS)
    else:
        source, out = topics.name(f"{name}-source"), topics.name(f"{name}-out")
    return {
        "bootstrap": topics.bootstrap, "source": source, "out": out, "group": group,
        "state_dir": os.fspath(folder / name / worker), "compiled": True,
    }  # fmt: skip


@contextlib.contextmanager
def flowing(topics: Topics, settings: dict[str, Any], per_s: int) -> Iterator[Watcher]:
    """Traffic into the source and an eye on the output, while the block runs."""
    watcher = Watcher(topics.bootstrap, settings["out"])
    traffic = Traffic(topics.bootstrap, settings["source"], per_s)
    try:
        yield watcher
    finally:
        traffic.close()
        watcher.close()
