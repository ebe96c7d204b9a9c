"""What identity.users says: keyed hash of a person → user_ref, followed by every door.

The table can be restored to an older state; the log of who is who is not restored with it. So the log goes before
the table: a person the table has lost gets the user_ref back they had, and a link an operator made reaches all
doors as soon as Kafka has it. About 150 bytes of memory for each person.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from typing import Any, Final, Protocol, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from schemas.topics import IDENTITY_USERS
from streams.runtime import logs
from streams.runtime.circuit import Circuit
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.publisher import BrokerAway
from streams.runtime.quiet import quieted

Changed = Callable[[bytes, str | None], None]
"""Called in the event loop with a key and its user_ref; None: forgotten."""

CATCH_UP_S: Final = 5.0
REST_S: Final = 1.0
_ASK_S: Final = 1.0
_POLL_S: Final = 0.05
_PIECE: Final = 500
_log = logs.get(__name__)


Question = Future[None]
"""Answered by the thread when it has read up to the end there was."""


class Identities(Protocol):
    def seen(self, key: bytes) -> str | None:
        """The user_ref of a key as far as the log was read; costs nothing."""
        ...

    async def current(self, keys: Collection[bytes]) -> Mapping[bytes, str]:
        """The user_ref of those the log has now. Raises BrokerAway when that can't be told."""
        ...

    def tell(self, changed: Changed) -> None:
        """Call ``changed`` with all that is read from now on."""
        ...


class NothingWritten:
    """The Identities of a house whose table is all there is."""

    def seen(self, key: bytes) -> str | None:
        del key
        return None

    async def current(self, keys: Collection[bytes]) -> Mapping[bytes, str]:
        del keys
        return {}

    def tell(self, changed: Changed) -> None:
        del changed


class KafkaIdentities:
    """The Identities over identity.users, read by a thread while entered. Entering needs no broker."""

    def __init__(self, client: Mapping[str, Any], clock: Clock | None = None) -> None:
        self._circuit = Circuit(IDENTITY_USERS.name, clock or SystemClock(), rest_s=REST_S)
        self._config = {
            **client,
            # No group is joined and nothing committed; the setting is needed all the same.
            "group.id": "playhead-identities",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "reconnect.backoff.max.ms": 500,
        }
        self._changed: list[Changed] = []
        self._refs: dict[bytes, bytes] = {}
        self._read_to = dict.fromkeys(range(IDENTITY_USERS.partitions), 0)
        self._questions: queue.SimpleQueue[Question] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._consumer: Consumer | None = None
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> Self:
        consumer = Consumer(self._config, logger=quieted("librdkafka.identities"))
        consumer.assign([TopicPartition(IDENTITY_USERS.name, p, OFFSET_BEGINNING) for p in self._read_to])
        self._consumer = consumer
        self._thread = threading.Thread(
            target=self._read, args=(consumer, asyncio.get_running_loop()), name="identities", daemon=True
        )
        self._thread.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await asyncio.to_thread(consumer.close)

    def seen(self, key: bytes) -> str | None:
        ref = self._refs.get(bytes.fromhex(key.decode()))
        return None if ref is None else ref.decode()

    async def current(self, keys: Collection[bytes]) -> Mapping[bytes, str]:
        if not self._circuit.enter():
            raise BrokerAway("Kafka does not answer", retry_after_s=self._circuit.retry_after_s)
        try:
            await self._caught_up()
        except BrokerAway:
            self._circuit.failed()
            raise
        except BaseException:
            self._circuit.abandoned()
            raise
        self._circuit.succeeded()
        return {key: ref for key in keys if (ref := self.seen(key)) is not None}

    def tell(self, changed: Changed) -> None:
        self._changed.append(changed)

    async def _caught_up(self) -> None:
        """Return when all is read that was in the log when this was called. Raises BrokerAway."""
        question: Question = Future()
        self._questions.put(question)
        try:
            await asyncio.wait_for(asyncio.wrap_future(question), CATCH_UP_S)
        except TimeoutError:
            raise BrokerAway("who is known can't be read in time") from None

    # --- the thread: the only one that calls the consumer, for a second caller may wait for ever

    def _read(self, consumer: Consumer, loop: asyncio.AbstractEventLoop) -> None:
        asked: list[tuple[dict[int, int], Question]] = []
        while not self._stop.is_set():
            try:
                first = consumer.poll(_POLL_S)
                messages = [] if first is None else [first, *consumer.consume(_PIECE, timeout=0)]
            except KafkaException as exc:
                _log.error("who is known can't be read", error=exc.args[0].name())
                self._stop.wait(_POLL_S)
                continue
            for message in messages:
                self._apply(message, loop)
            if questions := list(self._waiting()):
                try:
                    ends = self._ends(consumer)
                except BrokerAway as away:
                    for question in questions:
                        _answer(question, away)
                else:
                    asked += [(ends, question) for question in questions]
            for place in [one for one in asked if one[1].done() or self._is_at(one[0])]:
                asked.remove(place)
                _answer(place[1], None)

    def _waiting(self) -> Iterator[Question]:
        while True:
            try:
                yield self._questions.get_nowait()
            except queue.Empty:
                return

    def _ends(self, consumer: Consumer) -> dict[int, int]:
        ends: dict[int, int] = {}
        for partition in self._read_to:
            try:
                marks = consumer.get_watermark_offsets(TopicPartition(IDENTITY_USERS.name, partition), timeout=_ASK_S)
            except KafkaException as exc:
                raise BrokerAway(f"Kafka does not answer: {exc.args[0].name()}") from exc
            if marks is None:
                raise BrokerAway("Kafka does not answer")
            ends[partition] = marks[1]
        return ends

    def _is_at(self, ends: Mapping[int, int]) -> bool:
        return all(self._read_to[partition] >= end for partition, end in ends.items())

    def _apply(self, message: Message, loop: asyncio.AbstractEventLoop) -> None:
        partition, offset, error = message.partition(), message.offset(), message.error()
        if partition is None:
            return
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF and offset is not None:
                # Also after compaction, or another log under the same name: what was read is the end.
                self._read_to[partition] = offset
            return
        assert offset is not None
        self._read_to[partition] = offset + 1
        key, value = message.key(), message.value()
        try:
            person = bytes.fromhex((key or b"").decode())
        except ValueError:
            return  # not written by any build of ours
        if value:
            self._refs[person] = value
        else:
            self._refs.pop(person, None)
        for changed in self._changed:
            try:
                loop.call_soon_threadsafe(changed, key or b"", value.decode() if value else None)
            except RuntimeError:
                return  # the loop is closed: the thread is about to end


def _answer(question: Question, away: BrokerAway | None) -> None:
    with contextlib.suppress(InvalidStateError):  # whoever asked has gone
        if away is None:
            question.set_result(None)
        else:
            question.set_exception(away)
