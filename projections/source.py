"""The consumer of a projection: membership of a group, and batches from offsets that PostgreSQL holds.

Kafka decides who reads which partition; where to begin is never Kafka's word. After any change of assignment,
and after any doubt, the source is ``unsettled``: it gives nothing until it is told where to stand.

Not reading is an empty assignment, never a pause. librdkafka starts the partitions of a new assignment in a thread of
its own while ``assign`` returns; a ``pause`` or ``resume`` of that moment and the start can overtake each other, and
the late one is dropped without an error: a partition that nobody reads, until the next assignment.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from projections.decoding import place
from projections.offsets import Position
from schemas.topics import Topic
from streams.runtime import logs
from streams.runtime.errors import ConfigurationError, Fatal, PlayheadError
from streams.runtime.settings import KafkaSettings

_log = logs.get(__name__)
# Everything that is there is taken at once; the short wait lets a batch grow a little under load.
_LINGER_S = 0.004
# So much is given at once, less when what there is has waited. A batch costs all the same whatever is in it: of records
# one by one the broker and PostgreSQL would do little else.
_GATHERED_BYTES = 64 * 1024
_REPORT_EVERY_S = 1.0
_ANOMALIES = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_ID,
    }
)
_DENIED = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


class LogAnomaly(PlayheadError):
    """Kafka can't give records from where we stand: look at the log before anything else."""


class LogTruncated(LogAnomaly):
    """Kafka's leader epochs say that what we read last is no longer in the log."""

    def __init__(self, partition: int) -> None:
        super().__init__(f"partition {partition} was truncated")
        self.partition = partition


class Source:
    """Not thread-safe: everything, rebalance callbacks too, happens in the calls of one thread."""

    def __init__(
        self, kafka: KafkaSettings, topic: Topic, group: str, *, session_timeout_s: float, gather_ms: int
    ) -> None:
        """``gather_ms``: how long the broker may keep a record for others that come."""
        self._topic = topic.name
        self._assigned: set[int] = set()
        self.unsettled = False
        self._reading = False
        self._unreported: dict[int, int] = {}
        self._reported_at = 0.0
        self._consumer = Consumer(
            {
                **kafka.client(),
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "partition.assignment.strategy": "range",
                "session.timeout.ms": int(session_timeout_s * 1000),
                "heartbeat.interval.ms": int(session_timeout_s * 1000 / 4),
                "allow.auto.create.topics": False,
                "queued.max.messages.kbytes": 16 * 1024,
                "fetch.min.bytes": _GATHERED_BYTES,
                "fetch.wait.max.ms": gather_ms,
                "fetch.error.backoff.ms": 100,
                # A topic that was made a moment ago may be missing from the first answer.
                "topic.metadata.refresh.interval.ms": 2_000,
                "reconnect.backoff.max.ms": 1_000,
            },
            logger=logging.getLogger("librdkafka.source"),
        )
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )

    @property
    def assigned(self) -> frozenset[int]:
        """The partitions this member owns now, as far as the group knows."""
        return frozenset(self._assigned)

    def stand_at(self, positions: Iterable[Position]) -> None:
        """Read from these positions on; what was fetched before is dropped. Settles the source."""
        places = [
            TopicPartition(self._topic, p.partition, p.next_offset, leader_epoch=p.leader_epoch)
            if p.leader_epoch is not None
            else TopicPartition(self._topic, p.partition, p.next_offset)
            for p in positions
        ]
        self._consumer.assign(places)
        self._reading = True
        self.unsettled = False

    def take(self, records_max: int, wait_s: float) -> list[Message]:
        """Up to ``records_max`` messages, as soon as there are any; none after ``wait_s``, or when unsettled.

        Raises LogAnomaly, Fatal when the client is beyond repair, ConfigurationError when Kafka denies reading.
        """
        if self._unreported and time.monotonic() - self._reported_at >= _REPORT_EVERY_S:
            self._tell_offsets()
        first = self._consumer.poll(wait_s)
        if first is None:
            return []
        messages = [first]
        if records_max > 1 and first.error() is None:
            messages += self._consumer.consume(records_max - 1, _LINGER_S)
        good: list[Message] = []
        for message in messages:
            error = message.error()
            if error is not None:
                self._judge(error, message)
            elif not self.unsettled and message.partition() in self._assigned:
                good.append(message)
        return [] if self.unsettled else good

    def idle(self, wait_s: float) -> None:
        """Keep the membership alive without taking anything; afterwards the source is unsettled."""
        self.unsettled = True
        if self._reading:
            self._consumer.assign([])
            self._reading = False
        # What may come out was fetched before, and is read again from the right offset.
        self._consumer.poll(wait_s)

    def report(self, positions: Mapping[int, int]) -> None:
        """The group's offsets, of which Kafka is told within a second or so, for lag tools. Nothing is read from there,
        so failing is harmless."""
        self._unreported |= positions

    def _tell_offsets(self) -> None:
        places = [
            TopicPartition(self._topic, *place) for place in self._unreported.items() if place[0] in self._assigned
        ]
        self._reported_at, self._unreported = time.monotonic(), {}
        if not places:
            return
        try:
            self._consumer.commit(offsets=places, asynchronous=True)
        except KafkaException as exc:
            _log.debug("group offsets not reported", error=exc.args[0].name())

    def close(self) -> None:
        """Leave the group, so that others take over at once."""
        self._tell_offsets()
        self._consumer.close()

    def _judge(self, error: KafkaError, message: Message) -> None:
        code = error.code()
        if code == KafkaError._LOG_TRUNCATION:
            raise LogTruncated(message.partition() or 0)
        if code in _ANOMALIES:
            raise LogAnomaly(error.name())
        if code in _DENIED:
            raise ConfigurationError(f"Kafka does not let this projection read {self._topic}: {error.str()}")
        if error.fatal():
            raise Fatal(f"the Kafka client failed for good: {error.name()}")
        # The client reconnects by itself.
        _log.info("Kafka answers with an error, going on", error=error.name())

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._assigned = {place.partition for place in partitions}
        self.unsettled = True
        # Ours, and not read yet: the places need PostgreSQL, and may take a while.
        consumer.assign([])
        self._reading = False
        _log.info("partitions assigned", partitions=sorted(self._assigned))

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._assigned -= {place.partition for place in partitions}
        self.unsettled = True
        consumer.unassign()
        self._reading = False
        _log.info("partitions revoked", partitions=sorted(place.partition for place in partitions))


def newest_of_each(messages: Sequence[Message]) -> dict[int, Message]:
    """The last message of each partition in a batch."""
    return {place(message)[0]: message for message in messages}
