"""A dry run: what a scan would find, compared with what is known, and not a word of it to the log.

Files are compared as a scan compares them. Of servers it is the path that is compared, for that is all that is known
here; the agent knows more, so a preview is an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from schemas.library import Locator
from streams.effects.scan.ports import KnownAll, KnownFile, Progress, Sighting, Skip, Source

TOLD_MAX: Final = 100
"""Paths that are listed of each sort."""
MOVES_MAX: Final = 100_000
"""New files that are remembered, to be recognised as the new places of others."""
_Place: TypeAlias = tuple[int, int, int, int]


@dataclass(slots=True)
class Group:
    """How many there are, and the first of them."""

    count: int = 0
    paths: list[bytes] = field(default_factory=list)

    def add(self, path: bytes) -> None:
        self.count += 1
        if len(self.paths) < TOLD_MAX:
            self.paths.append(path)


@dataclass(slots=True)
class Preview:
    """``known``: files known before. ``moved``: gone from a place and there at a new one, by device, inode, size and
    mtime; they are in neither ``new`` nor ``gone``. ``gone``: would be missing, if the listing is complete.
    ``unreadable`` and ``ignored``: places; what is known below them is in none of the others."""

    items: int = 0
    known: int = 0
    unsettled: int = 0
    new: Group = field(default_factory=Group)
    changed: Group = field(default_factory=Group)
    moved: Group = field(default_factory=Group)
    gone: Group = field(default_factory=Group)
    unreadable: Group = field(default_factory=Group)
    ignored: Group = field(default_factory=Group)
    failed: Group = field(default_factory=Group)
    complete: bool = False
    skipped: dict[str, int] = field(default_factory=dict)


def preview(source_id: str, source: Source, known: KnownAll, progress: Progress, *, full: bool = False) -> Preview:
    """Read everything as a scan would, tags of new and changed files included. Raises SourceFailed, Unavailable."""
    found = Preview()
    book = _Book(source_id, known, found)
    with source.opened() as listing:
        for batch in listing.batches(book.look, full=full):
            for one in batch:
                match one:
                    case Sighting():
                        book.sighted(one)
                    case Skip():
                        book.skipped(one)
            progress.seen(found.items, found.new.count + found.changed.count, found.unreadable.count)
        found.complete, found.skipped = listing.tally.complete, dict(listing.tally.skipped)
    book.close()
    return found


class _Book:
    def __init__(self, source_id: str, known: KnownAll, found: Preview) -> None:
        self._source_id = source_id
        self._known = known
        self._found = found
        self._looked: set[bytes] = set()
        self._unseen: dict[bytes, KnownFile] = {}
        self._new: dict[_Place, bytes] = {}
        self._new_unplaced: list[bytes] = []
        self._hidden: set[bytes] = set()
        self._hidden_files: set[bytes] = set()

    def look(self, folder: bytes) -> Mapping[bytes, KnownFile]:
        if folder in self._looked:
            return {}
        self._looked.add(folder)
        files = self._known.folder(self._source_id, folder)
        self._found.known += len(files)
        self._unseen.update(files)
        return files

    def sighted(self, one: Sighting) -> None:
        found, at = self._found, one.locator
        found.items += 1
        found.unsettled += not one.settled
        if at is None:
            return
        self.look(at.path.rpartition(b"/")[0])
        if one.failed is not None:
            found.failed.add(at.path)
        known = self._unseen.pop(at.path, None)
        if known is None:
            self._is_new(at)
        elif one.settled and one.failed is None and _differs(known, at):
            found.changed.add(at.path)

    def skipped(self, one: Skip) -> None:
        (self._found.unreadable if one.reason == "unreadable" else self._found.ignored).add(one.path)
        (self._hidden if one.folder else self._hidden_files).add(one.path)

    def close(self) -> None:
        """The end of the listing: what was not seen is moved, protected or gone."""
        for folder in sorted(self._known.folders(self._source_id)):
            self.look(folder)
        for path in sorted(self._unseen):
            known = self._unseen[path]
            if self._is_hidden(path):
                continue
            place = _place(known.device, known.inode, known.size, known.mtime_ns)
            if place is not None and self._new.pop(place, None) is not None:
                self._found.moved.add(path)
            else:
                self._found.gone.add(path)
        for path in sorted([*self._new.values(), *self._new_unplaced]):
            self._found.new.add(path)

    def _is_new(self, at: Locator) -> None:
        place = _place(at.device, at.inode, at.size, at.mtime_ns)
        if place is None or place in self._new or len(self._new) >= MOVES_MAX:
            if len(self._new_unplaced) >= MOVES_MAX:
                self._found.new.count += 1
            else:
                self._new_unplaced.append(at.path)
        else:
            self._new[place] = at.path

    def _is_hidden(self, path: bytes) -> bool:
        if path in self._hidden_files:
            return True
        folder = path
        while b"/" in folder:
            folder = folder.rpartition(b"/")[0]
            if folder in self._hidden:
                return True
        return False


def _differs(known: KnownFile, at: Locator) -> bool:
    return (known.size, known.mtime_ns, known.inode) != (at.size, at.mtime_ns, at.inode)


def _place(device: int | None, inode: int | None, size: int | None, mtime_ns: int | None) -> _Place | None:
    if device is None or inode is None or size is None or mtime_ns is None:
        return None
    return (device, inode, size, mtime_ns)
