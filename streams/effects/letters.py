"""Tasks that are given up become dead letters, at the position of the record that wanted them."""

from __future__ import annotations

from schemas.placement import partition_of, playback_partition
from schemas.topics import DEAD_LETTERS, LIBRARY_COMMANDS, PLAYBACK_DECIDED, Topic
from streams.runtime import forwarding
from streams.runtime.clock import Clock
from streams.runtime.commands import command_partition
from streams.runtime.contract import Contract
from streams.runtime.deadletter import announce, dead_letter, dead_letter_key
from streams.runtime.kafka import topic_id
from streams.runtime.leases import Task
from streams.runtime.outlet import Outlet
from streams.runtime.publisher import Record
from streams.runtime.settings import KafkaSettings


class Letters:
    def __init__(self, kafka: KafkaSettings, contract: Contract, clock: Clock) -> None:
        self._kafka = kafka
        self._contract = contract
        self._clock = clock

    def write(self, task: Task, error: Exception) -> None:
        """Return when the letter is acknowledged. Raises Unavailable.

        The record's own bytes are not at hand; they are in its topic, at the position the letter names.
        """
        topic, partition, record_key, consumer = _of(task)
        letter = dead_letter(
            topic=topic.name,
            topic_id=topic_id(self._kafka, topic.name),
            partition=partition,
            offset=task.version,
            key=record_key,
            value=None,
            error=error,
            consumer=consumer,
            attempts=task.attempt,
            clock=self._clock,
            correlation_id=task.correlation_id,
            source_id=task.source_id,
        )
        key = dead_letter_key(letter.topic, letter.partition)
        place = partition_of(key, DEAD_LETTERS.partitions)
        outlet = Outlet(self._kafka)
        try:
            outlet.publish([Record(DEAD_LETTERS.name, place, key, self._contract.encode(letter))])
        finally:
            outlet.close()
        announce(letter)


def _of(task: Task) -> tuple[Topic, int, bytes, str]:
    """Topic, partition and key of the record that wanted it, and who gave it up: one decision may be several
    servers'."""
    if task.kind == forwarding.KIND:
        record_key = str(task.payload["record"]).encode()
        return PLAYBACK_DECIDED, playback_partition(record_key), record_key, f"work.{task.kind}.{task.source_id}"
    return LIBRARY_COMMANDS, command_partition(task.source_id), task.source_id.encode(), f"work.{task.kind}"
