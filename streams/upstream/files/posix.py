"""The calls to the operating system that a walk makes, in one place, so that a test may let them fail."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# A FIFO or a device must not hold us up, nor a terminal become ours.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


@dataclass(frozen=True, slots=True)
class Entries:
    """Names in a folder by raw bytes: ``folders`` and everything else, neither of them symlinks."""

    folders: list[bytes]
    others: list[bytes]
    symlinks: int
    over: bool
    """There are more than were asked for; the lists are cut."""


class Posix:
    """Every method raises OSError."""

    def open_root(self, path: str | os.PathLike[str]) -> int:
        return os.open(path, _FOLDER)

    def open_folder(self, name: bytes, parent: int) -> int:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)

    def open_file(self, name: bytes, parent: int) -> int:
        return os.open(name, _FILE, dir_fd=parent)

    def entries(self, folder: int, at_most: int) -> Entries:
        folders: list[bytes] = []
        others: list[bytes] = []
        symlinks = count = 0
        with os.scandir(folder) as found:
            for entry in found:
                count += 1
                if count > at_most:
                    return Entries(folders, others, symlinks, True)
                if entry.is_symlink():
                    symlinks += 1
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(os.fsencode(entry.name))
                else:
                    others.append(os.fsencode(entry.name))
        folders.sort()
        others.sort()
        return Entries(folders, others, symlinks, False)

    def stat(self, name: bytes, parent: int) -> os.stat_result:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)

    def stat_root(self, path: str | os.PathLike[str]) -> os.stat_result:
        return os.stat(path)

    def stat_open(self, descriptor: int) -> os.stat_result:
        return os.fstat(descriptor)
