"""Facts about topics and partitions, asked of the brokers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from .config import EngineConfig
from .errors import Crash
from .resume import LogRange
from .rights import denied

log = logging.getLogger(__name__)
T = TypeVar("T")

REQUEST_TIMEOUT = 20.0
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """``topic_id`` differs when a topic was deleted and created again under its name."""

    topic_id: str
    partitions: int


class Logs:
    """Holds the admin client: confluent-kafka's futures die with the client that made them."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._admin = AdminClient(dict(config.asking()), logger=log)

    def describe(self, topics: Iterable[str]) -> dict[str, TopicFacts]:
        """Return the facts of existing topics; those that do not exist are left out."""
        names = sorted(set(topics))

        def ask() -> dict[str, TopicFacts]:
            found: dict[str, TopicFacts] = {}
            futures: Mapping[str, Future[Any]] = self._admin.describe_topics(
                TopicCollection(names), request_timeout=REQUEST_TIMEOUT
            )
            for name, future in futures.items():
                try:
                    facts = future.result(REQUEST_TIMEOUT)
                except KafkaException as error:
                    if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        continue
                    raise
                found[name] = TopicFacts(canonical_id(str(facts.topic_id)), len(facts.partitions))
            return found

        return self._patiently("describe topics", ask)

    def names(self) -> list[str]:
        """Return the names of all topics, as far as they may be seen."""
        return self._patiently("list topics", lambda: list(self._admin.list_topics(timeout=REQUEST_TIMEOUT).topics))

    def settings(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the configuration of existing topics."""
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(set(topics))]
        if not resources:
            return {}

        def ask() -> dict[str, dict[str, str]]:
            futures = self._admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT)
            return {
                resource.name: {name: str(entry.value) for name, entry in future.result(REQUEST_TIMEOUT).items()}
                for resource, future in futures.items()
            }

        return self._patiently("describe topic configuration", ask)

    def ranges(
        self, partitions: Iterable[tuple[str, int]], facts: Mapping[str, TopicFacts]
    ) -> dict[tuple[str, int], LogRange]:
        """Return start, end and last stable offset of each partition."""
        wanted = sorted(set(partitions))
        if not wanted:
            return {}
        starts = self._offsets(wanted, _EARLIEST, IsolationLevel.READ_UNCOMMITTED)
        # In this order: the stable offset read later can only be higher, so stable >= end proves
        # that everything up to that end is decided.
        ends = self._offsets(wanted, _LATEST, IsolationLevel.READ_UNCOMMITTED)
        stables = self._offsets(wanted, _LATEST, IsolationLevel.READ_COMMITTED)
        return {key: LogRange(facts[key[0]].topic_id, starts[key], ends[key], stables[key]) for key in wanted}

    def since(self, partitions: Iterable[tuple[str, int]], timestamp: int) -> dict[tuple[str, int], int | None]:
        """Return the offset of each partition's first record at or after ``timestamp`` (ms), ``None`` without any."""
        wanted = sorted(set(partitions))
        spec: OffsetSpec = OffsetSpec.for_timestamp(max(0, timestamp))
        found = self._offsets(wanted, spec, IsolationLevel.READ_UNCOMMITTED) if wanted else {}
        return {key: offset if offset >= 0 else None for key, offset in found.items()}

    def members(self) -> int:
        """How many members the group has, joining ones included. Raises Crash when its coordinator does not answer."""
        group = self._config.group

        def ask() -> int:
            found = self._admin.describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT)[group].result()
            if found.state in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD):
                return 0
            return max(1, len(found.members))

        return self._patiently(f"describe group {group}", ask)

    def committed(self, sources: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int | None]:
        """Return the group's offsets, those before a transaction that is undecided; ``None`` for one it has not.

        By a consumer that never joins: the admin client was seen to crash the interpreter over this question while a
        new broker's coordinator was being made.
        """
        wanted = [TopicPartition(*source) for source in sorted(set(sources))]
        if not wanted:
            return {}
        consumer = Consumer(self._config.restore_consumer() | {"isolation.level": "read_uncommitted"}, logger=log)

        def ask() -> dict[tuple[str, int], int | None]:
            found = consumer.committed(wanted, REQUEST_TIMEOUT)
            for place in found:
                if place.error is not None:
                    raise KafkaException(place.error)
            return {(place.topic, place.partition): place.offset if place.offset >= 0 else None for place in found}

        try:
            return self._patiently(f"committed offsets of {self._config.group}", ask)
        finally:
            consumer.close()

    def _offsets(
        self, partitions: list[tuple[str, int]], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[tuple[str, int], int]:
        def ask() -> dict[tuple[str, int], int]:
            futures = self._admin.list_offsets(
                {TopicPartition(topic, partition): spec for topic, partition in partitions},
                isolation_level=isolation,
                request_timeout=REQUEST_TIMEOUT,
            )
            return {(tp.topic, tp.partition): future.result(REQUEST_TIMEOUT).offset for tp, future in futures.items()}

        return self._patiently("list offsets", ask)

    def _patiently(self, what: str, ask: Callable[[], T]) -> T:
        """Ask again while brokers are moving. Raises Crash when the operation timeout is over, Refused when denied."""
        deadline = time.monotonic() + self._config.operation_timeout
        while True:  # a coordinator that has just come up, or is about to move, says that it is none
            try:
                return ask()
            except (KafkaException, TimeoutError) as error:
                reason = error.args[0] if error.args else error
                if (refused := denied(what, reason, self._config.group)) is not None:
                    raise refused from error
                if time.monotonic() > deadline:
                    raise Crash(f"{what}: {reason}") from error
                log.warning("%s: %s: trying again", what, reason)
                time.sleep(0.5)


def canonical_id(text: str) -> str:
    """Return a topic id as Kafka's own tools print it: librdkafka uses the alphabet with a slash in it."""
    return text.replace("+", "-").replace("/", "_").rstrip("=")
