"""What is kept of a source's library, row by row. All values; nothing here decides.

Keys are in ``keys.py``. ``seen`` and ``since`` are offsets in the log of observations: the newest sighting, and the
one that first put something there.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.library import ItemDetails, ReasonCount


@dataclass(frozen=True, slots=True)
class Item:
    """One media. ``places`` are keys of its sights. ``listed``: a scan has seen it. ``generation``: the newest scan
    that had seen it when this row was written. ``candidates``: media it may turn out to be, while provisional."""

    media_id: str
    status: str
    readable: bool
    listed: bool
    first_seen_at: int
    generation: int | None
    places: tuple[bytes, ...]
    details: ItemDetails | None
    work_id: str | None
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sight:
    """A place: where a media was seen, as it was there. ``plain``: nothing about its item waits for a sighting.
    ``at``: when the sighting was received, epoch ms. ``path``: of a server's item, and of a ghost the
    one it lost; a file's is its key."""

    media_id: str
    seen: int
    since: int
    at: int
    plain: bool
    path: bytes | None
    size: int | None
    mtime_ns: int | None
    device: int | None
    inode: int | None


@dataclass(frozen=True, slots=True)
class Named:
    """The media an evidence speaks of."""

    media: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Alias:
    """An id that is used up: the media it names is the survivor."""

    survivor: str


@dataclass(frozen=True, slots=True)
class Pending:
    """A sighting whose media is decided when all is listed. ``blocked``: candidates that cannot be looked for."""

    seen: int
    at: int
    logged_at: int
    path: bytes | None
    size: int | None
    mtime_ns: int | None
    device: int | None
    inode: int | None
    details: ItemDetails | None
    blocked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skip:
    """Where a scan did not look."""

    seen: int
    folder: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A row that only has to be there. ``seen``: since when."""

    seen: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """Removals told in one minute of log time."""

    minute: int
    count: int


@dataclass(frozen=True, slots=True)
class Scan:
    """The newest scan. ``started``: offset of its start; ``started_at``: log-append time, epoch ms. ``step`` and
    ``cursor``: where its end goes on."""

    generation: int
    requested_by: str
    started: int
    started_at: int
    status: str
    reason: str | None
    present_before: int
    confirmed: bool
    step: str
    cursor: bytes
    skipped: tuple[ReasonCount, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """What holds for all of a source. Older generations than ``newest`` are stale. ``finalized``: the newest scan
    that came to its end."""

    case_folds: bool
    newest: int
    finalized: int | None
    cancelled: int | None
    held: bool
    removals: tuple[Bucket, ...]
    scan: Scan | None


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers that change with every record. ``live``: items that count as being there, at all times; the others
    are of the newest scan. ``next``: the ordinal that must come; ``kept``: signs that the root is the one it was."""

    live: int
    next: int
    received: int
    lost: bool
    kept: int
    seen: int
    added: int
    changed: int
    moved: int
    missing: int
    unreadable: int


Row = Item | Sight | Named | Alias | Pending | Skip | Mark | Source | Tally

NO_SOURCE = Source(False, 0, None, None, False, (), None)
NO_TALLY = Tally(0, 0, 0, False, 0, 0, 0, 0, 0, 0, 0)
