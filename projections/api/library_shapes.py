"""The JSON of the library's routes. Times are epoch milliseconds, durations milliseconds, sizes bytes."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, Field

from projections.api.shapes import VersionOut
from projections.api.versions import Version
from projections.models.library_rows import FOLDER, STATUSES, shown
from streams.runtime.commands import scan_id

Row = dict[str, Any]


def version_of(row: Row) -> Version | None:
    """The version of a row; None: nothing is known yet."""
    if row["version"] is None:
        return None
    return Version(row["model_epoch"], row["log_epoch"], row["partition"], row["version"])


class CountsOut(BaseModel):
    """Items by status."""

    present: int
    provisional: int
    missing: int
    archived: int
    deleted: int

    @classmethod
    def of(cls, row: Row) -> CountsOut:
        return cls(**{status: row[status] for status in STATUSES})


class ScanOut(BaseModel):
    """One listing of a source, and what became of it."""

    id: str = Field(description="source and generation, with a colon between")
    source: str
    generation: int = Field(description="offset of its request in library.commands")
    status: str = Field(description="running finalizing held finalized failed cancelled superseded incomplete")
    reason: str | None = Field(description="why it was held, failed or is incomplete")
    requested_by: str
    observations: int = Field(description="received of it")
    seen: int
    added: int
    changed: int
    moved: int
    missing: int = Field(description="items that are missing now; while held: that would be")
    present_before: int
    unreadable: int = Field(description="items under what could not be read")
    skipped: dict[str, int] = Field(description="what was passed over, by reason")
    started_at: int
    changed_at: int
    held_at: int | None = Field(description="when it was held first")
    ended_at: int | None = Field(description="null while it runs or is held")
    duration_ms: int | None = Field(description="from start to end")
    correlation_id: str
    version: VersionOut | None

    @classmethod
    def of(cls, row: Row) -> ScanOut:
        named = {name: row[name] for name in cls.model_fields if name in row and name != "version"}
        return cls(
            **named,
            id=row["scan_id"],
            source=row["source_id"],
            duration_ms=None if row["ended_at"] is None else max(row["ended_at"] - row["started_at"], 0),
            version=VersionOut.of(version_of(row)),
        )


class HeldOut(BaseModel):
    """Removals that hooks told are not believed at the moment, or were not."""

    held: bool
    reason: str | None
    changed_at: int | None
    removals: int = Field(description="told within the window")


class SourceOut(BaseModel):
    """A media server or a folder tree."""

    source: str
    kind: str
    name: str
    items: CountsOut
    removals: HeldOut
    last_scan: ScanOut | None = Field(description="the newest one")
    finalized_generation: int | None = Field(description="of the newest scan that was finalized")
    version: VersionOut | None = Field(description="of everything about it; null: nothing is known yet")

    @classmethod
    def of(cls, row: Row) -> SourceOut:
        return cls(
            source=row["source_id"],
            kind=row["kind"],
            name=row["name"],
            items=CountsOut.of(row),
            removals=HeldOut(
                held=row["held"],
                reason=row["held_reason"],
                changed_at=row["held_changed_at"],
                removals=row["held_removals"],
            ),
            last_scan=row["last_scan"] and ScanOut.of(row["last_scan"]),
            finalized_generation=row["finalized_generation"],
            version=VersionOut.of(version_of(row)),
        )


class SourcesOut(BaseModel):
    items: list[SourceOut]


class ProviderOut(BaseModel):
    provider: str
    id: str


class ItemOut(BaseModel):
    """An item of a source."""

    media: str = Field(description="media_id")
    source: str
    status: str = Field(description="present provisional missing archived deleted")
    readable: bool = Field(description="false while the folder it lies in can't be read")
    media_kind: str | None
    item_kind: str | None
    title: str | None
    artists: list[str]
    year: int | None
    number: int | None
    part: int | None
    duration_ms: int | None
    provider_ids: list[ProviderOut]
    content_hash: str | None
    upstream_id: str | None = Field(description="what its source calls it")
    work_id: str | None = Field(description="the same for all editions of one work")
    first_seen_at: int
    changed_at: int
    last_seen_scan_id: str | None = Field(description="the newest scan that saw it; null: none did")
    correlation_id: str
    version: VersionOut | None

    @classmethod
    def of(cls, row: Row, **more: Any) -> Self:
        named = {name: row[name] for name in ItemOut.model_fields if name in row}
        seen = row["last_seen_generation"]
        return cls(
            **{
                **named,
                "media": row["media_id"],
                "source": row["source_id"],
                "provider_ids": [ProviderOut(provider=one[0], id=one[1]) for one in row["provider_ids"]],
                "last_seen_scan_id": None if seen is None else scan_id(row["source_id"], seen),
                "version": VersionOut.of(version_of(row)),
                **more,
            }
        )


class LocatorOut(BaseModel):
    path: str = Field(description=r"relative to the source's root; what is not UTF-8 as \xNN")
    path_hex: str = Field(description="its bytes")
    size: int | None
    mtime_ns: int | None


class InOut(BaseModel):
    """A collection an item is in."""

    collection: str
    kind: str
    name: str


class MediaOut(ItemOut):
    """One media, under whichever of its ids it was asked for."""

    merged_from: list[str] = Field(description="media_ids that ended in this one")
    aliases: list[str] = Field(description="other upstream ids that mean it")
    collections: list[InOut] = Field(description="folders only for an operate token")
    locators: list[LocatorOut] | None = Field(
        description="where it lies; only for an operate token, else null: paths can hold names of people"
    )

    @classmethod
    def of_media(cls, row: Row, paths: bool) -> MediaOut:
        """``paths``: the caller may see where it lies."""
        return cls.of(
            row,
            merged_from=row["merged_from"],
            aliases=row["aliases"],
            collections=[InOut(**one) for one in row["collections"] if paths or one["kind"] != FOLDER],
            locators=[_locator(one) for one in row["locators"]] if paths else None,
        )


def _locator(one: Row) -> LocatorOut:
    path = bytes.fromhex(one["path"])
    return LocatorOut(path=shown(path), path_hex=one["path"], size=one["size"], mtime_ns=one["mtime_ns"])


class CollectionOut(BaseModel):
    """A group of items of one source."""

    collection: str = Field(description="its id")
    source: str
    kind: str = Field(description="album artist series season author folder")
    key: str = Field(description="what tells it from others of its kind")
    name: str
    items_by_status: CountsOut
    version: VersionOut | None

    @classmethod
    def fields_of(cls, row: Row) -> dict[str, Any]:
        return {
            "collection": row["collection_id"],
            "source": row["source_id"],
            "kind": row["kind"],
            "key": row["key"],
            "name": row["name"],
            "items_by_status": CountsOut.of(row),
            "version": VersionOut.of(version_of(row)),
        }


class ItemPage(BaseModel):
    items: list[ItemOut]
    next: str | None = Field(description="?cursor= of the next page; null: this is the last")
    version: VersionOut | None = Field(description="of all items of the source; null: it never had one")


class ScanPage(BaseModel):
    items: list[ScanOut]
    next: str | None = Field(description="?cursor= of the next page; null: this is the last")
    version: VersionOut | None = Field(description="of everything about the source")


class CollectionPage(BaseModel):
    items: list[CollectionOut]
    next: str | None = Field(description="?cursor= of the next page; null: this is the last")
    version: VersionOut | None = Field(description="of all items of the source; null: it never had one")


class CollectionWithItems(CollectionOut):
    items: list[ItemOut]
    next: str | None = Field(description="?cursor= of the next page of items; null: this is the last")
