"""Everybody who reads event bytes, as callables: each is fed every golden example and every piece of garbage.

To add a consumer, append to CONSUMERS. ``feed(data)`` does what the consumer does with one record's value and
answers None when it was taken, or the cause class of the dead letter it became. It must raise nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import Message

from projections.decoding import Decoder
from projections.models.library import LibraryProjection
from projections.models.library_fold import Known, LibraryFold
from projections.models.playback import PlaybackProjection
from projections.models.tasks import TaskProjection, meaning
from projections.offsets import Position
from schemas.codec import Codec
from schemas.errors import ContractError
from schemas.events import EVENTS, UserForgotten
from schemas.ids import SchemaIds
from schemas.library import Change, Command, Observation
from schemas.placement import partition_of
from schemas.topics import (
    LIBRARY_CHANGED,
    LIBRARY_COMMANDS,
    LIBRARY_OBSERVED,
    MEDIA_MERGED,
    PLAYBACK_DECIDED,
    PLAYBACK_REPORTED,
    Topic,
)
from streams.agents import library, playback
from streams.agents.forgetting import forget
from streams.domain.library.invalid import Invalid
from streams.domain.library.outputs import At
from streams.domain.library.rules import apply
from streams.domain.playback import decide
from streams.domain.policy import PLAYTHROUGH
from streams.domain.words import Verdict
from streams.runtime.clock import FakeClock
from streams.runtime.commands import command_partition
from streams.runtime.contract import Contract
from streams.runtime.deadletter import CauseClass
from streams.runtime.errors import Permanent
from tests.agents.rows import DictRows
from tests.domain.library.simple import DictShelf

Feed = Callable[[bytes], str | None]

LOGGED_AT = 1_796_069_700_012
CODEC = Codec(SchemaIds())
CONTRACT = Contract(SchemaIds(), registry=None)


@dataclass(frozen=True)
class Consumer:
    """``takes``: the events it is there for; of any other it must make a dead letter.

    ``judges``: it looks at values too, so an example at the limits may end as a dead letter of a known class;
    the examples named ``minimal`` and ``full`` may not.
    """

    name: str
    feed: Feed
    takes: frozenset[str]
    judges: bool = True


def codec(data: bytes) -> str | None:
    try:
        CODEC.decode(data)
    except ContractError as exc:
        return exc.cause
    return None


def contract(data: bytes) -> str | None:
    try:
        CONTRACT.decode(data)
    except Permanent as exc:
        return exc.cause
    return None


def placed(topic: Topic, data: bytes) -> Message[Any, Any]:
    """The record as it would lie in ``topic``: under its own key, in its person's partition."""
    user: str
    media: str | None
    user, media = "u", "m"
    try:
        event: Any = CODEC.decode(data)
        user, media = event.user_ref, getattr(event, "media_id", None)
    except (ContractError, AttributeError):
        # Garbage, or an event of nobody's playback: any key will do.
        pass
    key = user.encode() if media is None else f"{user}:{media}".encode()
    partition = partition_of(user.encode(), topic.partitions)
    return Message(topic=topic.name, partition=partition, offset=5, key=key, value=data, timestamp=(2, LOGGED_AT))


def agent(data: bytes) -> str | None:
    """One report through the playback agent's step, on an empty table."""
    record = placed(PLAYBACK_REPORTED, data)
    try:
        report = playback.reported(record, CONTRACT)
        if isinstance(report, UserForgotten):
            forget(DictRows(), DictRows(), report.user_ref, LOGGED_AT)
            return None
        decision = decide(None, playback.as_report(report, LOGGED_AT), PLAYTHROUGH)
        if decision.verdict is Verdict.REJECTED or decision.state is None:
            return CauseClass.REJECTED
        return None
    except Permanent as exc:
        return exc.cause


def merges(data: bytes) -> str | None:
    """One merge through the playback agent's step."""
    record = Message(topic=MEDIA_MERGED.name, partition=3, offset=5, key=_media(data), value=data)
    try:
        playback.merged(record, CONTRACT)
    except Permanent as exc:
        return exc.cause
    return None


def _media(data: bytes) -> bytes:
    try:
        event: Any = CODEC.decode(data)
        return str(event.media_id).encode()
    except (ContractError, AttributeError):
        return b"m"


def library_agent(kinds: Any) -> Feed:
    """One record through the library agent's step, on an empty table."""

    def feed(data: bytes) -> str | None:
        key = b"s"
        try:
            event: Any = CODEC.decode(data)
            key = event.source_id.encode()
        except ContractError:
            pass
        partition = partition_of(key, LIBRARY_OBSERVED.partitions)
        record: Message[Any, Any] = Message(
            partition=partition, offset=5, key=key, value=data, timestamp=(2, LOGGED_AT)
        )
        try:
            found = library.expected(record, library.read(record, CONTRACT), kinds)
            apply(DictShelf(), found, At("topic-id", partition, 5, LOGGED_AT))
        except Permanent as exc:
            return exc.cause
        except Invalid:
            return CauseClass.INVALID_VALUE
        return None

    return feed


def projection(data: bytes) -> str | None:
    """One decision through the projection's decoder."""
    positions = {partition: Position(partition, "topic-id") for partition in range(PLAYBACK_DECIDED.partitions)}
    decoder = Decoder(PlaybackProjection(), CONTRACT, FakeClock())
    decoded = decoder.decode([placed(PLAYBACK_DECIDED, data)], positions)
    return decoded.poison[0].error.cause if decoded.poison else None


def tasks(data: bytes) -> str | None:
    """One command through the task projection's decoder, and what it means."""
    key, partition = b"s", 0
    try:
        event: Any = CODEC.decode(data)
        key, partition = event.source_id.encode(), command_partition(event.source_id)
    except ContractError:
        pass
    message: Message[Any, Any] = Message(
        topic=LIBRARY_COMMANDS.name, partition=partition, offset=5, key=key, value=data, timestamp=(2, LOGGED_AT)
    )
    positions = {number: Position(number, "topic-id") for number in range(LIBRARY_COMMANDS.partitions)}
    decoded = Decoder(TaskProjection(), CONTRACT, FakeClock()).decode([message], positions)
    for record in decoded.records:
        meaning(record.event, record.offset)
    return decoded.poison[0].error.cause if decoded.poison else None


def library_projection(data: bytes) -> str | None:
    """One change through the library projection's decoder, and its fold over nothing."""
    key, partition = b"s", 0
    try:
        event: Any = CODEC.decode(data)
        key = event.source_id.encode()
        partition = partition_of(key, LIBRARY_CHANGED.partitions)
        if isinstance(event, Change):
            # Causes of the examples are of partitions of their own.
            event = replace(event, cause=replace(event.cause, partition=partition))
            data = CONTRACT.encode(event)
    except ContractError:
        pass
    message: Message[Any, Any] = Message(
        topic=LIBRARY_CHANGED.name, partition=partition, offset=5, key=key, value=data, timestamp=(2, LOGGED_AT)
    )
    positions = {number: Position(number, "topic-id") for number in range(LIBRARY_CHANGED.partitions)}
    decoded = Decoder(LibraryProjection(), CONTRACT, FakeClock()).decode([message], positions)
    fold = LibraryFold(Known())
    for record in decoded.records:
        fold.apply(record)
    return decoded.poison[0].error.cause if decoded.poison else None


CONSUMERS: tuple[Consumer, ...] = (
    Consumer("codec", codec, frozenset(EVENTS), judges=False),
    Consumer("contract", contract, frozenset(EVENTS), judges=False),
    Consumer("playback agent", agent, frozenset(PLAYBACK_REPORTED.holds)),
    Consumer("playback agent, merges", merges, frozenset(MEDIA_MERGED.holds)),
    Consumer("playback projection", projection, frozenset(PLAYBACK_DECIDED.holds)),
    Consumer("library agent, observations", library_agent(Observation), frozenset(LIBRARY_OBSERVED.holds)),
    Consumer("library agent, commands", library_agent(Command), frozenset(LIBRARY_COMMANDS.holds)),
    Consumer("library projection", library_projection, frozenset(LIBRARY_CHANGED.holds)),
    Consumer("task projection", tasks, frozenset(LIBRARY_COMMANDS.holds)),
)
