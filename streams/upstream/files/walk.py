"""Walking a tree by directory descriptors, from a root that is opened once.

Every step goes from an open folder to a name in it, and never through a symlink: nothing outside the root can be
reached, whatever is renamed meanwhile. Folders come in the order of their raw bytes, each with the files right in it,
then what is below it. One descriptor is held for each level, one folder's names at a time for each level.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from streams.domain.library.limits import PATH_BYTES_MAX
from streams.upstream.files import ignore, kinds
from streams.upstream.files.errors import Changed, OutOfDescriptors, RootMissing
from streams.upstream.files.kinds import Kind
from streams.upstream.files.posix import Entries, Posix

DEPTH_MAX: Final = 64
"""Folders between the root and a file."""
ENTRIES_MAX: Final = 1_000_000
"""Names in one folder."""
CHUNK: Final = 4_096
"""Files of one ``Folder``; a folder with more of them comes in several."""
UNREADABLE: Final = "unreadable"
IGNORED: Final = "ignored"
_OURS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_SIGN: Final = 2**63
_CASE_PROBES: Final = 64


@dataclass(frozen=True, slots=True)
class MediaFile:
    """A regular file that is not empty. ``path``: relative to the root; numbers signed 64 bits, as Locator has them."""

    path: bytes
    name: bytes
    kind: Kind
    size: int
    mtime_ns: int
    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class Folder:
    """Files right in a folder, all or a part of them. ``open`` works until the walk goes on."""

    path: bytes
    files: list[MediaFile]
    descriptor: int
    posix: Posix

    def open(self, file: MediaFile) -> int:
        """A descriptor of the file that was listed, the caller's to close. Raises OSError, or Changed when it is not
        that one any more."""
        descriptor = self.posix.open_file(file.name, self.descriptor)
        try:
            self.check(descriptor, file)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def check(self, descriptor: int, file: MediaFile) -> None:
        """Raise Changed unless an open file is as it was listed. Raises OSError."""
        now = self.posix.stat_open(descriptor)
        if (
            not stat.S_ISREG(now.st_mode)
            or (now.st_size, _clamped(now.st_mtime_ns)) != (file.size, file.mtime_ns)
            or (_signed(now.st_dev), _signed(now.st_ino)) != (file.device, file.inode)
        ):
            raise Changed("it was listed otherwise")


@dataclass(frozen=True, slots=True)
class NotSeen:
    """A place that was not looked at, with everything below it when a folder. ``reason``: unreadable or ignored."""

    path: bytes
    folder: bool
    reason: str


Step: TypeAlias = Folder | NotSeen


@dataclass(slots=True)
class _Level:
    descriptor: int
    path: bytes
    identity: tuple[int, int]
    rules: tuple[ignore.Rules, ...]
    entries: Entries
    next: int = 0


@dataclass(slots=True)
class Tree:
    """An open root. ``skip`` is told the reason for each name that is passed over and not a Step."""

    root: str | os.PathLike[str]
    posix: Posix
    skip: Callable[[str], None]
    descriptor: int
    entries: Entries
    depth_max: int = DEPTH_MAX
    entries_max: int = ENTRIES_MAX
    other_devices: int = 0
    """Folders that lie on another file system than the root: mounts below it."""
    _levels: list[_Level] = field(default_factory=list)

    def case_folds(self) -> bool:
        """Whether a name of the root is found in the other case too; False when no name there has a case."""
        names = [*self.entries.folders, *self.entries.others]
        taken = set(names)
        for name in names[:_CASE_PROBES]:
            other = name.swapcase()
            if other in taken:
                continue
            try:
                one = self.posix.stat(name, self.descriptor)
                two = self.posix.stat(other, self.descriptor)
            except OSError as exc:
                if exc.errno == errno.ENOENT:
                    return False
                continue
            return (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)
        return False

    def walk(self) -> Iterator[Step]:
        """Everything below the root, once. Raises RootMissing, at the end too, when the root is not what it was
        before; what came until then then means nothing. Raises OutOfDescriptors."""
        try:
            yield from self._enter(os.dup(self.descriptor), b"", (), self.entries)
            while self._levels:
                level = self._levels[-1]
                if level.next == len(level.entries.folders):
                    self._leave()
                    continue
                name = level.entries.folders[level.next]
                level.next += 1
                yield from self._below(level, name)
        finally:
            while self._levels:
                self._leave()
        self._check_root()

    def _below(self, above: _Level, name: bytes) -> Iterator[Step]:
        path = above.path + name
        if (reason := kinds.passed_over(name, folder=True)) is not None:
            self.skip(reason)
        elif len(self._levels) > self.depth_max:
            self.skip("depth")
        elif len(path) > PATH_BYTES_MAX:
            self.skip("path_too_long")
        elif ignore.ignores(above.rules, path, folder=True):
            yield NotSeen(path, True, IGNORED)
        else:
            try:
                descriptor = self.posix.open_folder(name, above.descriptor)
            except OSError as exc:
                yield from self._not_opened(exc, path, folder=True)
                return
            try:
                entries = self.posix.entries(descriptor, self.entries_max)
            except OSError as exc:
                os.close(descriptor)
                check_ours(exc)
                yield NotSeen(path, True, UNREADABLE)
                return
            except BaseException:
                os.close(descriptor)
                raise
            if entries.over:
                os.close(descriptor)
                self.skip("too_many_entries")
                yield NotSeen(path, True, UNREADABLE)
                return
            yield from self._enter(descriptor, path + b"/", above.rules, entries)

    def _enter(self, descriptor: int, path: bytes, rules: tuple[ignore.Rules, ...], entries: Entries) -> Iterator[Step]:
        """Takes the descriptor over. The folder becomes the lowest level, unless it is not to be looked at."""
        try:
            here = self.posix.stat_open(descriptor)
        except OSError as exc:
            os.close(descriptor)
            if not path:
                raise RootMissing(f"the root can't be read: {exc.strerror}") from None
            yield NotSeen(path[:-1], True, UNREADABLE)
            return
        level = _Level(descriptor, path, (here.st_dev, here.st_ino), rules, entries)
        if any(level.identity == above.identity for above in self._levels):
            os.close(descriptor)
            self.skip("loop")
            return
        self._levels.append(level)
        self.other_devices += level.identity[0] != self._levels[0].identity[0]
        try:
            found = self._rules(level)
        except (OSError, ignore.BadIgnore) as exc:
            # What it hides must not come to light, and what it does not hide must not be missing.
            if isinstance(exc, OSError):
                check_ours(exc)
            self.skip("bad_ignore_file")
            self._leave()
            if not path:
                raise RootMissing("the .ignore file of the root can't be read") from None
            yield NotSeen(path[:-1], True, UNREADABLE)
            return
        if found is not None:
            level.rules = (*rules, found)
            if found.spec is None and path:
                self._leave()
                yield NotSeen(path[:-1], True, IGNORED)
                return
        for _ in range(entries.symlinks):
            self.skip("symlink")
        yield from self._files(level)
        entries.others.clear()

    def _leave(self) -> None:
        os.close(self._levels.pop().descriptor)

    def _files(self, level: _Level) -> Iterator[Step]:
        files: list[MediaFile] = []
        for name in level.entries.others:
            if (reason := kinds.passed_over(name, folder=False)) is not None:
                self.skip(reason)
                continue
            kind = kinds.kind_of(name)
            if kind is None:
                self.skip("not_media")
                continue
            path = level.path + name
            if len(path) > PATH_BYTES_MAX:
                self.skip("path_too_long")
                continue
            if level.rules and ignore.ignores(level.rules, path, folder=False):
                yield NotSeen(path, False, IGNORED)
                continue
            try:
                seen = self.posix.stat(name, level.descriptor)
            except OSError as exc:
                yield from self._not_opened(exc, path, folder=False)
                continue
            if not stat.S_ISREG(seen.st_mode):
                self.skip("symlink" if stat.S_ISLNK(seen.st_mode) else "special")
            elif not seen.st_size:
                self.skip("zero_bytes")
            else:
                files.append(_media_file(path, name, kind, seen))
                if len(files) == CHUNK:
                    yield Folder(level.path[:-1], files, level.descriptor, self.posix)
                    files = []
        yield Folder(level.path[:-1], files, level.descriptor, self.posix)

    def _not_opened(self, exc: OSError, path: bytes, *, folder: bool) -> Iterator[Step]:
        check_ours(exc)
        match exc.errno:
            case errno.ENOENT:
                self.skip("vanished")
            case errno.ELOOP | errno.ENOTDIR:
                self.skip("symlink")
            case _:
                yield NotSeen(path, folder, UNREADABLE)

    def _rules(self, level: _Level) -> ignore.Rules | None:
        if ignore.NAME not in level.entries.others:
            return None
        try:
            descriptor = self.posix.open_file(ignore.NAME, level.descriptor)
        except FileNotFoundError:
            return None
        try:
            if not stat.S_ISREG(self.posix.stat_open(descriptor).st_mode):
                raise ignore.BadIgnore("no file")
            with open(descriptor, "rb", closefd=False) as file:
                return ignore.parse(level.path, file.read(ignore.BYTES_MAX + 1))
        finally:
            os.close(descriptor)

    def _check_root(self) -> None:
        try:
            held, named = self.posix.stat_open(self.descriptor), self.posix.stat_root(self.root)
        except OSError:
            raise RootMissing("the root went away during the walk") from None
        if (held.st_dev, held.st_ino) != (named.st_dev, named.st_ino):
            raise RootMissing("another folder or file system is at the root than when the walk began")


@contextmanager
def opened(
    root: str | os.PathLike[str],
    skip: Callable[[str], None],
    posix: Posix | None = None,
    *,
    depth_max: int = DEPTH_MAX,
    entries_max: int = ENTRIES_MAX,
) -> Iterator[Tree]:
    """The tree under ``root``, which alone may be named through symlinks. Raises RootMissing, OutOfDescriptors."""
    posix = posix or Posix()
    try:
        descriptor = posix.open_root(root)
    except OSError as exc:
        check_ours(exc)
        raise RootMissing(f"the root can't be opened: {exc.strerror}") from None
    except ValueError:
        raise RootMissing("the root's path holds a NUL") from None
    try:
        try:
            entries = posix.entries(descriptor, entries_max)
        except OSError as exc:
            check_ours(exc)
            raise RootMissing(f"the root can't be listed: {exc.strerror}") from None
        if entries.over:
            raise RootMissing(f"the root holds over {entries_max} entries")
        yield Tree(root, posix, skip, descriptor, entries, depth_max, entries_max)
    finally:
        with suppress(OSError):
            os.close(descriptor)


def _media_file(path: bytes, name: bytes, kind: Kind, seen: os.stat_result) -> MediaFile:
    return MediaFile(
        path, name, kind, seen.st_size, _clamped(seen.st_mtime_ns), _signed(seen.st_dev), _signed(seen.st_ino)
    )


def _signed(number: int) -> int:
    return number - 2 * _SIGN if number >= _SIGN else number


def _clamped(number: int) -> int:
    return max(-_SIGN, min(number, _SIGN - 1))


def check_ours(exc: OSError) -> None:
    """Raise when it is this machine that lacks something."""
    if exc.errno in _OURS:
        raise OutOfDescriptors(f"no file can be opened: {exc.strerror}") from None
