"""The events of the library as Python sees them: commands, what scans and hooks saw, and what that changed.

As in ``schemas/events.py``: one frozen dataclass for each Avro record, same names, same order; times are epoch
milliseconds unless their name ends in ``_ns``. What a field means is said once, in the ``.avsc`` files.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.position import SourcePosition


@dataclass(frozen=True, slots=True)
class Locator:
    """Where a media lies in its source: a file, or the path a server gives."""

    path: bytes
    size: int | None
    mtime_ns: int | None
    device: int | None
    inode: int | None


@dataclass(frozen=True, slots=True)
class ProviderId:
    """An id of the work in a public catalogue."""

    provider: str
    id: str


@dataclass(frozen=True, slots=True)
class CollectionRef:
    """A group the item is of."""

    kind: str
    key: str
    name: str


@dataclass(frozen=True, slots=True)
class ItemDetails:
    """What is in an item: read from its tags, or told by its server. One field group; the newer version wins whole."""

    version: int | None
    content_hash: str | None
    media_kind: str | None
    item_kind: str | None
    title: str | None
    duration_ms: int | None
    year: int | None
    number: int | None
    part: int | None
    artists: tuple[str, ...]
    provider_ids: tuple[ProviderId, ...]
    collections: tuple[CollectionRef, ...]


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """How often something was met."""

    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequested:
    """A scan of a source is wanted. Its offset is the generation of that scan."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    requested_by: str
    full: bool = False
    replaces: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanConfirmed:
    """An operator says that a held scan tells the truth. It is checked once more all the same."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanCancelled:
    """A scan is to stop; it marks nothing missing."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRefreshRequested:
    """Details are to be read again."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    media_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileRequested:
    """A comparison is wanted."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemStatusRequested:
    """An operator, or reconcile after the grace, gives an item another status."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    media_id: str
    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanStarted:
    """A listing begins. What was last seen before this record may turn out to be missing."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    generation: int
    requested_by: str
    case_folds: bool = False
    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemObserved:
    """An item was seen, by a scan, a hook or a poll."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    generation: int | None = None
    ordinal: int = 0
    how: str
    upstream_id: str | None = None
    locator: Locator | None = None
    settled: bool = True
    details: ItemDetails | None = None
    failed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSkipped:
    """A scan did not look there, so what is there is not known."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    generation: int
    ordinal: int
    path: bytes
    folder: bool = False
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanListed:
    """A listing is over."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    generation: int
    complete: bool
    observations: int
    skipped: tuple[ReasonCount, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFailed:
    """A scan broke off; it marks nothing missing."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    generation: int
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRemovalObserved:
    """A hook or a poll said that an item is gone."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    upstream_id: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeContinued:
    """The agent's word to itself: go on with the end of a scan from here."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    generation: int
    step: str
    cursor: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemChanged:
    """What an item is now, whole, after something about it changed."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    cause: SourcePosition
    logged_at: int
    media_id: str
    status: str
    changes: tuple[str, ...] = ()
    generation: int | None = None
    readable: bool = True
    upstream_id: str | None = None
    locators: tuple[Locator, ...] = ()
    details: ItemDetails | None = None
    work_id: str | None = None
    first_seen_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaAliased:
    """An upstream id means a media, from here on and in what was reported under it before."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    cause: SourcePosition
    upstream_id: str
    media_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaMerged:
    """Two media are one. What is known of the one that ends follows the other."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    cause: SourcePosition
    media_id: str
    survivor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanChanged:
    """What became of a scan."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    cause: SourcePosition
    logged_at: int
    generation: int
    requested_by: str
    status: str
    reason: str | None = None
    started_at: int
    observations: int
    seen: int = 0
    added: int = 0
    changed: int = 0
    moved: int = 0
    missing: int = 0
    present_before: int = 0
    unreadable: int = 0
    skipped: tuple[ReasonCount, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHeld:
    """Removals told by hooks are no longer believed, or are again."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    cause: SourcePosition
    logged_at: int
    held: bool
    reason: str
    removals: int = 0


Command = (
    ScanRequested | ScanConfirmed | ScanCancelled | MetadataRefreshRequested | ReconcileRequested | ItemStatusRequested
)

Observation = (
    ScanStarted | ItemObserved | PathSkipped | ScanListed | ScanFailed | ItemRemovalObserved | FinalizeContinued
)

Change = ItemChanged | MediaAliased | MediaMerged | ScanChanged | SourceHeld

PARTS = (Locator, ProviderId, CollectionRef, ItemDetails, ReasonCount)
"""Records inside events."""
