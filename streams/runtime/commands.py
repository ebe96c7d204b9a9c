"""Commands of the library, as everybody who gives them makes them: keyed and placed by their source.

A scan's generation is the offset of its request, so who asks for one learns its generation from the acknowledgement.
"""

from __future__ import annotations

import re
import uuid

from schemas.library import Command, ReconcileRequested, ScanCancelled, ScanConfirmed, ScanRequested
from schemas.placement import partition_of
from schemas.topics import LIBRARY_COMMANDS
from streams.runtime.clock import Clock
from streams.runtime.contract import Contract
from streams.runtime.publisher import Record

_SCAN = re.compile(r"([a-z0-9][a-z0-9._-]{0,63}):(\d{1,18})")


def scan_id(source_id: str, generation: int) -> str:
    """What the outside world calls a scan."""
    return f"{source_id}:{generation}"


def parse_scan_id(text: str) -> tuple[str, int] | None:
    """``(source_id, generation)``; None when ``text`` is no scan's id."""
    found = _SCAN.fullmatch(text)
    return (found[1], int(found[2])) if found else None


def command_partition(source_id: str) -> int:
    """Where commands and observations of a source lie: both topics have the same number of partitions for life."""
    return partition_of(source_id.encode(), LIBRARY_COMMANDS.partitions)


def command_record(contract: Contract, command: Command) -> Record:
    """The record of library.commands."""
    key = command.source_id.encode()
    return Record(LIBRARY_COMMANDS.name, command_partition(command.source_id), key, contract.encode(command))


def scan_requested(
    source_id: str,
    clock: Clock,
    *,
    requested_by: str,
    full: bool = False,
    replaces: int | None = None,
    correlation_id: str | None = None,
) -> ScanRequested:
    event_id = uuid.uuid4().hex
    return ScanRequested(
        event_id=event_id,
        correlation_id=correlation_id or event_id,
        source_id=source_id,
        received_at=clock.now_ms(),
        requested_by=requested_by,
        full=full,
        replaces=replaces,
    )


def scan_confirmed(
    source_id: str, clock: Clock, generation: int, *, correlation_id: str | None = None
) -> ScanConfirmed:
    event_id = uuid.uuid4().hex
    return ScanConfirmed(
        event_id=event_id,
        correlation_id=correlation_id or event_id,
        source_id=source_id,
        received_at=clock.now_ms(),
        generation=generation,
    )


def scan_cancelled(
    source_id: str, clock: Clock, generation: int, *, correlation_id: str | None = None
) -> ScanCancelled:
    event_id = uuid.uuid4().hex
    return ScanCancelled(
        event_id=event_id,
        correlation_id=correlation_id or event_id,
        source_id=source_id,
        received_at=clock.now_ms(),
        generation=generation,
    )


def reconcile_requested(
    source_id: str, clock: Clock, scope: str, *, correlation_id: str | None = None
) -> ReconcileRequested:
    event_id = uuid.uuid4().hex
    return ReconcileRequested(
        event_id=event_id,
        correlation_id=correlation_id or event_id,
        source_id=source_id,
        received_at=clock.now_ms(),
        scope=scope,
    )
