"""The fold of library.changed over what the rows say already: pure, one record after the other.

What becomes of a batch must not depend on where batches end, so every record counts, not the newest of each item
alone: an item that was in a collection between two records has touched it, whether or not a batch ended there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from projections.base import Invalidation, Record
from projections.models.library_rows import (
    Ref,
    Stamp,
    collection_key,
    collections_of,
    item_key,
    reason_of,
    stamp_of,
)
from schemas.library import Change, ItemChanged, MediaAliased, MediaMerged, ScanChanged, SourceHeld


@dataclass(frozen=True, slots=True)
class KnownItem:
    """An item's row. ``merged``: it ended in another, is counted nowhere and in no collection."""

    source_id: str
    stamp: Stamp
    status: str
    merged: bool
    collections: frozenset[str]


@dataclass(frozen=True, slots=True)
class KnownMerge:
    survivor: str
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Known:
    """What the rows say of everything a batch names: items, ends of merges, and merges that lead to one of them."""

    items: Mapping[str, KnownItem] = field(default_factory=dict)
    merges: Mapping[str, KnownMerge] = field(default_factory=dict)
    aliases: Mapping[tuple[str, str], Stamp] = field(default_factory=dict)
    scans: Mapping[tuple[str, int], Stamp] = field(default_factory=dict)
    sources: Mapping[str, Stamp] = field(default_factory=dict)


@dataclass(slots=True)
class ItemAfter:
    """``content``: the record that says what it is; None: the row's stays, and only its version moves."""

    now: KnownItem
    newest: Record[Change]
    content: ItemChanged | None


@dataclass(slots=True)
class CollectionAfter:
    """``ref``: as the newest item in it names it; None: items only left it. ``counts``: difference by status."""

    newest: Record[Change]
    source_id: str
    ref: Ref | None = None
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class ScanAfter:
    newest: Record[Change]
    event: ScanChanged
    held_at: int | None


@dataclass(slots=True)
class SourceAfter:
    newest: Record[Change]
    items: Record[Change] | None = None
    counts: Counter[str] = field(default_factory=Counter)
    held: SourceHeld | None = None
    finalized: int | None = None


class LibraryFold:
    """Feed records in the order of the log, then read what became of everything they touched."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.items: dict[str, ItemAfter] = {}
        self.collections: dict[str, CollectionAfter] = {}
        self.aliases: dict[tuple[str, str], tuple[str, Record[Change]]] = {}
        self.merges: dict[str, tuple[str, Record[Change]]] = {}
        self.scans: dict[tuple[str, int], ScanAfter] = {}
        self.sources: dict[str, SourceAfter] = {}
        self._changed_keys: dict[str, Record[Change]] = {}
        self.stale = 0

    def apply(self, record: Record[Change]) -> None:
        """One more record; what is not newer than its row counts as stale and changes nothing."""
        event = record.event
        match event:
            case ItemChanged():
                done = self._item(record, event)
            case MediaAliased():
                done = self._alias(record, event)
            case MediaMerged():
                done = self._merge(record, event)
            case ScanChanged():
                done = self._scan(record, event)
            case SourceHeld():
                done = self._held(record, event)
            case _:
                assert_never(event)
        self.stale += not done

    def invalidations(self) -> list[Invalidation]:
        """One for each item and collection that changed, each with its newest version."""
        return [
            Invalidation.by(record, key, reason_of(record.event)) for key, record in sorted(self._changed_keys.items())
        ]

    # --- one kind of record each; False: stale

    def _item(self, record: Record[Change], event: ItemChanged) -> bool:
        before = self._item_now(event.media_id)
        # An id is made from its source: of another it is nobody's, and versions would not compare.
        if before is not None and (before.stamp >= stamp_of(record) or before.source_id != event.source_id):
            return False
        refs = collections_of(event)
        after = KnownItem(event.source_id, stamp_of(record), event.status, False, frozenset(refs))
        self._count(record, before, after, refs)
        self.items[event.media_id] = ItemAfter(after, record, event)
        self._changed(item_key(event.media_id), record)
        return True

    def _alias(self, record: Record[Change], event: MediaAliased) -> bool:
        name = (event.source_id, event.upstream_id)
        now = self.aliases.get(name)
        stamp = self.known.aliases.get(name) if now is None else stamp_of(now[1])
        if stamp is not None and stamp >= stamp_of(record):
            return False
        self.aliases[name] = (event.media_id, record)
        self._touch_item(record, event.media_id)
        self._source(record)
        return True

    def _merge(self, record: Record[Change], event: MediaMerged) -> bool:
        now = self._merge_now(event.media_id)
        last = self._merge_now(event.survivor)
        survivor = event.survivor if last is None else last.survivor
        # A circle has no survivor: the first that was said of it stays. It left no row of its own, so that it was
        # read before is told by the other end.
        if survivor == event.media_id or any(one is not None and one.stamp >= stamp_of(record) for one in (now, last)):
            return False
        led_here = [media for media in {*self.known.merges, *self.merges} if self._leads(media, event.media_id)]
        for media in (event.media_id, *led_here):
            self.merges[media] = (survivor, record)
        before = self._item_now(event.media_id)
        if (
            before is not None
            and before.stamp < stamp_of(record)
            and not before.merged
            and before.source_id == event.source_id
        ):
            ended = KnownItem(before.source_id, stamp_of(record), before.status, True, frozenset())
            self._count(record, before, ended, {})
            self.items[event.media_id] = ItemAfter(ended, record, self._content(event.media_id))
        self._changed(item_key(event.media_id), record)
        self._touch_item(record, survivor)
        self._source(record)
        return True

    def _scan(self, record: Record[Change], event: ScanChanged) -> bool:
        name = (event.source_id, event.generation)
        now = self.scans.get(name)
        stamp = self.known.scans.get(name) if now is None else stamp_of(now.newest)
        if stamp is not None and stamp >= stamp_of(record):
            return False
        held_at = now.held_at if now else None
        if held_at is None and event.status == "held":
            held_at = event.logged_at
        self.scans[name] = ScanAfter(record, event, held_at)
        source = self._source(record)
        if event.status == "finalized":
            source.finalized = event.generation
        return True

    def _held(self, record: Record[Change], event: SourceHeld) -> bool:
        now = self.sources.get(event.source_id)
        stamp = self.known.sources.get(event.source_id) if now is None else stamp_of(now.newest)
        if stamp is not None and stamp >= stamp_of(record):
            return False
        self._source(record).held = event
        return True

    # --- what is so by now

    def _item_now(self, media_id: str) -> KnownItem | None:
        after = self.items.get(media_id)
        return self.known.items.get(media_id) if after is None else after.now

    def _content(self, media_id: str) -> ItemChanged | None:
        after = self.items.get(media_id)
        return None if after is None else after.content

    def _merge_now(self, media_id: str) -> KnownMerge | None:
        after = self.merges.get(media_id)
        return self.known.merges.get(media_id) if after is None else KnownMerge(after[0], stamp_of(after[1]))

    def _leads(self, media_id: str, survivor: str) -> bool:
        now = self._merge_now(media_id)
        return now is not None and now.survivor == survivor

    # --- what it touches

    def _touch_item(self, record: Record[Change], media_id: str) -> None:
        """What is shown of it changed, though not what it is: its version moves."""
        self._changed(item_key(media_id), record)
        before = self._item_now(media_id)
        if before is not None and before.stamp < stamp_of(record) and before.source_id == record.event.source_id:
            now = KnownItem(before.source_id, stamp_of(record), before.status, before.merged, before.collections)
            self.items[media_id] = ItemAfter(now, record, self._content(media_id))

    def _count(
        self, record: Record[Change], before: KnownItem | None, after: KnownItem, refs: Mapping[str, Ref]
    ) -> None:
        source = self._source(record)
        source.items = record
        if before is not None and not before.merged:
            source.counts[before.status] -= 1
        if not after.merged:
            source.counts[after.status] += 1
        for one in (before.collections if before else frozenset()) | refs.keys():
            touched = self.collections.setdefault(one, CollectionAfter(record, after.source_id))
            touched.newest = record
            if before is not None and one in before.collections:
                touched.counts[before.status] -= 1
            if one in refs:
                touched.ref = refs[one]
                touched.counts[after.status] += 1
            self._changed(collection_key(one), record)

    def _source(self, record: Record[Change]) -> SourceAfter:
        source = self.sources.setdefault(record.event.source_id, SourceAfter(record))
        source.newest = record
        return source

    def _changed(self, cache_key: str, record: Record[Change]) -> None:
        self._changed_keys[cache_key] = record
