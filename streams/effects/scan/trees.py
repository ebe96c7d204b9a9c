"""A folder tree as a source: what is as it was known costs one stat; what is not is opened and read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from schemas.library import Locator
from streams.effects.scan.ports import Found, KnownFile, Look, Sighting, Skip, SourceFailed, Tally
from streams.runtime.clock import Clock, SystemClock
from streams.upstream.files import walk
from streams.upstream.files.describe import describe
from streams.upstream.files.errors import Changed, RootMissing, Unread
from streams.upstream.files.posix import Posix
from streams.upstream.files.reading.reader import Reader, Readers
from streams.upstream.files.walk import Folder, MediaFile, NotSeen, Tree

GROWING_MS: Final = 10_000
"""A file that changed less than this ago, or will, may still be written."""
READ_AT_ONCE: Final = 64
"""Files read for one batch: between two of them the lease is looked at."""
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
        readers = Readers(self.readers or default_readers())
        try:
            with walk.opened(self.root, tally.skip, self.posix) as tree:
                folds = tree.case_folds() if self.case_folds is None else self.case_folds
                with ThreadPoolExecutor(readers.size, "read") as pool:
                    yield TreeListing(tree, folds, tally, self.clock, readers, pool)
        except RootMissing as exc:
            raise SourceFailed("root_missing", str(exc)) from None
        finally:
            readers.close()


@dataclass(frozen=True, slots=True)
class TreeListing:
    tree: Tree
    case_folds: bool
    tally: Tally
    clock: Clock
    readers: Readers
    pool: ThreadPoolExecutor

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
        rest = iter(to_read)
        while some := list(islice(rest, READ_AT_ONCE)):
            read: list[Found] = []
            for found, reason in self.pool.map(lambda file: self._read(folder, file), some):
                read.append(found)
                if reason is not None:
                    self.tally.skip(reason)
            yield read

    def _read(self, folder: Folder, file: MediaFile) -> tuple[Found, str | None]:
        """What is in a file, and what to count; in a thread of the pool. What is wrong with it stays with it."""
        suffix = os.fsdecode(file.name.rpartition(b".")[2].lower())
        try:
            with folder.open(file) as descriptor, self.readers.one() as reader:
                contents = reader.read(descriptor, file.kind, suffix)
        except (Changed, FileNotFoundError):
            return Sighting(locator_of(file), settled=False), "growing"
        except OSError as exc:
            walk.check_ours(exc)
            return Skip(file.path, False, walk.UNREADABLE), None
        except Unread as exc:
            return Sighting(locator_of(file), failed=exc.cause), None
        found = Sighting(locator_of(file), details=describe(file, contents))
        return found, "no_reader" if contents.library_missing else None


def unchanged(file: MediaFile, known: KnownFile | None) -> bool:
    """Whether a file is what was stored, as far as a stat tells. Device numbers change when a disk is mounted again
    and say nothing beside the rest."""
    return (
        known is not None and known.size == file.size and known.mtime_ns == file.mtime_ns and known.inode == file.inode
    )


def locator_of(file: MediaFile) -> Locator:
    return Locator(file.path, file.size, file.mtime_ns, file.device, file.inode)
