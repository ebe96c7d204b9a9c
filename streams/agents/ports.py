"""What the engine asks of its surroundings, answered by Playhead: dead letters, metrics, failpoints."""

from __future__ import annotations

from confluent_kafka import Message

from schemas.topics import DEAD_LETTERS
from streams.engine import Failpoint, Output, SourcePosition
from streams.runtime import failpoints, metrics
from streams.runtime.clock import Clock
from streams.runtime.contract import Contract
from streams.runtime.deadletter import announce, dead_letter, dead_letter_key
from streams.runtime.errors import Permanent


class DeadLetters:
    """Makes the dead letter of a record an agent gave up; it commits in the record's own transaction."""

    def __init__(self, consumer: str, contract: Contract, clock: Clock) -> None:
        self._consumer = consumer
        self._contract = contract
        self._clock = clock

    def make(self, record: Message, error: Exception, attempt: int, position: SourcePosition) -> Output:
        letter = dead_letter(
            topic=position.topic,
            topic_id=position.topic_id,
            partition=position.partition,
            offset=position.offset,
            key=record.key(),
            value=record.value(),
            error=error,
            consumer=self._consumer,
            attempts=attempt,
            clock=self._clock,
            correlation_id=error.correlation_id if isinstance(error, Permanent) else None,
            source_id=error.source_id if isinstance(error, Permanent) else None,
        )
        announce(letter)
        key = dead_letter_key(position.topic, position.partition)
        return Output(DEAD_LETTERS.name, self._contract.encode(letter), key)


class EngineMetrics:
    """The engine's numbers as Prometheus metrics of one agent."""

    def __init__(self, agent: str) -> None:
        self._agent = agent

    def batch_committed(self, topic: str, partition: int, records: int, seconds: float) -> None:  # noqa: ARG002
        metrics.BATCHES.labels(self._agent).inc()
        metrics.BATCH_RECORDS.labels(self._agent).inc(records)
        metrics.COMMIT_SECONDS.labels(self._agent).observe(seconds)

    def batch_aborted(self, topic: str, partition: int) -> None:  # noqa: ARG002
        metrics.ABORTS.labels(self._agent).inc()

    def dead_letters(self, topic: str, partition: int, count: int) -> None:
        """Counted where they are made, with their cause."""

    def restoring(self, done: int, total: int) -> None:
        metrics.RESTORE_PROGRESS.labels(self._agent).set(done / total if total else 1.0)
        metrics.RESTORE_LEFT_RECORDS.labels(self._agent).set(total - done)

    def restored(self, partition: int, records: int, seconds: float) -> None:  # noqa: ARG002
        metrics.RESTORED_RECORDS.labels(self._agent).inc(records)

    def units_assigned(self, count: int) -> None:
        metrics.ASSIGNED_UNITS.labels(self._agent).set(count)

    def records_buffered(self, count: int) -> None:
        metrics.BUFFERED_RECORDS.labels(self._agent).set(count)

    def lag(self, topic: str, partition: int, records: int) -> None:  # noqa: ARG002
        metrics.AGENT_LAG_RECORDS.labels(self._agent, str(partition)).set(records)


def failpoint(specification: str) -> Failpoint:
    """The engine's step boundaries are failpoints ``agent.<step>``."""
    hit = failpoints.armed(specification)
    return lambda step: hit(f"agent.{step}")
