"""A folder tree as a source: what is as it was known costs one stat; what is not is opened and read."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Final

from schemas.library import Locator
from streams.effects.scan.ports import Found, KnownFile, Look, Sighting, Skip, SourceFailed, Tally
from streams.runtime.clock import Clock, SystemClock
from streams.upstream.files import walk
from streams.upstream.files.describe import describe
from streams.upstream.files.errors import Changed, RootMissing, Unread
from streams.upstream.files.posix import Posix
from streams.upstream.files.reading.reader import Contents, Reader
from streams.upstream.files.walk import Folder, MediaFile, NotSeen, Tree

GROWING_MS: Final = 10_000
"""A file that changed less than this ago, or will, may still be written."""
READ_AT_ONCE: Final = 64
"""Files read for one batch: between two of them the lease is looked at."""
AHEAD: Final = 4
"""Files each reader is asked about before it has answered."""
BATCH_MAX: Final = 1_000


def default_readers() -> list[Reader]:
    return [Reader() for _ in range(max(1, min(4, os.cpu_count() or 1)))]


@dataclass(frozen=True, slots=True)
class FileTree:
    """``root`` may lead through symlinks; nothing below it is followed. ``case_folds``: None asks the file system."""

    root: Path
    clock: Clock = field(default_factory=SystemClock)
    posix: Posix = field(default_factory=Posix)
    case_folds: bool | None = None
    readers: Sequence[Reader] | None = None

    @contextmanager
    def opened(self) -> Iterator[TreeListing]:
        """The root, opened and listed. Raises SourceFailed(root_missing)."""
        tally = Tally()
        readers = self.readers or default_readers()
        try:
            with walk.opened(self.root, tally.skip, self.posix) as tree:
                folds = tree.case_folds() if self.case_folds is None else self.case_folds
                yield TreeListing(tree, folds, tally, self.clock, readers)
        except RootMissing as exc:
            raise SourceFailed("root_missing", str(exc)) from None
        finally:
            for reader in readers:
                reader.close()


@dataclass(frozen=True, slots=True)
class TreeListing:
    tree: Tree
    case_folds: bool
    tally: Tally
    clock: Clock
    readers: Sequence[Reader]

    def batches(self, look: Look, *, full: bool) -> Iterator[list[Found]]:
        """Raises SourceFailed(root_missing) when the root is another one, or none, at the end."""
        path: bytes | None = None
        known: Mapping[bytes, KnownFile] = {}
        try:
            for step in self.tree.walk():
                match step:
                    case NotSeen(skipped, folder, reason):
                        yield [Skip(skipped, folder, reason)]
                    case Folder():
                        if step.path != path:
                            path, known = step.path, look(step.path)
                        yield from self._of(step, known, full)
        except RootMissing as exc:
            raise SourceFailed("root_missing", str(exc)) from None
        finally:
            if self.tree.other_devices:
                self.tally.skipped["other_device"] = self.tree.other_devices

    def _of(self, folder: Folder, known: Mapping[bytes, KnownFile], full: bool) -> Iterator[list[Found]]:
        now_ms = self.clock.now_ms()
        batch: list[Found] = []
        to_read: list[MediaFile] = []
        for file in folder.files:
            if not full and unchanged(file, known.get(file.path)):
                batch.append(Sighting(locator_of(file)))
                if len(batch) == BATCH_MAX:
                    yield batch
                    batch = []
            elif abs(now_ms - file.mtime_ns // 1_000_000) < GROWING_MS:
                self.tally.skip("growing")
                batch.append(Sighting(locator_of(file), settled=False))
            else:
                to_read.append(file)
        yield batch
        batch = []
        for found, reason in self._read(folder, to_read):
            batch.append(found)
            if reason is not None:
                self.tally.skip(reason)
            if len(batch) >= READ_AT_ONCE:
                yield batch
                batch = []
        yield batch

    def _read(self, folder: Folder, files: list[MediaFile]) -> Iterator[tuple[Found, str | None]]:
        """What is in each file, and what to count. The readers are asked about a few ahead."""
        pending: deque[_Pending] = deque()
        try:
            for file, reader in zip(files, cycle(self.readers), strict=False):
                pending.append(self._begun(folder, file, reader))
                if len(pending) == AHEAD * len(self.readers):
                    yield self._ended(folder, pending.popleft())
            while pending:
                yield self._ended(folder, pending.popleft())
        finally:
            for reader in self.readers if pending else ():
                reader.close()
            for one in pending:
                one.close()

    def _begun(self, folder: Folder, file: MediaFile, reader: Reader) -> _Pending:
        try:
            descriptor = folder.open(file)
        except (OSError, Changed) as exc:
            return _Pending(file, reader, None, exc)
        reader.ask(descriptor, file.kind, os.fsdecode(file.name.rpartition(b".")[2].lower()))
        return _Pending(file, reader, descriptor, None)

    def _ended(self, folder: Folder, one: _Pending) -> tuple[Found, str | None]:
        locator = locator_of(one.file)
        try:
            contents = one.result(folder)
        except (Changed, FileNotFoundError):
            return Sighting(locator, settled=False), "growing"
        except OSError as exc:
            walk.check_ours(exc)
            return Skip(one.file.path, False, walk.UNREADABLE), None
        except Unread as exc:
            return Sighting(locator, failed=exc.cause), None
        finally:
            one.close()
        found = Sighting(locator, details=describe(one.file, contents))
        return found, "no_reader" if contents.library_missing else None


@dataclass(slots=True)
class _Pending:
    file: MediaFile
    reader: Reader
    descriptor: int | None
    error: Exception | None

    def result(self, folder: Folder) -> Contents:
        """Raises Unread, Changed, OSError."""
        if self.error is not None:
            raise self.error
        assert self.descriptor is not None
        try:
            return self.reader.take()
        finally:
            # What it was while it was read counts more than what was made of it.
            folder.check(self.descriptor, self.file)

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def unchanged(file: MediaFile, known: KnownFile | None) -> bool:
    """Whether a file is what was stored, as far as a stat tells. Device numbers change when a disk is mounted again
    and say nothing beside the rest."""
    return (
        known is not None and known.size == file.size and known.mtime_ns == file.mtime_ns and known.inode == file.inode
    )


def locator_of(file: MediaFile) -> Locator:
    return Locator(file.path, file.size, file.mtime_ns, file.device, file.inode)
