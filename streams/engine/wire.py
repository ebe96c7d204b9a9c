"""What a cluster says of open transactions, and how to decide one whose coordinator will not.

The messages of protocol.py over aiokafka's connections (Faust's own client, installed with it).
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError as WireError
from aiokafka.errors import for_code
from aiokafka.structs import TopicPartition

from .config import EngineConfig
from .errors import Crash, Refused
from .protocol import Exactly, describe_producers, describe_transactions, list_transactions, write_markers

T = TypeVar("T")

REQUEST_TIMEOUT = 20.0
Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Open:
    """A transaction that a partition's leader has open: ``start_offset`` holds the stable offset back."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int
    """Of the producer's last record, ms since the epoch."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a transaction coordinator says of a transactional id; ``partitions`` are those of its transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    partitions: frozenset[Partition]


class Wire:
    """One conversation with a cluster. Every method raises Crash when brokers do not answer or say no."""

    def __init__(self, client: AIOKafkaClient) -> None:
        self._client = client

    async def leaders(self, topic: str) -> dict[int, int]:
        """The leading node of each partition of an existing topic; -1 for one without."""
        metadata = await self._client.fetch_all_metadata()
        return {
            partition: self._leader(metadata, topic, partition)
            for partition in metadata.partitions_for_topic(topic) or ()
        }

    async def nodes(self) -> list[int]:
        """All brokers that are up."""
        metadata = await self._client.fetch_all_metadata()
        return sorted(broker.nodeId for broker in metadata.brokers())

    async def open_transactions(self, partitions: Iterable[Partition]) -> list[Open]:
        """What is open in these partitions, by their leaders."""
        metadata = await self._client.fetch_all_metadata()
        by_leader: dict[int, list[Partition]] = defaultdict(list)
        for topic, partition in partitions:
            by_leader[self._leader(metadata, topic, partition)].append((topic, partition))
        found: list[Open] = []
        for leader, wanted in by_leader.items():
            response = await self.ask(leader, describe_producers(_grouped(wanted), {}))
            for topic, answers, _ in response.topics:
                for partition, code, message, producers, _tags in answers:
                    _check(code, f"describe producers of {topic}[{partition}]: {message}")
                    found += [
                        Open(topic, partition, p_id, p_epoch, coordinator_epoch, start, last)
                        for p_id, p_epoch, _sequence, last, coordinator_epoch, start, _t in producers
                        if start >= 0
                    ]
        return sorted(found, key=lambda item: (item.topic, item.partition, item.start_offset))

    async def known_transactions(self, producer_ids: Iterable[int]) -> list[Known]:
        """What the coordinators know of these producers; each coordinator is asked."""
        wanted = sorted(set(producer_ids))
        found: list[Known] = []
        if not wanted:
            return found
        for node in await self.nodes():
            listed = await self.ask(node, list_transactions([], wanted, {}))
            _check(listed.error_code, f"list transactions at node {node}")
            ids = [transactional_id for transactional_id, _producer, _state, _tags in listed.transactions]
            if not ids:
                continue
            described = await self.ask(node, describe_transactions(ids, {}))
            for code, name, state, _timeout, _start, producer_id, epoch, topics, _tags in described.transactions:
                _check(code, f"describe transaction {name}")
                partitions = frozenset((topic, partition) for topic, numbers, _t in topics for partition in numbers)
                found.append(Known(name, producer_id, epoch, state, partitions))
        return found

    async def decide(self, item: Open, *, committed: bool) -> None:
        """Write the marker of an open transaction into its partition.

        What a coordinator does, and Admin.abortTransaction, which knows aborts only. The broker refuses it when the
        producer or its coordinator have gone on.
        """
        metadata = await self._client.fetch_all_metadata()
        leader = self._leader(metadata, item.topic, item.partition)
        marker: tuple[Any, ...] = (
            item.producer_id, item.producer_epoch, committed, _grouped([(item.topic, item.partition)]),
            max(0, item.coordinator_epoch), {},
        )  # fmt: skip
        response = await self.ask(leader, write_markers([marker], {}))
        for _producer, topics, _tags in response.markers:
            for topic, answers, _t in topics:
                for partition, code, _t2 in answers:
                    _check(code, f"{'commit' if committed else 'abort'} in {topic}[{partition}]")

    async def ask(self, node: int, message: Any) -> Any:
        """Send one message to one node; its response."""
        if node < 0:
            raise Crash(f"{type(message).__name__}: a partition has no leader now; try again when its brokers are back")
        try:
            return await self._client.send(node, Exactly(message))
        except WireError as error:
            raise Crash(f"{type(message).__name__} to node {node}: {error!r}") from error

    @staticmethod
    def _leader(metadata: Any, topic: str, partition: int) -> int:
        leader = metadata.leader_for_partition(TopicPartition(topic, partition))
        return -1 if leader is None else int(leader)


def converse(config: EngineConfig, talk: Callable[[Wire], Awaitable[T]]) -> T:
    """Connect, let ``talk`` ask, disconnect. Not for use inside a running event loop.

    Raises Refused for client settings that are not understood here, Crash when no broker answers.
    """

    async def run() -> T:
        client = AIOKafkaClient(
            bootstrap_servers=config.bootstrap,
            client_id=f"{config.group}-transactions",
            request_timeout_ms=int(REQUEST_TIMEOUT * 1000),
            **connection_settings(config.client),
        )
        try:
            await client.bootstrap()
            return await talk(Wire(client))
        except WireError as error:
            raise Crash(f"asking {config.bootstrap}: {error!r}") from error
        finally:
            await client.close()

    return asyncio.run(run())


def connection_settings(client: Mapping[str, str | int | float | bool]) -> dict[str, Any]:
    """Translate librdkafka's security settings; tuning has no meaning here and is left out.

    Raises Refused for a security setting that has no translation: better no connection than another one.
    """
    given = {name: value for name, value in client.items() if name.startswith(("security.", "sasl.", "ssl."))}
    protocol = str(given.pop("security.protocol", "PLAINTEXT")).upper()
    settings: dict[str, Any] = {"security_protocol": protocol}
    for name, ours in _SASL.items():
        if name in given:
            settings[ours] = str(given.pop(name))
    if protocol.endswith("SSL"):
        context = ssl.create_default_context(cafile=_text(given.pop("ssl.ca.location", None)))
        if certificate := _text(given.pop("ssl.certificate.location", None)):
            context.load_cert_chain(
                certificate, _text(given.pop("ssl.key.location", None)), _text(given.pop("ssl.key.password", None))
            )
        if given.pop("ssl.endpoint.identification.algorithm", "https") == "none":
            context.check_hostname = False
        settings["ssl_context"] = context
    if given:
        raise Refused(f"client settings {sorted(given)} have no translation here: use Kafka's kafka-transactions.sh")
    return settings


_SASL = {
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _grouped(partitions: Iterable[Partition]) -> list[tuple[str, list[int], dict[int, bytes]]]:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(partition)
    return [(topic, sorted(numbers), {}) for topic, numbers in sorted(by_topic.items())]


def _check(code: int, what: str) -> None:
    if code != 0:
        raise Crash(f"{what}: {for_code(code).__name__}")
