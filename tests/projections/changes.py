"""Changes as a library agent could make them, and a plain in-memory fold to hold the read models against.

The fold is written from the promises of the read models: it takes one record after the other, keeps everything in
dictionaries, and counts what is in a collection or source anew each time it is asked.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from projections.base import Record
from projections.models.library_rows import STATUSES, collection_id, collections_of
from schemas.library import (
    Change,
    CollectionRef,
    ItemChanged,
    ItemDetails,
    Locator,
    MediaAliased,
    MediaMerged,
    ProviderId,
    ReasonCount,
    ScanChanged,
    SourceHeld,
)
from schemas.placement import partition_of
from schemas.position import SourcePosition

NOW_MS = 1_796_069_700_000
OBSERVED_TOPIC_ID = "b2JzZXJ2ZWQtdG9waWMtaWQ"


def partition_for(source_id: str) -> int:
    return partition_of(source_id.encode())


def header(source_id: str = "home", number: int = 0) -> dict[str, Any]:
    return {
        "event_id": f"e-{number}",
        "correlation_id": f"c-{number}",
        "source_id": source_id,
        "received_at": NOW_MS,
        "cause": SourcePosition(OBSERVED_TOPIC_ID, partition_for(source_id), number, 0),
    }


def details(**changes: Any) -> ItemDetails:
    plain = ItemDetails(
        version=NOW_MS,
        content_hash="5f2b8c",
        media_kind="music",
        item_kind="track",
        title="Toccata",
        duration_ms=540_000,
        year=1705,
        number=1,
        part=1,
        artists=("J. S. Bach",),
        provider_ids=(ProviderId("mbid", "b1a9"),),
        collections=(CollectionRef("album", "organ", "Organ Works"), CollectionRef("artist", "bach", "J. S. Bach")),
    )
    return replace(plain, **changes)


def item(media_id: str = "a" * 32, number: int = 0, source_id: str = "home", **changes: Any) -> ItemChanged:
    plain = ItemChanged(
        **header(source_id, number),
        logged_at=NOW_MS + number,
        media_id=media_id,
        status="present",
        changes=("added",),
        generation=7,
        locators=(Locator(b"Bach/Toccata.flac", 41, 1_796_069_600_000_000_001, 2049, 131_337),),
        details=details(),
        first_seen_at=NOW_MS,
    )
    return replace(plain, **changes)


def scan(generation: int = 7, number: int = 0, source_id: str = "home", **changes: Any) -> ScanChanged:
    plain = ScanChanged(
        **header(source_id, number),
        logged_at=NOW_MS + number,
        generation=generation,
        requested_by="operator",
        status="running",
        started_at=NOW_MS,
        observations=0,
    )
    return replace(plain, **changes)


def merged(media_id: str, survivor: str, number: int = 0, source_id: str = "home") -> MediaMerged:
    return MediaMerged(**header(source_id, number), media_id=media_id, survivor=survivor)


def aliased(upstream_id: str, media_id: str, number: int = 0, source_id: str = "home") -> MediaAliased:
    return MediaAliased(**header(source_id, number), upstream_id=upstream_id, media_id=media_id)


def held(is_held: bool, number: int = 0, source_id: str = "home") -> SourceHeld:
    return SourceHeld(
        **header(source_id, number), logged_at=NOW_MS + number, held=is_held, reason="mass_removal", removals=number
    )


@dataclass
class Libraries:
    """A seeded source of changes to two libraries in which everything the read models tell apart happens."""

    seed: int
    media: int = 25
    _made: int = 0
    _items: dict[str, ItemChanged] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._media = {
            source: [f"{self._dice.getrandbits(128):032x}" for _ in range(self.media)] for source in ("home", "flat")
        }

    def changes(self, count: int) -> list[Change]:
        return [self._next() for _ in range(count)]

    def _next(self) -> Change:
        dice = self._dice
        source = dice.choice(("home", "home", "flat"))
        self._made += 1
        number = self._made
        media = dice.choice(self._media[source])
        match dice.choices(("item", "alias", "merge", "scan", "held"), weights=(80, 5, 4, 8, 3))[0]:
            case "alias":
                return aliased(f"u-{dice.randrange(10)}", media, number, source)
            case "merge":
                other = dice.choice([one for one in self._media[source] if one != media])
                return merged(media, other, number, source)
            case "scan":
                return scan(
                    dice.randrange(4),
                    number,
                    source,
                    status=dice.choice(("running", "finalizing", "held", "finalized", "failed", "superseded")),
                    reason=dice.choice((None, "mass_removal")),
                    seen=dice.randrange(100),
                    skipped=dice.choice(((), (ReasonCount("hidden", 3), ReasonCount('a "b"\\', 1)))),
                )
            case "held":
                return held(dice.random() < 0.5, number, source)
            case _:
                return self._item(media, number, source)

    def _item(self, media: str, number: int, source: str) -> ItemChanged:
        dice = self._dice
        albums = tuple(
            CollectionRef(kind, key, f"{key} {dice.randrange(3)}")
            for kind in ("album", "artist")
            if (key := dice.choice(("one", "two", 'thr"ee', ""))) != ""
        )
        folders = [dice.choice((b"a", b"a/b", b"\xff\xfe", b"", b"x\\y")) for _ in range(dice.choice((0, 1, 1, 2)))]
        event = item(
            media,
            number,
            source,
            status=dice.choices(STATUSES, weights=(60, 10, 15, 10, 5))[0],
            changes=dice.choice((("content",), ("moved", "alias"), ())),
            generation=dice.choice((None, 3, 9)),
            readable=dice.random() < 0.9,
            upstream_id=dice.choice((None, "u-1")),
            locators=tuple(
                Locator(folder + (b"/" if folder else b"") + b"%d.mp3" % number, number, None, -1, None)
                for folder in folders
            ),
            details=dice.choice((None, details(collections=albums, title=f"T {number}", year=None))),
            work_id=dice.choice((None, "9f")),
        )
        self._items[media] = event
        return event


def placed(events: Iterable[Change], log_epoch: int = 1) -> list[Record[Change]]:
    """Where a log without holes puts them."""
    ends: dict[int, int] = {}
    found: list[Record[Change]] = []
    for event in events:
        partition = partition_for(event.source_id)
        ends[partition] = ends.get(partition, -1) + 1
        found.append(Record(event, partition, ends[partition], log_epoch, NOW_MS, b""))
    return found


Rows = dict[str, dict[tuple[Any, ...], dict[str, Any]]]


class Model:
    """The rows of every table after a log."""

    def __init__(self) -> None:
        self.items: dict[str, tuple[ItemChanged, bool, Record[Change]]] = {}
        self.aliases: dict[tuple[str, str], tuple[str, Record[Change]]] = {}
        self.merges: dict[str, tuple[str, Record[Change]]] = {}
        self.scans: dict[tuple[str, int], tuple[ScanChanged, int | None, Record[Change]]] = {}
        self.collections: dict[str, tuple[str, str, str, str, Record[Change]]] = {}
        self.touched: dict[str, Record[Change]] = {}
        self.sources: dict[str, dict[str, Any]] = {}

    def read(self, log: Iterable[Record[Change]]) -> Model:
        for record in log:
            self._read(record)
        return self

    def _read(self, record: Record[Change]) -> None:
        event = record.event
        source = self.sources.setdefault(
            event.source_id,
            {"held": False, "held_reason": None, "held_changed_at": None, "held_removals": 0,
             "finalized_generation": None, "items_log_epoch": None, "items_version": None},
        )  # fmt: skip
        match event:
            case ItemChanged():
                self._touch(event.media_id, record)
                self.items[event.media_id] = (event, False, record)
                for one, ref in collections_of(event).items():
                    self.collections[one] = (event.source_id, ref.kind, ref.key, ref.name, record)
                self._touch(event.media_id, record)
                source |= {"items_log_epoch": record.log_epoch, "items_version": record.offset}
            case MediaAliased():
                self.aliases[event.source_id, event.upstream_id] = (event.media_id, record)
                self._bump(event.media_id, record)
            case MediaMerged():
                survivor = self.merges[event.survivor][0] if event.survivor in self.merges else event.survivor
                if survivor == event.media_id:
                    return
                for media, (end, _) in list(self.merges.items()):
                    if end == event.media_id:
                        self.merges[media] = (survivor, record)
                self.merges[event.media_id] = (survivor, record)
                if event.media_id in self.items and not self.items[event.media_id][1]:
                    self._touch(event.media_id, record)
                    self.items[event.media_id] = (self.items[event.media_id][0], True, record)
                    source |= {"items_log_epoch": record.log_epoch, "items_version": record.offset}
                self._bump(survivor, record)
            case ScanChanged():
                key = (event.source_id, event.generation)
                before = self.scans[key][1] if key in self.scans else None
                now = before if before is not None or event.status != "held" else event.logged_at
                self.scans[key] = (event, now, record)
                if event.status == "finalized":
                    source["finalized_generation"] = event.generation
            case SourceHeld():
                source |= {"held": event.held, "held_reason": event.reason, "held_changed_at": event.logged_at,
                           "held_removals": event.removals}  # fmt: skip
        source |= version_of(record)

    def _members(self, media_id: str) -> set[str]:
        found = self.items.get(media_id)
        return set() if found is None or found[1] else set(collections_of(found[0]))

    def _touch(self, media_id: str, record: Record[Change]) -> None:
        for one in self._members(media_id):
            self.touched[one] = record

    def _bump(self, media_id: str, record: Record[Change]) -> None:
        if media_id in self.items:
            event, ended, _ = self.items[media_id]
            self.items[media_id] = (event, ended, record)

    def rows(self) -> Rows:
        members: dict[tuple[Any, ...], dict[str, Any]] = {
            (one, media): {} for media in self.items for one in self._members(media)
        }
        alive = {media: event for media, (event, ended, _) in self.items.items() if not ended}
        collections = {
            (one,): {
                **dict(zip(("source_id", "kind", "key", "name"), self.collections[one][:4], strict=True)),
                **_counts(alive[media].status for each, media in members if each == one),
                **version_of(self.touched[one]),
            }
            for one in {one for one, _ in members}
        }
        return {
            "media_items": {
                (media,): {
                    "source_id": event.source_id,
                    "status": event.status,
                    "merged": ended,
                    "generation": event.generation,
                    "title": event.details and event.details.title,
                    "artists": list(event.details.artists) if event.details else [],
                    "provider_ids": [["mbid", "b1a9"]] if event.details else [],
                    "content_hash": event.details and event.details.content_hash,
                    "changed_at": event.logged_at,
                    "correlation_id": event.correlation_id,
                    **version_of(record),
                }
                for media, (event, ended, record) in self.items.items()
            },
            "media_locators": {
                (media, ordinal): {"source_id": event.source_id, "path": one.path, "size": one.size}
                for media, event in alive.items()
                for ordinal, one in enumerate(event.locators)
            },
            "upstream_aliases": {
                key: {"media_id": media, **version_of(record)} for key, (media, record) in self.aliases.items()
            },
            "media_merges": {
                (media,): {"survivor": end, **version_of(record)} for media, (end, record) in self.merges.items()
            },
            "scan_sessions": {
                key: {
                    "status": event.status,
                    "seen": event.seen,
                    "skipped": {one.reason: one.count for one in event.skipped},
                    "held_at": held_at,
                    "ended_at": None if event.status in ("running", "finalizing", "held") else event.logged_at,
                    **version_of(record),
                }
                for key, (event, held_at, record) in self.scans.items()
            },
            "source_state": {
                (source,): {**row, **_counts(one.status for one in alive.values() if one.source_id == source)}
                for source, row in self.sources.items()
            },
            "collections": collections,
            "collection_items": members,
        }


def version_of(record: Record[Change]) -> dict[str, Any]:
    return {"partition": record.partition, "log_epoch": record.log_epoch, "version": record.offset}


def _counts(statuses: Iterable[str]) -> dict[str, int]:
    found = list(statuses)
    return {status: found.count(status) for status in STATUSES}


PRIMARY_KEYS = {
    "media_items": ("media_id",),
    "media_locators": ("media_id", "ordinal"),
    "upstream_aliases": ("source_id", "upstream_id"),
    "media_merges": ("media_id",),
    "scan_sessions": ("source_id", "generation"),
    "source_state": ("source_id",),
    "collections": ("collection_id",),
    "collection_items": ("collection_id", "media_id"),
}

ALBUM = collection_id("home", "album", "organ")
