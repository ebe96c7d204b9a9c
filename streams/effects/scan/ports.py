"""What a scan needs of the rest: what is known, where observations go, whether it may still write, who watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from schemas.library import ItemDetails, Locator, Observation
from streams.runtime.errors import PlayheadError


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file as it was last stored. ``size`` and ``mtime_ns`` are null of one that could not be read or was still
    being written."""

    path: bytes
    size: int | None
    mtime_ns: int | None
    device: int | None
    inode: int | None


class Known(Protocol):
    """What the read model knows of a source. Raises Unavailable."""

    def folder(self, source_id: str, folder: bytes) -> Mapping[bytes, KnownFile]:
        """Direct children of one folder ("": the root), by their whole path. Asked once for each folder of a scan."""
        ...


class KnownAll(Known, Protocol):
    """What a dry run asks besides."""

    def folders(self, source_id: str) -> Iterable[bytes]:
        """Every folder that holds a known file, in any order."""
        ...


class Sink(Protocol):
    def send(self, event: Observation) -> None:
        """Raises Unavailable when something sent before could not be made durable."""
        ...

    def flush(self) -> None:
        """Return when everything sent is durable (acks=all). Raises Unavailable."""
        ...


class Lease(Protocol):
    def check(self) -> None:
        """Raises LeaseLost when it is not ours any more, Cancelled when the operator does not want the scan."""
        ...


class Progress(Protocol):
    def seen(self, items: int, changed: int, unreadable: int) -> None:
        """Totals so far."""
        ...


@dataclass(frozen=True, slots=True)
class Sighting:
    """An item that is there. The fields mean what they mean in ``ItemObserved``; ``details`` null and ``failed``
    null: unchanged."""

    locator: Locator | None
    upstream_id: str | None = None
    settled: bool = True
    details: ItemDetails | None = None
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """A place that was not looked at: ``unreadable`` or ``ignored``, with everything below it when a folder."""

    path: bytes
    folder: bool
    reason: str


Found: TypeAlias = Sighting | Skip
Look: TypeAlias = Callable[[bytes], Mapping[bytes, KnownFile]]
"""What is known of one folder."""


@dataclass(slots=True)
class Tally:
    """What a listing counts as it goes. ``complete`` is right when the listing has ended."""

    complete: bool = True
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str, times: int = 1) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + times


class Listing(Protocol):
    """An open source. Whatever is wrong with the source as a whole is raised as SourceFailed."""

    @property
    def case_folds(self) -> bool: ...

    @property
    def tally(self) -> Tally: ...

    def batches(self, look: Look, *, full: bool) -> Iterator[list[Found]]:
        """Everything there is, each thing once, in bounded lists (empty ones are signs of life)."""
        ...


class Source(Protocol):
    """One way to list a source; FileTree and ServerSource are all there are."""

    def opened(self) -> AbstractContextManager[Listing]:
        """Raises SourceFailed before anything of it was listed."""
        ...


class SourceFailed(PlayheadError):
    """A source can't be listed; nothing may be concluded from what was seen. ``reason``: root_missing or upstream;
    ``detail``: for people, without names of people."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
