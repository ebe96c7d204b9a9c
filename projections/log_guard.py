"""Is the log still the log we read? A recreated topic, a cut head or a lost tail is refused, never skipped.

Asked at every assignment, every few seconds while running, and before each commit: a topic that still had our
id *after* a batch was fetched cannot have given us records of another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec, TopicDescription

from projections.offsets import Position
from schemas.topics import Topic
from streams.runtime.clock import Clock
from streams.runtime.errors import ConfigurationError, Unavailable
from streams.runtime.kafka import admin_client, as_kafka_prints
from streams.runtime.settings import KafkaSettings

TIMEOUT_S = 5.0
MISSING_PATIENCE_S = 15.0
"""A topic nobody knows may be a broker that has just started; after this long it is an operator's matter."""
SHORT_PATIENCE_S = 3.0
"""A broker that has just started may tell an old high watermark for a moment."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets one partition holds: from ``first`` up to, not including, ``end``."""

    first: int
    end: int


class LogGuard:
    """Compares one topic with what a projection knows of it. Raises Unavailable when no broker can tell."""

    def __init__(self, kafka: KafkaSettings, topic: Topic, projection: str, clock: Clock) -> None:
        self._admin = admin_client(kafka, "librdkafka.log_guard")
        self._topic = topic
        self._projection = projection
        self._clock = clock
        self._missing_since: float | None = None
        self._short_since: float | None = None

    def ask(self) -> Future[TopicDescription]:
        """Ask for the topic's id now and get the answer later (``confirm``): the work between is free."""
        futures = self._admin.describe_topics(TopicCollection([self._topic.name]), request_timeout=TIMEOUT_S)
        asked: Future[TopicDescription] = futures[self._topic.name]
        return asked

    def topic_id(self, asked: Future[TopicDescription] | None = None) -> str:
        """The topic's id. Raises ConfigurationError when the topic is gone or has another number of partitions."""
        try:
            found = (asked or self.ask()).result(TIMEOUT_S * 2)
        except (KafkaException, TimeoutError) as exc:
            self._judge_absence(exc)
        self._missing_since = None
        if len(found.partitions) != self._topic.partitions:
            raise ConfigurationError(
                f"{self._topic.name} has {len(found.partitions)} partitions and {self._topic.partitions} are wanted: "
                "keys would change their home, and with it their order. Nothing was skipped. Replay the topic into "
                "one with the right number."
            )
        return as_kafka_prints(str(found.topic_id))

    def confirm(self, asked: Future[TopicDescription], positions: Iterable[Position]) -> None:
        """Raise ConfigurationError unless the topic asked about is the one ``positions`` are bound to."""
        found = self.topic_id(asked)
        for position in positions:
            if position.topic_id not in (None, found):
                raise ConfigurationError(
                    self._refusal(
                        f"the topic was deleted and made again (id {found}, it was {position.topic_id})", position
                    )
                )

    def extents(self, partitions: Iterable[int]) -> dict[int, Extent]:
        """First and end offset of each partition; the end is the high watermark."""
        asked = [TopicPartition(self._topic.name, partition) for partition in partitions]
        if not asked:
            return {}
        first = self._offsets(asked, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        end = self._offsets(asked, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {partition: Extent(first[partition], end[partition]) for partition in first}

    def check(self, positions: Iterable[Position]) -> int:
        """How many offsets lie before the ends of the log, in all.

        Raises ConfigurationError unless every bound position can go on where it stands. A log that ends
        before a position is Unavailable for SHORT_PATIENCE_S, refused after that.
        """
        bound = [position for position in positions if position.topic_id is not None]
        self.confirm(self.ask(), bound)
        extents = self.extents(position.partition for position in bound)
        if all(position.next_offset <= extents[position.partition].end for position in bound):
            self._short_since = None
        for position in bound:
            extent = extents[position.partition]
            if position.next_offset > extent.end:
                self._judge_tail(position, extent)
            if position.next_offset < extent.first:
                raise ConfigurationError(
                    self._refusal(f"the log begins at {extent.first}: its head was cut off", position)
                )
        return sum(extents[position.partition].end - position.next_offset for position in bound)

    def truncated(self, position: Position) -> ConfigurationError:
        """The refusal for a log that Kafka itself says was truncated and written again (leader epochs)."""
        return ConfigurationError(self._refusal("its tail was lost and written anew", position))

    def _offsets(self, asked: list[TopicPartition], spec: OffsetSpec) -> dict[int, int]:
        futures = self._admin.list_offsets(
            dict.fromkeys(asked, spec),
            request_timeout=TIMEOUT_S,
        )
        try:
            return {place.partition: int(future.result(TIMEOUT_S * 2).offset) for place, future in futures.items()}
        except (KafkaException, TimeoutError) as exc:
            raise Unavailable(f"Kafka does not say what {self._topic.name} holds: {_name(exc)}") from exc

    def _judge_tail(self, position: Position, extent: Extent) -> None:
        now = self._clock.monotonic()
        if self._short_since is None:
            self._short_since = now
        what = f"the log ends at {extent.end}: its tail was lost"
        if now - self._short_since >= SHORT_PATIENCE_S:
            raise ConfigurationError(self._refusal(what, position))
        raise Unavailable(self._refusal(what, position) + " Looking again.")

    def _judge_absence(self, exc: Exception) -> None:
        if _name(exc) == "UNKNOWN_TOPIC_OR_PART":
            now = self._clock.monotonic()
            if self._missing_since is None:
                self._missing_since = now
            if now - self._missing_since >= MISSING_PATIENCE_S:
                raise ConfigurationError(
                    f"topic {self._topic.name} does not exist: run 'playhead topics apply'. If it was deleted, its "
                    f"history is gone: restore it, or accept a new log with 'playhead adopt-log {self._projection}'."
                ) from exc
        raise Unavailable(f"Kafka does not describe {self._topic.name}: {_name(exc)}") from exc

    def _refusal(self, what: str, position: Position) -> str:
        return (
            f"{self._topic.name}, partition {position.partition}: projection {self._projection} stands at offset "
            f"{position.next_offset}, and {what}. Nothing was skipped. If records are missing, restore the log; to go "
            f"on with the log as it is, run 'playhead adopt-log {self._projection}' and start again."
        )


def _name(exc: Exception) -> str:
    error = exc.args[0] if exc.args else None
    return error.name() if isinstance(error, KafkaError) else type(exc).__name__
