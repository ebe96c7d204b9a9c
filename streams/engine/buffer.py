"""Records of one unit that are fetched and not yet delivered. Filled by the poll thread, emptied by the loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

from confluent_kafka import Message

from .errors import Crash

#: Limits are numbers of records. Where the mean value is larger than this, they count as so many of this size.
RECORD_BYTES = 4_096


class Buffer:
    """Keeps the order per topic; takes from the topics in turn, so none starves another."""

    def __init__(self, topics: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, list[Message]] = {topic: [] for topic in topics}
        self._bytes = dict.fromkeys(self._records, 0)
        self._expected: dict[str, int] = {}
        self._turn = 0
        self.size = 0
        #: What the records count against a limit: as many as they are, or more, see RECORD_BYTES.
        self.weight = 0
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
            self._add(topic, len(records), sum(map(len, records)))

    def take(self, most: int) -> tuple[str, list[Message]] | None:
        """Remove and return up to ``most`` records of the next topic that has any, fewer if they are large."""
        with self._lock:
            topics = list(self._records)
            for step in range(1, len(topics) + 1):
                turn = (self._turn + step) % len(topics)
                waiting = self._records[topics[turn]]
                if waiting:
                    self._turn = turn
                    topic, held = topics[turn], self._bytes[topics[turn]]
                    records = waiting[: max(1, min(most, most * RECORD_BYTES * len(waiting) // max(1, held)))]
                    # Counted by their mean size: a look at each would cost as much as it did when they came.
                    self._add(topic, -len(records), -(held * len(records) // len(waiting)))
                    del waiting[: len(records)]
                    self.since = time.monotonic()
                    return topic, records
        return None

    def put_back(self, topic: str, records: Sequence[Message]) -> None:
        """Undo a take: the records come first again."""
        with self._lock:
            self._records[topic] = [*records, *self._records[topic]]
            self._add(topic, len(records), sum(map(len, records)))

    def _add(self, topic: str, records: int, value_bytes: int) -> None:
        self._bytes[topic] += value_bytes
        self.size += records
        self.weight = max(self.size, sum(self._bytes.values()) // RECORD_BYTES)
