"""Kafka from the operator's side: make the topics of the catalogue, and tell how they differ from it.

Nothing here produces or consumes. Topics are made by these functions only; brokers must not make them by
themselves (a misspelt name would become a topic with defaults).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
    TopicDescription,
)

from schemas.topics import TOPICS, Topic
from streams.runtime.errors import ConfigurationError, Unavailable
from streams.runtime.settings import KafkaSettings

REQUEST_TIMEOUT_S = 15.0
_POLL_S = 0.2
# Too few brokers for the copies: for good, or until one that starts, or was too busy for its heartbeats, is back.
_BROKERS_BACK_S = 10.0
# A denial by the cluster: waiting will not help.
_DENIED = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.POLICY_VIOLATION,
        KafkaError._INVALID_ARG,
    }
)

# Of a client that asks partition leaders: it is to look again who they are. To an admin client that knows an older
# leader epoch ListOffsets fails with FENCED_LEADER_EPOCH until its metadata are due, five minutes by default
# (librdkafka issue 4620; seen here after every time a broker was frozen or killed). And who looked while a broker that
# came back was still fenced keeps "no leader" for as long as metadata may age, 15 minutes by default: nobody refreshes
# topics that are only asked about, and a consumer's question ends in _UNKNOWN_PARTITION each time. With this, 6 s.
ASKING: Final[Mapping[str, Any]] = {"topic.metadata.refresh.interval.ms": 2_000}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Created:
    """A topic that was missing was made."""

    topic: str

    def __str__(self) -> str:
        return f"{self.topic}: created"


@dataclass(frozen=True, slots=True)
class Altered:
    """A setting of a topic was changed. ``before`` is None when the broker did not say."""

    topic: str
    setting: str
    before: str | None
    after: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.setting} {self.before} → {self.after}"


Change = Created | Altered


def admin_client(kafka: KafkaSettings, log: str = "librdkafka") -> AdminClient:
    """An administrative client; connects in the background. ``log``: the logger its log goes to."""
    return AdminClient({**kafka.client(), **ASKING}, logger=logging.getLogger(log))


def wait_for_broker(kafka: KafkaSettings, *, timeout_s: float = 30.0) -> str:
    """The cluster's id, as soon as a broker answers. Raises Unavailable after ``timeout_s``."""
    client = admin_client(kafka)
    deadline = time.monotonic() + timeout_s
    while True:
        left = deadline - time.monotonic()
        try:
            with _answers(kafka):
                described = client.describe_cluster(request_timeout=max(0.1, min(left, REQUEST_TIMEOUT_S))).result()
            return str(described.cluster_id)
        except Unavailable:
            if time.monotonic() + _POLL_S >= deadline:
                raise
            time.sleep(_POLL_S)


def topic_id(kafka: KafkaSettings, name: str) -> str:
    """Kafka's id of the topic: another one after it was deleted and made again.

    Raises ConfigurationError when there is no such topic, Unavailable when no broker answers.
    """
    with _answers(kafka):
        found = _describe(admin_client(kafka), [name]).get(name)
    if found is None:
        raise ConfigurationError(f"topic {name} does not exist: run 'playhead topics apply'")
    return as_kafka_prints(str(found.topic_id))


def as_kafka_prints(topic_id: str) -> str:
    """A topic id in the alphabet of Kafka's own tools (base64url); librdkafka's text has a slash in it."""
    return topic_id.replace("+", "-").replace("/", "_").rstrip("=")


def apply_topics(kafka: KafkaSettings, topics: Iterable[Topic] = TOPICS) -> list[Change]:
    """Make ``topics`` as the catalogue says: create what is missing, alter settings that differ.

    Returns what was changed, in the catalogue's order; nothing when all was right. Nothing is changed at all,
    and ConfigurationError raised, when a topic has another number of partitions: keys would change their home,
    and with it their order. Raises Unavailable when no broker answers.
    """
    wanted = tuple(topics)
    single_broker = kafka.replication == 1
    client = admin_client(kafka)
    with _answers(kafka):
        existing = _describe(client, [topic.name for topic in wanted])
        for topic in wanted:
            if topic.name in existing:
                _hold_partitions(topic.name, topic.partitions, existing[topic.name])
        changes: list[Change] = []
        for topic in wanted:
            config = topic.config(single_broker=single_broker)
            if topic.name not in existing:
                changes += _create(client, topic.name, topic.partitions, kafka.replication, config)
            else:
                changes += _alter(client, topic.name, config)
    return changes


def check_topics(kafka: KafkaSettings, topics: Iterable[Topic] = TOPICS) -> list[str]:
    """How the cluster differs from the catalogue, as sentences; empty when it does not. Changes nothing."""
    wanted = tuple(topics)
    client = admin_client(kafka)
    problems: list[str] = []
    with _answers(kafka):
        existing = _describe(client, [topic.name for topic in wanted])
        for topic in wanted:
            found = existing.get(topic.name)
            if found is None:
                problems.append(f"{topic.name} does not exist: run 'playhead topics apply'")
                continue
            if len(found.partitions) != topic.partitions:
                problems.append(_partitions_sentence(topic.name, topic.partitions, len(found.partitions)))
            replicas = min(len(partition.replicas) for partition in found.partitions)
            if replicas != kafka.replication:
                problems.append(
                    f"{topic.name} has {replicas} replicas and kafka.replication says {kafka.replication}: reassign "
                    "its partitions with Kafka's own tools, or correct the setting"
                )
            problems += [
                f"{topic.name} has {setting}={before}, not {after}: run 'playhead topics apply'"
                for setting, before, after in _differences(
                    client, topic.name, topic.config(single_broker=kafka.replication == 1)
                )
            ]
    return problems


def ensure_topic(kafka: KafkaSettings, name: str, partitions: int, config: Mapping[str, str]) -> list[Change]:
    """Make one topic that is not of the catalogue (a changelog), or bring its settings in line.

    Same rules and errors as ``apply_topics``.
    """
    client = admin_client(kafka)
    with _answers(kafka):
        found = _describe(client, [name]).get(name)
        if found is None:
            return _create(client, name, partitions, kafka.replication, config)
        _hold_partitions(name, partitions, found)
        return _alter(client, name, config)


def _partitions_sentence(name: str, wanted: int, found: int) -> str:
    return (
        f"{name} has {found} partitions, {wanted} are wanted, and the number is fixed for life. If the topic is empty, "
        "delete it and run 'playhead topics apply'; if not, replay it into new topics"
    )


def _hold_partitions(name: str, wanted: int, found: TopicDescription) -> None:
    if len(found.partitions) != wanted:
        raise ConfigurationError(_partitions_sentence(name, wanted, len(found.partitions)))


def _describe(client: AdminClient, names: list[str]) -> dict[str, TopicDescription]:
    """The topics among ``names`` that exist."""
    found: dict[str, TopicDescription] = {}
    futures = client.describe_topics(TopicCollection(names), request_timeout=REQUEST_TIMEOUT_S)
    for name, future in futures.items():
        try:
            found[name] = _result(future)
        except KafkaException as exc:
            if _code(exc) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return found


def _create(
    client: AdminClient, name: str, partitions: int, replication: int, config: Mapping[str, str]
) -> list[Change]:
    topic = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(config))
    made = _made(client, topic)
    found = _settled(lambda: _with_leaders(client, name), f"topic {name} to appear")
    # Somebody else may have made it meanwhile: it must be the same.
    _hold_partitions(name, partitions, found)
    return [Created(name)] if made else _alter(client, name, config)


def _made(client: AdminClient, topic: NewTopic) -> bool:
    """Ask for ``topic``; False when it is there already."""
    deadline = time.monotonic() + _BROKERS_BACK_S
    while True:
        future = client.create_topics([topic], operation_timeout=REQUEST_TIMEOUT_S, request_timeout=REQUEST_TIMEOUT_S)
        try:
            _result(future[topic.topic])
            return True
        except KafkaException as exc:
            if _code(exc) == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            if _code(exc) != KafkaError.INVALID_REPLICATION_FACTOR or time.monotonic() > deadline:
                raise
        time.sleep(_POLL_S)


def _with_leaders(client: AdminClient, name: str) -> TopicDescription | None:
    found = _describe(client, [name]).get(name)
    return found if found and all(partition.leader for partition in found.partitions) else None


def _settled(ask: Callable[[], T | None], what: str) -> T:
    """The first answer of ``ask`` that is not None: the controller acts before its brokers know of it."""
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while (answer := ask()) is None:
        if time.monotonic() > deadline:
            raise Unavailable(f"Kafka takes too long for {what}: try again")
        time.sleep(_POLL_S / 4)
    return answer


def _differences(client: AdminClient, name: str, config: Mapping[str, str]) -> list[tuple[str, str | None, str]]:
    """(setting, value it has, value it should have) for each setting of ``config`` that differs."""
    resource = ConfigResource(ResourceType.TOPIC, name)
    [future] = client.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S).values()
    entries: dict[str, ConfigEntry] = _result(future)
    found = {setting: entries[setting].value if setting in entries else None for setting in config}
    return [(setting, found[setting], value) for setting, value in config.items() if found[setting] != value]


def _alter(client: AdminClient, name: str, config: Mapping[str, str]) -> list[Change]:
    differences = _differences(client, name, config)
    if not differences:
        return []
    entries = [
        ConfigEntry(setting, after, incremental_operation=AlterConfigOpType.SET) for setting, _, after in differences
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    [future] = client.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S).values()
    _result(future)
    _settled(lambda: None if _differences(client, name, config) else True, f"the settings of topic {name} to change")
    return [Altered(name, setting, before, after) for setting, before, after in differences]


def _result(future: Future[Any]) -> Any:
    # librdkafka ends every request by its own timeout; the margin is for a client thread that died.
    return future.result(timeout=REQUEST_TIMEOUT_S * 2)


def _code(exc: KafkaException) -> int:
    error = exc.args[0]
    return int(error.code()) if isinstance(error, KafkaError) else KafkaError._FAIL


@contextmanager
def _answers(kafka: KafkaSettings) -> Iterator[None]:
    """Tell a cluster that is away from one that refuses."""
    try:
        yield
    except KafkaException as exc:
        error = exc.args[0]
        text = error.str() if isinstance(error, KafkaError) else str(exc)
        if _code(exc) in _DENIED:
            raise ConfigurationError(f"Kafka at {kafka.bootstrap} refused: {text}") from exc
        raise Unavailable(f"Kafka at {kafka.bootstrap} does not answer: {text}") from exc
    except TimeoutError as exc:
        raise Unavailable(f"Kafka at {kafka.bootstrap} does not answer in time") from exc
