"""What redriving a letter means, by who gave the record up.

- An agent: its input is appended to its topic once more, with key and value as they were, where the topic places that
  key. Late rules hold there, and a report that was decided after all is a duplicate.
- A projection: the record is read again at its own position and folded with its own version, never appended.
- The worker: what was wanted is asked for again in the log, so that a scan has a generation of its own. Kinds that are
  not asked for by commands are due again in their row.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from projections.dlq.desk import Letter
from schemas.events import DeadLetter
from schemas.library import MetadataRefreshRequested
from schemas.placement import partition_of
from schemas.topics import LIBRARY_COMMANDS, TOPICS, Placement, Topic
from streams.runtime.clock import Clock
from streams.runtime.commands import command_record, scan_requested
from streams.runtime.contract import Contract
from streams.runtime.deadletter import KEY_BYTES_MAX, VALUE_BYTES_MAX
from streams.runtime.publisher import Record

HEADER: Final = "playhead-redrive-of"
"""Names the letter in the record that was made of it."""

AGENT, PROJECTION, WORK = "agent.", "projection.", "work."
_BY_COMMAND: Final = ("scan", "metadata")


@dataclass(frozen=True, slots=True)
class Append:
    """``record`` goes to its topic."""

    record: Record


@dataclass(frozen=True, slots=True)
class Reread:
    """``projection`` folds the record at the letter's place."""

    projection: str


@dataclass(frozen=True, slots=True)
class Revive:
    """The task of this kind that was given up is due again. ``key``: its row's, when the letter names it."""

    kind: str
    key: str | None


@dataclass(frozen=True, slots=True)
class Cannot:
    """Nothing to redrive; ``why`` is one sentence."""

    why: str


Way: TypeAlias = Append | Reread | Revive | Cannot


def way_of(letter: Letter, original: DeadLetter | None, contract: Contract, clock: Clock) -> Way:
    """``original``: the letter with its bytes, None when the log has it no more."""
    consumer = letter.consumer
    if consumer.startswith(PROJECTION):
        return Reread(consumer.removeprefix(PROJECTION))
    if consumer.startswith(WORK):
        # Of one decision that several servers are to be told of, each has a letter: work.forward.SOURCE.
        kind = consumer.removeprefix(WORK).partition(".")[0]
        if kind in _BY_COMMAND and letter.topic == LIBRARY_COMMANDS.name:
            return _asked_again(kind, letter, contract, clock)
        key = None if original is None or original.key is None else original.key.decode("utf-8", "replace")
        return Revive(kind, key)
    if not consumer.startswith(AGENT):
        return Cannot("nobody here knows who gave it up")
    if original is None:
        return Cannot("its bytes are not in the log any more")
    return _appended(letter, original)


def said(way: Way) -> str:
    """In words, for people."""
    match way:
        case Append(record=record):
            return f"appended to {record.topic}[{record.partition}]"
        case Reread(projection=projection):
            return f"read again at its place by projection {projection}"
        case Revive(kind=kind):
            return f"due again as a task of kind {kind}"
        case Cannot(why=why):
            return f"refused: {why}"
        case _:
            assert_never(way)


def _appended(letter: Letter, original: DeadLetter) -> Way:
    topic = next((one for one in TOPICS if one.name == letter.topic), None)
    if topic is None:
        return Cannot("there is no such topic any more")
    if original.value is None or original.key is None:
        return Cannot(f"it has no {'value' if original.value is None else 'key'}: there is nothing to process")
    if len(original.key) >= KEY_BYTES_MAX or len(original.value) >= VALUE_BYTES_MAX:
        return Cannot("the letter does not hold it whole")
    partition = _home(topic, original.key, original.partition)
    headers = ((HEADER, letter.letter_id.encode()),)
    return Append(Record(topic.name, partition, original.key, original.value, headers))


def _asked_again(kind: str, letter: Letter, contract: Contract, clock: Clock) -> Way:
    """As an operator asks for it."""
    if kind == "scan":
        made = scan_requested(letter.source_id, clock, requested_by="operator", correlation_id=letter.correlation_id)
        record = command_record(contract, made)
    else:
        event_id = hashlib.sha256(f"redrive\0{letter.letter_id}".encode()).hexdigest()[:32]
        record = command_record(
            contract,
            MetadataRefreshRequested(
                event_id=event_id,
                correlation_id=letter.correlation_id,
                source_id=letter.source_id,
                received_at=clock.now_ms(),
            ),
        )
    headers = ((HEADER, letter.letter_id.encode()),)
    return Append(Record(record.topic, record.partition, record.key, record.value, headers))


def _home(topic: Topic, key: bytes, lay_in: int) -> int:
    """Where its topic places the record: for one that lay elsewhere, that is what was wrong with it."""
    match topic.placement:
        case Placement.KEY:
            return partition_of(key, topic.partitions)
        case Placement.USER:
            return partition_of(key.partition(b":")[0], topic.partitions)
        case Placement.INPUT | Placement.EVERY:
            return lay_in
        case _:
            assert_never(topic.placement)
