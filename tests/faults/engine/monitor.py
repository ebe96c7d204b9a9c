"""Looks at a run from outside, twice a second: committed offsets, ends of the logs, memory of the workers."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from .evidence import Sample, Topics

EVERY_S = 0.5
ASK_S = 3.0
MEMORY_EVERY_S = 5.0
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class Monitor:
    """Samples until stopped. A question that is not answered (a broker is away) leaves no sample."""

    def __init__(
        self, bootstrap: str, group: str, topics: Topics, partitions: int, pids: Callable[[], Mapping[int, int]]
    ) -> None:
        self.samples: list[Sample] = []
        #: Resident memory in MiB, oldest first, by (worker, process id).
        self.memory: dict[tuple[int, int], list[float]] = defaultdict(list)
        self._pids = pids
        numbers = range(partitions)
        self._sources = [TopicPartition(topic, p) for topic in (topics.a, topics.b) for p in numbers]
        self._ends = [*self._sources, *(TopicPartition(topics.out, p) for p in numbers)]
        self._bootstrap, self._group = bootstrap, group
        self._asker, self._admin = self._clients()
        self._quit = threading.Event()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Repeatable."""
        if self._thread.is_alive():
            self._quit.set()
            self._thread.join(60)
            self._asker.close()

    @property
    def lag(self) -> int | None:
        """Records waiting in the newest sample, None before the first."""
        if not self.samples:
            return None
        newest = self.samples[-1]
        places = [(tp.topic, tp.partition) for tp in self._sources]
        return sum(newest.ends[at] - max(0, newest.committed[at]) for at in places)

    def _run(self) -> None:
        memory_at = 0.0
        while not self._quit.wait(EVERY_S):
            if time.monotonic() - memory_at >= MEMORY_EVERY_S:
                memory_at = time.monotonic()
                self._weigh()
            try:
                self.samples.append(self._look())
            except (KafkaException, TimeoutError):
                # Clients that met a broker's outage were seen to answer nothing any more.
                self._asker.close()
                self._asker, self._admin = self._clients()

    def _clients(self) -> tuple[Consumer, AdminClient]:
        # Read uncommitted: pending offsets of running transactions must not make the question wait.
        asker = {"group.id": self._group, "isolation.level": "read_uncommitted"}
        common: dict[str, Any] = {"bootstrap.servers": self._bootstrap, "log_level": 0}
        return Consumer({**common, **asker}), AdminClient(common)

    def _look(self) -> Sample:
        committed = {}
        for place in self._asker.committed(self._sources, ASK_S):
            if place.error is not None:
                raise KafkaException(place.error)
            committed[place.topic, place.partition] = place.offset
        futures = self._admin.list_offsets(dict.fromkeys(self._ends, _LATEST), request_timeout=ASK_S)
        ends = {(tp.topic, tp.partition): future.result(ASK_S + 1).offset for tp, future in futures.items()}
        if min(ends.values()) < 0:
            raise TimeoutError("a partition has no leader that tells its end")
        return Sample(time.monotonic(), committed, ends)

    def _weigh(self) -> None:
        for number, pid in self._pids().items():
            try:
                fields = Path(f"/proc/{pid}/status").read_text().splitlines()
            except OSError:
                continue
            for line in fields:
                if line.startswith("VmRSS:"):
                    self.memory[number, pid].append(int(line.split()[1]) / 1024)
