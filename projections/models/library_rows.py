"""What a change of the library means for its read models: pure functions of the record, no state, no clock."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import xxhash

from projections.base import Record
from schemas.events import MERGED
from schemas.library import Change, ItemChanged, MediaAliased, MediaMerged, ScanChanged, SourceHeld
from schemas.placement import partition_of
from schemas.topics import LIBRARY_CHANGED
from streams.runtime.errors import Permanent

STATUSES: Final = ("present", "provisional", "missing", "archived", "deleted")
"""Of an item; each has a column in the tables that count."""
SCAN_STATUSES: Final = frozenset(
    {"running", "finalizing", "held", "finalized", "failed", "cancelled", "superseded", "incomplete"}
)
_UNDER_WAY = frozenset({"running", "finalizing", "held"})
FOLDER: Final = "folder"
"""Kind of the collections that follow from where items lie."""

Stamp: TypeAlias = tuple[int, int]
"""A version: (log_epoch, offset)."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A collection as a record names it."""

    collection_id: str
    kind: str
    key: str
    name: str


def stamp_of(record: Record[Change]) -> Stamp:
    return record.log_epoch, record.offset


def hold_by_source(event: Change, key: bytes, partition: int) -> None:
    """Return when ``key`` and ``partition`` are those of the event's source. Raises Permanent, saying which is not."""
    placement = event.source_id.encode()
    if key != placement:
        raise Permanent("the key is not the source's", cause="key_mismatch")
    if partition != partition_of(placement, LIBRARY_CHANGED.partitions):
        raise Permanent("changes of this source are in another partition", cause="wrong_partition")


def hold_sane(event: Change) -> None:
    """Return when the values can be rows. Raises Permanent."""
    cause = event.cause
    if not event.source_id or cause.offset < 0 or cause.index < 0:
        raise Permanent("no source, or the cause is no position", cause="invalid_value")
    match event:
        case ItemChanged(media_id=media, status=status):
            if not media or status not in STATUSES:
                raise Permanent("an item without an id, or of an unknown status", cause="invalid_value")
        case MediaAliased(upstream_id=upstream, media_id=media):
            if not upstream or not media:
                raise Permanent("an alias without an id", cause="invalid_value")
        case MediaMerged(media_id=media, survivor=survivor):
            if not media or not survivor or media == survivor:
                raise Permanent("a merge needs two media", cause="invalid_value")
        case ScanChanged(status=status, generation=generation):
            if generation < 0 or status not in SCAN_STATUSES:
                raise Permanent("a scan without a generation, or of an unknown status", cause="invalid_value")
        case SourceHeld():
            pass


def item_key(media_id: str) -> str:
    """Cache key of one media."""
    return f"item:{media_id}"


def collection_key(collection_id: str) -> str:
    """Cache key of one collection."""
    return f"collection:{collection_id}"


def collection_id(source_id: str, kind: str, key: str | bytes) -> str:
    """32 hex digits. ``key``: of a folder its path, as bytes."""
    raw = key if isinstance(key, bytes) else key.encode()
    return str(xxhash.xxh3_128_hexdigest(b"\0".join((source_id.encode(), kind.encode(), raw))))


def folder_of(path: bytes) -> bytes:
    """The path up to its last slash; empty: it lies in the root."""
    return path.rpartition(b"/")[0]


def shown(path: bytes) -> str:
    r"""A path for people: UTF-8, what is none and NUL as ``\xNN``. Two paths may be shown alike."""
    return path.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def collections_of(event: ItemChanged) -> dict[str, Ref]:
    """What the item is in: as its details say, and the folders it lies in.

    Folders follow from the locators alone, for details may be older than a move.
    """
    refs: dict[str, Ref] = {}
    for told in event.details.collections if event.details else ():
        if told.kind != FOLDER:
            its_id = collection_id(event.source_id, told.kind, told.key)
            refs[its_id] = Ref(its_id, told.kind, told.key, told.name)
    for folder in {folder_of(locator.path) for locator in event.locators} - {b""}:
        its_id = collection_id(event.source_id, FOLDER, folder)
        refs[its_id] = Ref(its_id, FOLDER, shown(folder), shown(folder.rpartition(b"/")[2]))
    return refs


def reason_of(event: Change) -> str:
    """What an invalidation says of why."""
    match event:
        case ItemChanged():
            return " ".join(event.changes) or event.status
        case MediaAliased():
            return "aliased"
        case MediaMerged():
            return MERGED
        case ScanChanged():
            return event.status
        case SourceHeld():
            return event.reason


def item_row(event: ItemChanged, merged: bool, newest: Record[Change]) -> tuple[Any, ...]:
    """In the order of library_sql.ITEM_COLUMNS. ``newest``: the last record about it, which gives the version."""
    details = event.details
    return (
        event.media_id,
        event.source_id,
        event.status,
        merged,
        event.readable,
        event.generation,
        event.upstream_id,
        event.work_id,
        details and details.version,
        details and details.content_hash,
        details and details.media_kind,
        details and details.item_kind,
        details and details.title,
        details and details.duration_ms,
        details and details.year,
        details and details.number,
        details and details.part,
        list(details.artists) if details else [],
        json.dumps([[one.provider, one.id] for one in details.provider_ids] if details else []),
        event.first_seen_at,
        event.logged_at,
        event.correlation_id,
        newest.partition,
        newest.log_epoch,
        newest.offset,
    )


def locator_rows(event: ItemChanged) -> list[tuple[Any, ...]]:
    """In the order of library_sql.LOCATOR_COLUMNS."""
    return [
        (
            event.media_id,
            ordinal,
            event.source_id,
            folder_of(one.path),
            one.path,
            one.size,
            one.mtime_ns,
            one.device,
            one.inode,
        )
        for ordinal, one in enumerate(event.locators)
    ]


def scan_row(record: Record[Change], event: ScanChanged, held_at: int | None) -> tuple[Any, ...]:
    """In the order of library_sql.SCAN_COLUMNS. ``held_at``: when it was held first, as far as this batch tells."""
    return (
        event.source_id,
        event.generation,
        event.requested_by,
        event.status,
        event.reason,
        event.observations,
        event.seen,
        event.added,
        event.changed,
        event.moved,
        event.missing,
        event.present_before,
        event.unreadable,
        json.dumps({one.reason: one.count for one in event.skipped}),
        event.started_at,
        event.logged_at,
        held_at,
        None if event.status in _UNDER_WAY else event.logged_at,
        event.correlation_id,
        record.partition,
        record.log_epoch,
        record.offset,
    )
