"""The library projection: changes to items, where they lie, collections, aliases, merges, scans and sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from projections.base import Connection, Folded, Invalidation, Projection, Record
from projections.models import library_sql as sql
from projections.models.library_fold import ItemAfter, Known, KnownItem, KnownMerge, LibraryFold
from projections.models.library_rows import (
    STATUSES,
    hold_by_source,
    hold_sane,
    item_row,
    locator_rows,
    reason_of,
    scan_row,
)
from projections.models.playback_rows import continue_key, progress_key
from schemas.events import Event, SourcePosition
from schemas.library import Change, ItemChanged, MediaAliased, MediaMerged, ScanChanged, SourceHeld
from schemas.topics import LIBRARY_CHANGED
from streams.runtime.errors import Permanent


class LibraryProjection(Projection[Change]):
    """library.changed to the library's tables of schema model, and to core.media_aliases, where the door looks."""

    name = "library"
    topic = LIBRARY_CHANGED
    version = 1
    tables = (
        "media_items",
        "media_locators",
        "media_merges",
        "upstream_aliases",
        "scan_sessions",
        "source_state",
        "collections",
        "collection_items",
    )
    elsewhere = ("media_aliases", "alias_versions")
    reads = ("model.playback_progress", "model.user_versions")
    from_anywhere = False

    def accept(self, key: bytes, event: Event, partition: int) -> Change:
        if not isinstance(event, Change):
            raise Permanent(f"a {type(event).__name__} is no change of a library", cause="wrong_event")
        hold_by_source(event, key, partition)
        if event.cause.partition != partition:
            raise Permanent("what caused it is of another partition", cause="wrong_partition")
        hold_sane(event)
        return event

    def cause(self, event: Change) -> SourcePosition:
        return event.cause

    def prepare(self, connection: Connection) -> None:
        connection.execute(sql.CREATE_STAGES.encode())

    def renew_elsewhere(self, tx: Connection) -> None:
        # What the door looks up follows; names it made up itself and the library never spoke of stay.
        tx.execute(sql.RENEW_DOORS_ALIASES.encode())

    def fold(self, batch: Sequence[Record[Change]], tx: Connection) -> Folded:
        fold = LibraryFold(_known(batch, tx))
        for record in batch:
            fold.apply(record)
        _write_items(fold, tx)
        _write_collections(fold, tx)
        _write_names(fold, tx)
        _tell_doors(batch, tx)
        _write_sources(fold, tx)
        return Folded([*fold.invalidations(), *_merged_playback(fold, tx)], stale=fold.stale)

    def fold_late(self, record: Record[Change], tx: Connection) -> Folded:
        """As ever; but collections that an item only passed through do not tell of it. Raises Permanent when media it
        is about were merged since: the rows do not tell how they stood before."""
        event = record.event
        if _merged_since(record, tx):
            raise Permanent(
                "media it is about were merged since: 'playhead rebuild library' folds it at its place", cause="other"
            )
        folded = self.fold([record], tx)
        if isinstance(event, SourceHeld):
            _hold_source(sql.HOLD_SOURCE_LATE, event, tx)
        return folded


def _merged_since(record: Record[Change], tx: Connection) -> bool:
    match record.event:
        case ItemChanged(media_id=media_id):
            media = [media_id]
        case MediaMerged(media_id=media_id, survivor=survivor):
            media = [media_id, survivor]
        case _:
            return False
    named = {"media": media, "log_epoch": record.log_epoch, "version": record.offset}
    row = tx.execute(sql.MERGED_SINCE.encode(), named).fetchone()
    return bool(row and row[0])


def _known(batch: Sequence[Record[Change]], tx: Connection) -> Known:
    """What the rows say of everything the batch names; nobody else writes them while offsets are held."""
    items: set[str] = set()
    merged: set[str] = set()
    survivors: set[str] = set()
    aliases: set[tuple[str, str]] = set()
    scans: set[tuple[str, int]] = set()
    for event in (record.event for record in batch):
        match event:
            case ItemChanged() | MediaAliased():
                items.add(event.media_id)
                if isinstance(event, MediaAliased):
                    aliases.add((event.source_id, event.upstream_id))
            case MediaMerged():
                merged.add(event.media_id)
                survivors.add(event.survivor)
            case ScanChanged():
                scans.add((event.source_id, event.generation))
    merges: dict[str, KnownMerge] = {}
    if merged:
        ends = list(merged | survivors)
        rows = tx.execute(sql.KNOWN_MERGES.encode(), (ends, list(merged))).fetchall()
        merges = {row[0]: KnownMerge(row[1], (row[2], row[3])) for row in rows}
        items |= merged | survivors | {one.survivor for one in merges.values()}
    known = tx.execute(sql.KNOWN_ITEMS.encode(), (list(items),)).fetchall() if items else []
    sources = list({record.event.source_id for record in batch})
    return Known(
        items={row[0]: KnownItem(row[1], (row[2], row[3]), row[4], row[5], frozenset(row[6])) for row in known},
        merges=merges,
        aliases={(row[0], row[1]): (row[2], row[3]) for row in _pairs(tx, sql.KNOWN_ALIASES, aliases)},
        scans={(row[0], row[1]): (row[2], row[3]) for row in _pairs(tx, sql.KNOWN_SCANS, scans)},
        sources={row[0]: (row[1], row[2]) for row in tx.execute(sql.KNOWN_SOURCES.encode(), (sources,)).fetchall()},
    )


def _pairs(tx: Connection, query: str, pairs: Iterable[tuple[str, Any]]) -> list[tuple[Any, ...]]:
    columns = _columns(pairs)
    return tx.execute(query.encode(), columns).fetchall() if columns else []


def _columns(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows turned into columns, as unnest takes them; empty without rows."""
    return [list(column) for column in zip(*rows, strict=True)]


def _write_items(fold: LibraryFold, tx: Connection) -> None:
    items = fold.items
    if not items:
        return
    whole = {media: after for media, after in items.items() if after.content is not None}
    with tx.cursor().copy(sql.COPY_ITEMS.encode()) as copy:
        for after in whole.values():
            assert after.content is not None
            copy.write_row(item_row(after.content, after.now.merged, after.newest))
    tx.execute(sql.UPSERT_ITEMS.encode())
    touched = _columns(
        (media, after.now.merged, after.newest.partition, after.newest.log_epoch, after.newest.offset)
        for media, after in items.items()
        if after.content is None
    )
    if touched:
        tx.execute(sql.TOUCH_ITEMS.encode(), touched)
    _write_locators(fold, items, tx)
    left, joined = _members(fold, items)
    if left:
        tx.execute(sql.DELETE_MEMBERS.encode(), _columns(left))
    if joined:
        with tx.cursor().copy(sql.COPY_MEMBERS.encode()) as copy:
            for pair in joined:
                copy.write_row(pair)


def _write_locators(fold: LibraryFold, items: dict[str, ItemAfter], tx: Connection) -> None:
    before = [
        media
        for media, after in items.items()
        if media in fold.known.items and (after.content is not None or after.now.merged)
    ]
    if before:
        tx.execute(sql.DELETE_LOCATORS.encode(), (before,))
    with tx.cursor().copy(sql.COPY_LOCATORS.encode()) as copy:
        for after in items.values():
            if after.content is not None and not after.now.merged:
                for row in locator_rows(after.content):
                    copy.write_row(row)


def _members(fold: LibraryFold, items: dict[str, ItemAfter]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(collection, media) that are no more, and that are new."""
    left: list[tuple[str, str]] = []
    joined: list[tuple[str, str]] = []
    for media, after in sorted(items.items()):
        known = fold.known.items.get(media)
        before = known.collections if known else frozenset[str]()
        left += [(one, media) for one in sorted(before - after.now.collections)]
        joined += [(one, media) for one in sorted(after.now.collections - before)]
    return left, joined


def _write_collections(fold: LibraryFold, tx: Connection) -> None:
    if not fold.collections:
        return
    with tx.cursor().copy(sql.COPY_COLLECTIONS.encode()) as copy:
        for its_id, after in fold.collections.items():
            ref, newest = after.ref, after.newest
            copy.write_row(
                (
                    its_id,
                    after.source_id,
                    ref and ref.kind,
                    ref and ref.key,
                    ref and ref.name,
                    *(after.counts[status] for status in STATUSES),
                    newest.partition,
                    newest.log_epoch,
                    newest.offset,
                )
            )
    for statement in (sql.UPSERT_COLLECTIONS, sql.UPDATE_COLLECTIONS, sql.DELETE_EMPTY):
        tx.execute(statement.encode())


def _write_names(fold: LibraryFold, tx: Connection) -> None:
    """Aliases and merges."""
    aliases = _columns(
        (source, upstream, media, record.partition, record.log_epoch, record.offset)
        for (source, upstream), (media, record) in fold.aliases.items()
    )
    if aliases:
        tx.execute(sql.UPSERT_ALIASES.encode(), aliases)
    merges = _columns(
        (media, survivor, record.partition, record.log_epoch, record.offset)
        for media, (survivor, record) in fold.merges.items()
    )
    if merges:
        tx.execute(sql.UPSERT_MERGES.encode(), merges)


def _tell_doors(batch: Sequence[Record[Change]], tx: Connection) -> None:
    """Bring the aliases that doors look up to what the read models say of them now."""
    named = {(r.event.source_id, r.event.upstream_id) for r in batch if isinstance(r.event, MediaAliased)}
    if named:
        tx.execute(sql.UPSERT_DOORS_ALIASES.encode(), _columns(sorted(named)))


def _merged_playback(fold: LibraryFold, tx: Connection) -> list[Invalidation]:
    """One for what is shown of each person's playback of media that ended, and for their lists.

    Rows and their versions stay as they are, so these have the version of what is shown: ``merged`` as the reason says
    that what is kept of that very version is stale.
    """
    if not fold.merges:
        return []
    by_survivor = dict(fold.merges.values())
    named = _columns(sorted((media, survivor) for media, (survivor, _) in fold.merges.items()))
    found: dict[str, Invalidation] = {}
    for user_ref, survivor, media, version, partition, lists in tx.execute(sql.MERGED_PLAYBACK.encode(), named):
        event = by_survivor[survivor].event
        keys = [(progress_key(user_ref, one), version) for one in {*media, survivor}]
        for key, (log_epoch, offset) in [*keys, (continue_key(user_ref), lists)]:
            found[key] = Invalidation(
                cache_key=key,
                log_epoch=log_epoch,
                partition=partition,
                version=offset,
                event_id=event.event_id,
                correlation_id=event.correlation_id,
                source_id=event.source_id,
                reason=reason_of(event),
            )
    return [found[key] for key in sorted(found)]


def _write_sources(fold: LibraryFold, tx: Connection) -> None:
    """Scans, and what is counted of each source."""
    for scan in fold.scans.values():
        tx.execute(sql.UPSERT_SCAN.encode(), scan_row(scan.newest, scan.event, scan.held_at))
    for source_id, after in sorted(fold.sources.items()):
        row = {
            "source_id": source_id,
            **{status: after.counts[status] for status in STATUSES},
            "finalized_generation": after.finalized,
            "items_log_epoch": after.items and after.items.log_epoch,
            "items_version": after.items and after.items.offset,
            "partition": after.newest.partition,
            "log_epoch": after.newest.log_epoch,
            "version": after.newest.offset,
        }
        tx.execute(sql.UPSERT_SOURCE.encode(), row)
        if after.held is not None:
            _hold_source(sql.HOLD_SOURCE, after.held, tx)


def _hold_source(statement: str, event: SourceHeld, tx: Connection) -> None:
    said = {
        "source_id": event.source_id,
        "held": event.held,
        "reason": event.reason,
        "logged_at": event.logged_at,
        "removals": event.removals,
    }
    tx.execute(statement.encode(), said)
