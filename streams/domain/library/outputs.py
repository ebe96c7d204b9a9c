"""What comes out of a record: events without the header that says what caused them."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.library import ItemDetails, Locator, ReasonCount


@dataclass(frozen=True, slots=True)
class At:
    """Where the record lies, and when it was appended to the log, epoch ms."""

    topic_id: str
    partition: int
    offset: int
    logged_at: int


@dataclass(frozen=True, slots=True)
class ItemState:
    """ItemChanged."""

    media_id: str
    status: str
    changes: tuple[str, ...]
    generation: int | None
    readable: bool
    upstream_id: str | None
    locators: tuple[Locator, ...]
    details: ItemDetails | None
    work_id: str | None
    first_seen_at: int


@dataclass(frozen=True, slots=True)
class Aliased:
    """MediaAliased."""

    upstream_id: str
    media_id: str


@dataclass(frozen=True, slots=True)
class Merged:
    """MediaMerged: to the library's changes, and a copy to every partition of the merges."""

    media_id: str
    survivor: str


@dataclass(frozen=True, slots=True)
class ScanState:
    """ScanChanged."""

    generation: int
    requested_by: str
    status: str
    reason: str | None
    started_at: int
    observations: int
    seen: int
    added: int
    changed: int
    moved: int
    missing: int
    present_before: int
    unreadable: int
    skipped: tuple[ReasonCount, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """SourceHeld."""

    held: bool
    reason: str
    removals: int


@dataclass(frozen=True, slots=True)
class Continued:
    """FinalizeContinued: to the observations, in the partition of its cause."""

    generation: int
    step: str
    cursor: bytes


Output = ItemState | Aliased | Merged | ScanState | Hold | Continued
