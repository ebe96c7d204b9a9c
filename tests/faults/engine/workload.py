"""What is written to the two sources of a fault case, and what happened to each attempt."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from random import Random
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

POISON, DELETE, PLAYED, LISTED = b"!", b"D", b"P", b"L"

#: Fate of an attempt, by its index: what the producer was told, which is all that the oracle may trust.
PENDING, OK, UNKNOWN = 1, 2, 3
TICK_S = 0.05
FLUSH_S = 180.0


class Workload:
    """Seeded records: 60 % source a (3 % repeated numbers, poison), 40 % source b (5 % deletions).

    A value is 8 bytes number, one byte kind, then the index of the attempt in decimal.
    """

    def __init__(self, chance: Random, *, keys: int = 200, poison: float = 0.0) -> None:
        self._chance = chance
        self._keys = keys
        self.poison = poison
        self._numbers: dict[bytes, int] = {}
        self.made = 0

    def next(self) -> tuple[str, bytes, bytes]:
        """Return role of the topic (a or b), key, value."""
        chance, index = self._chance, self.made
        self.made += 1
        key = b"k%06d" % chance.randrange(self._keys)
        if chance.random() >= 0.6:
            return "b", key, encode(index, DELETE if chance.random() < 0.05 else LISTED, index)
        kind = POISON if chance.random() < self.poison else PLAYED
        if kind == PLAYED and (key not in self._numbers or chance.random() >= 0.03):
            self._numbers[key] = self._numbers.get(key, 0) + 1
        return "a", key, encode(self._numbers.get(key, 0), kind, index)


def encode(number: int, kind: bytes, index: int) -> bytes:
    return number.to_bytes(8, "little") + kind + b"%d" % index


def index_of(value: bytes) -> int:
    """The index of the attempt that wrote a value."""
    return int(value[9:])


class Load:
    """Writes at a steady rate from a thread of its own, and keeps the history of its attempts."""

    def __init__(
        self, bootstrap: str, topics: Mapping[str, str], workload: Workload, *, rate: float, records: int
    ) -> None:
        """``records`` are written at least; it goes on at ``rate`` a second until ``finish``."""
        self.history = bytearray()
        self._topics = dict(topics)
        self._workload = workload
        self._rate = rate
        self._records = records
        # One request in flight: with more, a new partition was seen to lose records it acknowledged.
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "max.in.flight.requests.per.connection": 1,
            "linger.ms": 5, "partitioner": "murmur2_random", "message.timeout.ms": 150_000, "log_level": 0,
        }  # fmt: skip
        self._producer = Producer(settings)
        self._quit = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    @property
    def attempted(self) -> int:
        return len(self.history)

    def count(self, fate: int) -> int:
        return self.history.count(fate)

    def start(self) -> None:
        self._thread.start()

    def burst(self, records: int, *, poison: float) -> None:
        """Write ``records`` at once, ``poison`` of source a among them unusable."""
        with self._writing:
            before, self._workload.poison = self._workload.poison, poison
            for _ in range(records):
                self._write()
            self._workload.poison = before

    def finish(self) -> None:
        """Return when at least the wanted records are written and the fate of each is known or given up."""
        while self._thread.is_alive() and self.attempted < self._records:
            self._thread.join(TICK_S)
        self.stop()
        self._producer.flush(FLUSH_S)
        self.history = bytearray(UNKNOWN if fate == PENDING else fate for fate in self.history)

    def stop(self) -> None:
        self._quit.set()
        if self._thread.ident is not None:
            self._thread.join(30)

    def _run(self) -> None:
        began, due = time.monotonic(), 0.0
        while not self._quit.wait(TICK_S):
            due += self._rate * (time.monotonic() - began)
            began = time.monotonic()
            with self._writing:
                for _ in range(int(due)):
                    self._write()
            due -= int(due)
            self._producer.poll(0)

    def _write(self) -> None:
        role, key, value = self._workload.next()
        index = len(self.history)
        self.history.append(PENDING)

        def told(error: KafkaError | None, _: Message) -> None:
            self.history[index] = UNKNOWN if error is not None else OK

        while True:
            try:
                self._producer.produce(self._topics[role], value, key, on_delivery=told)
                return
            except BufferError:
                self._producer.poll(TICK_S)
