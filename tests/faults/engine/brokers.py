"""Faults of brokers and of transactions, to be used by cases and tests.

hang(...)                  a transaction that no coordinator will ever decide, made on purpose
coordinator_node(...)      which broker coordinates a group or a transactional id
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import ConcurrentTransactions
from aiokafka.protocol.produce import ProduceRequest_v7
from aiokafka.protocol.transaction import InitProducerIdRequest_v0, TxnOffsetCommitRequest_v0
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from streams.engine.config import EngineConfig
from streams.engine.hanging import OFFSETS_TOPIC, offsets_partition
from streams.engine.position import SourcePosition
from streams.engine.repair import TRANSACTIONS_TOPIC
from streams.engine.wire import Partition, Wire, converse

#: A server property: without the check, a broker takes records of a transaction that its coordinator has not begun.
#: Such records were seen after brokers were killed; this is how they are made without luck.
NO_VERIFICATION = {"transaction.partition.verification.enable": "false"}
TIMEOUT_MS = 15_000
TAKEN_EVERY_S = 0.2
TAKEN_TRIES = 100
BATCH_BYTES = 1 << 20

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Row:
    """One record of a hanging transaction."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


@dataclass(frozen=True, slots=True)
class Hung:
    """Whose transaction hangs: a later transaction of this producer would decide it."""

    producer_id: int
    producer_epoch: int


async def _taken(wire: Wire, transactional_id: str) -> Any:
    """Take the id, as a producer does: again while the transaction of its last holder is still being ended."""
    node = await _leader(wire, TRANSACTIONS_TOPIC, transactional_id)
    for _ in range(TAKEN_TRIES):
        made = await wire.ask(node, InitProducerIdRequest_v0(transactional_id, TIMEOUT_MS))
        if made.error_code != ConcurrentTransactions.errno:
            break
        await asyncio.sleep(TAKEN_EVERY_S)
    assert made.error_code == 0, made
    return made


def hang(
    config: EngineConfig,
    transactional_id: str,
    records: Mapping[Partition, Sequence[Row]],
    offsets: Mapping[Partition, int] | None = None,
) -> Hung:
    """Write ``records`` and the group's ``offsets`` in a transaction that its coordinator never hears of.

    Takes the transactional id as a producer does, which fences its holder. The brokers need NO_VERIFICATION.
    """

    async def talk(wire: Wire) -> Hung:
        made = await _taken(wire, transactional_id)
        hung = Hung(made.producer_id, made.producer_epoch)
        for (topic, partition), rows in records.items():
            batch = _batch(hung, rows)
            request = ProduceRequest_v7(transactional_id, -1, TIMEOUT_MS, [(topic, [(partition, batch)])])
            answer = await wire.ask((await wire.leaders(topic))[partition], request)
            [(_topic, [(_partition, code, *_)])] = answer.topics
            assert code == 0, f"{topic}[{partition}] does not take the records: error {code}"
        if offsets:
            node = await _leader(wire, OFFSETS_TOPIC, config.group)
            places = [(topic, [(partition, offset, "")]) for (topic, partition), offset in offsets.items()]
            commit = TxnOffsetCommitRequest_v0(transactional_id, config.group, *_ids(hung), places)
            answer = await wire.ask(node, commit)
            codes = {code for _topic, errors in answer.errors for _partition, code in errors}
            assert codes == {0}, answer
        return hung

    return converse(config, talk)


def coordinator_node(config: EngineConfig, name: str, *, transactions: bool) -> int:
    """The id of the broker that coordinates a transactional id, or a group, now. Its topic must exist."""
    topic = TRANSACTIONS_TOPIC if transactions else OFFSETS_TOPIC
    return converse(config, lambda wire: _leader(wire, topic, name))


def rows_of(messages: Iterable[Any]) -> list[Row]:
    """The same records again, headers included."""
    return [Row(message.key(), message.value(), tuple(message.headers() or ())) for message in messages]


def rows_for(messages: Iterable[Any], source: Partition, offset: int) -> list[Row]:
    """Records like these, as if caused by the source records from ``offset`` on."""
    return [
        Row(message.key(), message.value(), (SourcePosition(source[0], "-", source[1], offset + n, 0).header(),))
        for n, message in enumerate(messages)
    ]


async def _leader(wire: Wire, topic: str, name: str) -> int:
    leaders = await wire.leaders(topic)
    return leaders[offsets_partition(name, len(leaders))]


def _batch(hung: Hung, rows: Sequence[Row]) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=True, producer_id=hung.producer_id,
        producer_epoch=hung.producer_epoch, base_sequence=0, batch_size=BATCH_BYTES,
    )  # fmt: skip
    for offset, row in enumerate(rows):
        builder.append(offset, None, row.key, row.value, list(row.headers))
    return bytes(builder.build())


def _ids(hung: Hung) -> tuple[int, int]:
    return hung.producer_id, hung.producer_epoch
