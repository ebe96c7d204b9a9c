"""Records of one unit that are fetched and not yet delivered. Filled by the poll thread, emptied by the loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

from confluent_kafka import Message

from .errors import Crash


class Buffer:
    """Keeps the order per topic; takes from the topics in turn, so none starves another."""

    def __init__(self, topics: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, list[Message]] = {topic: [] for topic in topics}
        self._expected: dict[str, int] = {}
        self._turn = 0
        self.size = 0
        #: Monotonic time at which the oldest waiting record came in.
        self.since = 0.0

    def expect(self, topic: str, offset: int) -> None:
        """Say where consumption of ``topic`` begins."""
        self._expected[topic] = offset

    def expected(self, topic: str) -> int:
        """Return the offset to read next."""
        return self._expected[topic]

    def add(self, topic: str, records: Sequence[Message]) -> None:
        """Append. Raises Crash when offsets go back: something moved the consumer behind our back."""
        first, last = records[0].offset(), records[-1].offset()
        if first is None or last is None:
            raise Crash(f"{topic}: a record without an offset")
        with self._lock:
            expected = self._expected.get(topic)
            if expected is not None and first < expected:
                raise Crash(f"{topic}: consumption went back from {expected} to {first}")
            self._expected[topic] = last + 1
            if not self.size:
                self.since = time.monotonic()
            self._records[topic].extend(records)
            self.size += len(records)

    def take(self, most: int) -> tuple[str, list[Message]] | None:
        """Remove and return up to ``most`` records of the next topic that has any."""
        with self._lock:
            topics = list(self._records)
            for step in range(1, len(topics) + 1):
                turn = (self._turn + step) % len(topics)
                waiting = self._records[topics[turn]]
                if waiting:
                    self._turn = turn
                    records = waiting[:most]
                    del waiting[:most]
                    self.size -= len(records)
                    self.since = time.monotonic()
                    return topics[turn], records
        return None

    def put_back(self, topic: str, records: Sequence[Message]) -> None:
        """Undo a take: the records come first again."""
        with self._lock:
            self._records[topic] = [*records, *self._records[topic]]
            self.size += len(records)
