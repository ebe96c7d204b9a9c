"""Tasks that are given up become dead letters, at the position of the command that wanted them."""

from __future__ import annotations

from schemas.placement import partition_of
from schemas.topics import DEAD_LETTERS, LIBRARY_COMMANDS
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

        The command's own bytes are not at hand; they are in its topic, at the position the letter names.
        """
        letter = dead_letter(
            topic=LIBRARY_COMMANDS.name,
            topic_id=topic_id(self._kafka, LIBRARY_COMMANDS.name),
            partition=command_partition(task.source_id),
            offset=task.version,
            key=task.source_id.encode(),
            value=None,
            error=error,
            consumer=f"work.{task.kind}",
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
