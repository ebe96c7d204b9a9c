"""The library agent: what scans, hooks and people say becomes what the library is.

Two sources: observations, and the commands that change what they mean. Outputs, rows and offset commit together
(streams/engine). The end of a scan is long work in pieces: the agent sends itself a FinalizeContinued, in the
transaction of the piece before.

What no rules can be applied to is a dead letter with its bytes: garbage, a record in another partition than its
source's, a key that contradicts its payload, an impossible value. One of a scan leaves a gap in the scan's numbers,
so that scan marks nothing missing.
"""

from __future__ import annotations

import asyncio
from typing import Any

from confluent_kafka import Message

from schemas.errors import InvalidValue
from schemas.events import Event
from schemas.library import (
    Change,
    Command,
    FinalizeContinued,
    Observation,
)
from schemas.placement import partition_of
from schemas.topics import LIBRARY_COMMANDS, LIBRARY_OBSERVED
from streams.agents import library_state as rows
from streams.agents.agent import Agent, AgentTable
from streams.agents.library_events import EVERYWHERE, OUTPUTS, count, tell
from streams.agents.library_needs import behind, places
from streams.agents.library_shelf import TableShelf
from streams.domain.library import keys
from streams.domain.library.invalid import Invalid
from streams.domain.library.outputs import At
from streams.domain.library.rules import apply
from streams.engine import App, Batch, Refused
from streams.runtime import logs
from streams.runtime.contract import Contract
from streams.runtime.errors import ConfigurationError, Permanent, Unavailable
from streams.runtime.settings import Settings

TABLE = "library"
REGISTRY_WAIT_S = 2.0
#: Records after which others have their turn: decisions about playback must not wait for a scan.
TURN = 50
BATCH_RECORDS_MAX = 1_000

Read = Event | Exception

_log = logs.get(__name__)


def declare(app: App, settings: Settings, contract: Contract) -> None:  # noqa: ARG001
    """Declare the table and the agents of both topics on ``app``. Nothing connects here."""
    shelf = TableShelf(app.Table(TABLE, help="rows of a source's library, by source_id:row"))

    @app.agent(app.source(LIBRARY_OBSERVED.name), outputs=OUTPUTS, everywhere=EVERYWHERE)
    async def library(stream: Any) -> None:
        async for batch in stream:
            await _batch(batch, shelf, contract, Observation)

    @app.agent(app.source(LIBRARY_COMMANDS.name))
    async def library_commands(stream: Any) -> None:
        async for batch in stream:
            await _batch(batch, shelf, contract, Command)


async def _batch(batch: Batch, shelf: TableShelf, contract: Contract, kinds: Any) -> None:
    ahead = [read(record, contract) for record in batch.records]
    shelf.load(dict.fromkeys(places(ahead)))
    shelf.load(dict.fromkeys(behind(ahead, shelf)))
    for number, (record, found) in enumerate(zip(batch.records, ahead, strict=True)):
        if number % TURN == TURN - 1:
            await asyncio.sleep(0)
        done = process(batch, record, shelf, contract, kinds, found)
        while not done:
            # Only an absent registry can tell what this record is. Waiting is no hang.
            batch.keep_alive()
            await asyncio.sleep(REGISTRY_WAIT_S)
            done = process(batch, record, shelf, contract, kinds)


def read(record: Message, contract: Contract) -> Read:
    """The event in ``record``, or why there is none."""
    value = record.value()
    if record.key() is None:
        return Permanent("a record of the library needs a key", cause="null_key")
    if value is None:
        return Permanent("a record of the library needs a value: history has no tombstones", cause="null_value")
    try:
        return contract.decode(value)
    except (Permanent, Unavailable, ConfigurationError) as exc:
        return exc


def process(
    batch: Batch, record: Message, shelf: TableShelf, contract: Contract, kinds: Any, found: Read | None = None
) -> bool:
    """Apply one record inside the batch's transaction. False when it must be tried again later.

    ``found``: what was read of it, when it was. Raises Refused when this build is too old for the record or a row;
    anything else unexpected passes through and ends the worker.
    """
    event: Observation | Command | None = None
    try:
        with batch.guard(record):
            event = expected(record, read(record, contract) if found is None else found, kinds)
            at = At(batch.topic_id, batch.partition, _offset(record), record.timestamp()[1])
            try:
                outputs = apply(shelf, event, at)
            except (Invalid, InvalidValue) as exc:
                # The second: a number that does not fit a row. Numbers that do not come from records always do.
                raise Permanent(
                    str(exc),
                    cause="invalid_value",
                    correlation_id=event.correlation_id,
                    source_id=event.source_id,
                ) from exc
            if outputs:

                def send(topic: str, told: Change | FinalizeContinued, key: bytes, partition: int) -> None:
                    batch.send(topic, contract.encode(told), key=key, partition=partition)

                index = 0
                for output in outputs:
                    index += tell(output, event, at, index, send)
                for output in outputs:
                    count(output, at)
    except Unavailable as exc:
        _log.warning("waiting", reason=str(exc), partition=batch.partition, offset=record.offset())
        return False
    except ConfigurationError as exc:
        raise Refused(str(exc)) from exc
    except Exception as exc:
        if event is not None:
            exc.add_note(f"correlation id {event.correlation_id}")
        raise
    return True


def expected(record: Message, found: Read, kinds: Any) -> Any:
    """The event of ``kinds`` that was read. Raises what was found instead, and Permanent when it is not where it
    belongs."""
    if isinstance(found, Exception):
        raise found
    if not isinstance(found, kinds):
        raise Permanent(f"a {type(found).__name__} does not belong here", cause="wrong_event")
    key = record.key()
    assert key is not None
    if key != found.source_id.encode():
        raise Permanent("the key is not source_id of the payload", cause="key_mismatch")
    if partition_of(key, LIBRARY_OBSERVED.partitions) != record.partition():
        raise Permanent("the source's records belong in another partition", cause="wrong_partition")
    return found


def home(key: bytes) -> int:
    """The partition of a row. Raises ValueError for what is no key of one."""
    return partition_of(keys.source_of(key), LIBRARY_OBSERVED.partitions)


def _offset(record: Message) -> int:
    offset = record.offset()
    assert offset is not None
    return offset


AGENT = Agent(
    name="library",
    tables=(
        AgentTable(
            name=TABLE,
            holds="what is known of a source's library",
            key_form="source_id:row (rows by kind: streams/domain/library/keys.py)",
            readable=rows.readable,
            home=home,
        ),
    ),
    outputs=(*OUTPUTS, *EVERYWHERE),
    declare=declare,
    batch_records_max=lambda settings: min(BATCH_RECORDS_MAX, settings.playback.batch_records_max),
    bulk=True,
)
