"""The transactional producer of one unit: take the id, then one transaction at a time.

Errors are sorted here and nowhere else: retriable calls are repeated within a budget, what the broker
asks to abort becomes :class:`Aborted` after the abort succeeded, everything else ends the worker.
An outcome that stays unknown (the commit call keeps timing out) is in the last class: the next owner's
``init_transactions`` settles it, and what was not committed is read again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, repeat
from typing import Any, Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from .batch import RawOutput
from .config import EngineConfig
from .errors import Aborted, Crash

log = logging.getLogger(__name__)
T = TypeVar("T")

#: One attempt of a call into librdkafka, in seconds; the budget bounds them all.
ATTEMPT = 10.0

#: Rows of one changelog, in the order in which they are written.
Changes = Mapping[bytes, bytes | None]
Header = tuple[str, bytes]
#: confluent_kafka's ConsumerGroupMetadata: opaque, proves the generation to the broker.
GroupMetadata = Any


class TransactionalProducer(Protocol):
    """The part of confluent_kafka.Producer in use, so that tests can stand in for it."""

    def init_transactions(self, timeout: float = -1) -> None: ...

    def begin_transaction(self) -> None: ...

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None: ...

    def poll(self, timeout: float = -1) -> int: ...

    def flush(self, timeout: float = -1) -> int: ...

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: Any, timeout: float = -1
    ) -> None: ...

    def commit_transaction(self, timeout: float = -1) -> None: ...

    def abort_transaction(self, timeout: float = -1) -> None: ...

    def close(self) -> Any: ...


ProducerFactory = Callable[[EngineConfig, int], TransactionalProducer]


def kafka_producer(config: EngineConfig, partition: int) -> TransactionalProducer:
    """Return a real producer of the unit's transactional id."""
    return Producer(config.producer(partition), logger=log)


class Transactions:
    """One transactional id. Not thread-safe: the unit's lock serialises its use."""

    def __init__(self, config: EngineConfig, partition: int, make: ProducerFactory = kafka_producer) -> None:
        self._config = config
        self._partition = partition
        #: The call that runs, or ran last: what a commit that does not return is waiting for.
        self.step = "nothing yet"
        self._producer = make(config, partition)

    def fence(self) -> None:
        """Take the id over: every older holder is refused from now on, its open transaction aborted."""
        try:
            self._call(self._producer.init_transactions, ATTEMPT, what="init_transactions")
        except Aborted as error:
            raise Crash(str(error)) from error

    def commit(
        self,
        outputs: Iterable[RawOutput],
        changes: Mapping[str, Changes],
        sources: Sequence[TopicPartition],
        group: GroupMetadata,
        headers: Sequence[Header] = (),
    ) -> dict[str, int]:
        """Produce and commit everything in one transaction.

        ``changes`` are the changelog records per changelog topic, at least one each, ``sources`` hold next offsets.
        ``headers`` go with the last record of each changelog, so that any part of a transaction that hangs, or is
        lost, says itself which one it is of.
        Returns per changelog the offset after its last record. Raises Aborted when nothing of it
        happened and it may be tried again, Crash when the worker must end.
        """
        failpoint = self._config.failpoint
        ends: dict[str, int] = {}
        errors: list[KafkaError] = []
        with self._transaction():
            self._produce_all(outputs)
            for topic, rows in changes.items():
                self._produce_changes(topic, rows, headers, ends, errors)
            failpoint("produced")
            self._call(self._producer.send_offsets_to_transaction, list(sources), group, ATTEMPT, what="send_offsets")
            self._flush()
            failpoint("flushed")
            failpoint("before_commit")
        if errors or ends.keys() != changes.keys():
            raise Crash(f"unit {self._partition}: committed, but changelog records failed: {errors}")
        return ends

    def write_again(self, records: Iterable[Message]) -> None:
        """Produce and commit records that were read, headers included, in one transaction. Raises as ``commit``."""
        with self._transaction():
            self._produce_all(
                (r.topic(), r.value(), r.key(), r.partition(), None, None, 0, r.headers() or []) for r in records
            )
            self._flush()
            self._config.failpoint("written_again")

    def close(self) -> None:
        """Release the client. A fenced producer's close raises; there is nothing left to save then."""
        try:
            self._producer.close()
        except (KafkaException, RuntimeError, SystemError) as error:
            log.info("unit %s: closing the producer: %s", self._partition, error)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """What is done inside is committed at its end, or aborted when it can't be. Raises as ``commit``."""
        try:
            self._call(self._producer.begin_transaction, what="begin_transaction")
            yield
            self._call(self._producer.commit_transaction, ATTEMPT, what="commit_transaction")
        except Aborted:
            self._abort()
            raise

    def _produce_all(self, calls: Iterable[tuple[Any, ...]]) -> None:
        """Call ``produce`` with each of ``calls``, waiting while librdkafka's queue is full."""
        produce = self._producer.produce
        for arguments in calls:
            try:
                produce(*arguments)
            except (BufferError, KafkaException) as error:
                self._produce_again(arguments, error)

    def _produce_again(self, arguments: tuple[Any, ...], error: BufferError | KafkaException) -> None:
        while isinstance(error, BufferError):
            self._producer.poll(0.05)
            try:
                self._producer.produce(*arguments)
                return
            except (BufferError, KafkaException) as again:
                error = again
        # For example a record over message.max.bytes: refused locally, nothing was sent.
        raise self._sorted(error, f"produce to {arguments[0]}", refused_locally=True) from error

    def _produce_changes(
        self,
        topic: str,
        rows: Changes,
        headers: Sequence[Header],
        ends: dict[str, int],
        errors: list[KafkaError],
    ) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is not None:
                errors.append(error)
            elif offset is not None:
                ends[topic] = offset + 1

        calls = zip(repeat(topic), rows.values(), rows, repeat(self._partition))
        self._produce_all(islice(calls, len(rows) - 1))
        said = list(headers)
        self._produce_all((*call, delivered, None, 0, said) for call in calls)

    def _flush(self) -> None:
        deadline = time.monotonic() + self._config.operation_timeout
        while self._call(self._producer.flush, ATTEMPT, what="flush"):
            if time.monotonic() > deadline:
                raise Crash(f"unit {self._partition}: outputs are not acknowledged")

    def _abort(self) -> None:
        try:
            self._call(self._producer.abort_transaction, ATTEMPT, what="abort_transaction")
        except Aborted as error:
            raise Crash(str(error)) from error

    def _call(self, function: Callable[..., T], *arguments: object, what: str) -> T:
        """Call and repeat while the error is retriable, until the operation timeout."""
        self.step = what
        deadline = time.monotonic() + self._config.operation_timeout
        while True:
            try:
                return function(*arguments)
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if reason.retriable() and not reason.fatal() and time.monotonic() < deadline:
                    self.step = f"{what} (last answer: {reason})"
                    time.sleep(0.02)
                    continue
                raise self._sorted(error, what) from error

    def _sorted(self, error: KafkaException, what: str, *, refused_locally: bool = False) -> Aborted | Crash:
        reason: KafkaError = error.args[0]
        text = f"unit {self._partition}: {what}: {reason}"
        if not reason.fatal() and (reason.txn_requires_abort() or refused_locally):
            return Aborted(text)
        return Crash(text)
