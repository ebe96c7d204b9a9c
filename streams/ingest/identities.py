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
from confluent_kafka.admin import AdminClient, OffsetSpec

from schemas.topics import IDENTITY_USERS
from streams.runtime import logs
from streams.runtime.circuit import Circuit
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.kafka import ASKING
from streams.runtime.publisher import BrokerAway
from streams.runtime.quiet import quieted

Changed = Callable[[bytes, str | None], None]
"""Called in the event loop with a key and its user_ref; None: forgotten."""

CATCH_UP_S: Final = 5.0
REST_S: Final = 1.0
_ASK_S: Final = 2.0
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
        self._questions: queue.SimpleQueue[tuple[dict[int, int], Question]] = queue.SimpleQueue()
        self._client = dict(client)
        self._admin: AdminClient | None = None
        self._stop = threading.Event()
        self._consumer: Consumer | None = None
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> Self:
        consumer = Consumer(self._config, logger=quieted("librdkafka.identities"))
        consumer.assign([TopicPartition(IDENTITY_USERS.name, p, OFFSET_BEGINNING) for p in self._read_to])
        self._consumer = consumer
        self._admin = AdminClient({**self._client, **ASKING}, logger=quieted("librdkafka.identities"))
        self._thread = threading.Thread(
            target=self._read, args=(consumer, asyncio.get_running_loop()), name="identities", daemon=True
        )
        self._thread.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        self._admin = None
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
        try:
            ends = await asyncio.wait_for(self._ends(), _ASK_S)
            self._questions.put((ends, question))
            await asyncio.wait_for(asyncio.wrap_future(question), CATCH_UP_S)
        except TimeoutError:
            raise BrokerAway("who is known can't be read in time") from None
        except KafkaException as exc:
            raise BrokerAway(f"Kafka does not answer: {exc.args[0].name()}") from exc

    async def _ends(self) -> dict[int, int]:
        """Where each partition ends. Asked over a connection of its own: on the consumer's, every question would
        wait behind a fetch that waits for news."""
        if self._admin is None:
            raise BrokerAway("the door is closed")
        places = {TopicPartition(IDENTITY_USERS.name, p): OffsetSpec.latest() for p in self._read_to}  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets(places, request_timeout=_ASK_S)
        found = await asyncio.gather(*(asyncio.wrap_future(future) for future in asked.values()))
        return {place.partition: end.offset for place, end in zip(asked, found, strict=True)}

    # --- the thread

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
            asked += self._waiting()
            for place in [one for one in asked if one[1].done() or self._is_at(one[0])]:
                asked.remove(place)
                with contextlib.suppress(InvalidStateError):  # whoever asked has gone
                    place[1].set_result(None)

    def _waiting(self) -> Iterator[tuple[dict[int, int], Question]]:
        while True:
            try:
                yield self._questions.get_nowait()
            except queue.Empty:
                return

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
