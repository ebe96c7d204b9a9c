"""Bytes out of the log at known places, for people's commands: nothing is committed, no group is joined."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streams.runtime.errors import Unavailable
from streams.runtime.kafka import ASKING
from streams.runtime.settings import KafkaSettings

PATIENCE_S: Final = 15.0
# Reading over so many records is quicker than fetching anew.
_NEAR: Final = 500
_WAIT_S: Final = 0.2
_LINGER_S: Final = 0.02
_ASK_S: Final = 5.0
_ENDS: Final = frozenset({KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})


class Places:
    """Use as a context manager. Methods raise Unavailable when Kafka does not answer within PATIENCE_S."""

    def __init__(self, kafka: KafkaSettings, *, committed: bool = False, at_once: int = 100) -> None:
        """``committed``: pass over what transactions took back, and stop before one that is open. Without, what is
        looked for by its name, and is no part of a transaction, can't hide behind one. ``at_once``: records held."""
        self._at_once = at_once
        self._consumer = Consumer(
            {
                **kafka.client(),
                **ASKING,
                "group.id": "playhead-dlq",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "enable.partition.eof": True,
                "allow.auto.create.topics": False,
                "queued.max.messages.kbytes": 16 * 1024,
                # A fetch that waits for more holds up the one of the next place.
                "fetch.wait.max.ms": 10,
            },
            logger=logging.getLogger("librdkafka.dlq"),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._consumer.close()

    def extent(self, topic: str, partition: int) -> tuple[int, int]:
        """First offset there is, and the end."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                found = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), _ASK_S)
            except KafkaException as exc:
                if time.monotonic() > until:
                    raise Unavailable(f"Kafka does not say what {topic} holds: {exc.args[0].name()}") from exc
                time.sleep(_WAIT_S)
                continue
            assert found is not None
            return int(found[0]), int(found[1])

    def at(self, topic: str, places: Iterable[tuple[int, int]]) -> Mapping[tuple[int, int], Message]:
        """The records at these (partition, offset); those that are not there any more are left out."""
        found: dict[tuple[int, int], Message] = {}
        wanted: dict[int, list[int]] = {}
        for partition, offset in set(places):
            wanted.setdefault(partition, []).append(offset)
        for partition, offsets in sorted(wanted.items()):
            first, end = self.extent(topic, partition)
            left = sorted(offset for offset in offsets if first <= offset < end)
            for run in _runs(left):
                meant = set(run)
                for message in self.between(topic, partition, run[0], run[-1] + 1):
                    offset = message.offset() or 0
                    if offset in meant:
                        found[partition, offset] = message
        return found

    def between(self, topic: str, partition: int, begin: int, end: int) -> Iterator[Message]:
        """Records with begin <= offset < end, as far as there are any."""
        if begin >= end:
            return
        self._consumer.assign([TopicPartition(topic, partition, begin)])
        quiet_since = time.monotonic()
        try:
            while True:
                for message in self._consumer.consume(self._at_once, _LINGER_S):
                    quiet_since = time.monotonic()
                    error = message.error()
                    if error is None:
                        if (message.offset() or 0) >= end:
                            return
                        yield message
                        if (message.offset() or 0) + 1 >= end:
                            return
                    elif error.code() in _ENDS:
                        return
                # The last records below the end may be markers of transactions, which are never given.
                [position] = self._consumer.position([TopicPartition(topic, partition)])
                if position.offset >= end:
                    return
                if time.monotonic() - quiet_since > PATIENCE_S:
                    raise Unavailable(f"Kafka does not give records of {topic}")
        finally:
            self._consumer.unassign()


def _runs(offsets: Sequence[int]) -> list[list[int]]:
    """Sorted offsets in pieces whose neighbours are near."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset - runs[-1][-1] <= _NEAR:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    return runs
