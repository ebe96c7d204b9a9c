"""Roots, mounts and folders that go away: nothing that is there becomes missing (reports: mount loss and scans)."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from streams.upstream.files.posix import Posix
from tests.integration.library.library import Library

pytestmark = pytest.mark.services


def shelf(library: Library, count: int = 20) -> dict[bytes, str]:
    """Songs in four folders, scanned; the first of each folder has been played."""
    library.make(*(f"folder{number % 4}/song{number:02}.mp3" for number in range(count)))
    library.scan()
    library.play(*(f"folder{number}/song{number:02}.mp3" for number in range(4)))
    library.check()
    return library.ids()


def refuse(monkeypatch: pytest.MonkeyPatch, folder: bytes) -> None:
    """From now on nobody may open the folder of this name."""
    opens = Posix.open_folder

    def open_folder(posix: Posix, name: bytes, parent: int) -> int:
        if name == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return opens(posix, name, parent)

    monkeypatch.setattr(Posix, "open_folder", open_folder)


def test_a_mount_that_is_gone_fails_the_scan_and_changes_nothing(library: Library, tmp_path: Path) -> None:
    before = shelf(library)
    away = library.root.rename(tmp_path / "away")
    library.scan("failed", "root_missing")
    library.check(unseen=before)
    assert library.ids() == before
    away.rename(library.root)
    library.scan()
    library.check()
    assert library.ids() == before


def test_an_empty_mount_is_held_and_its_return_changes_nothing(library: Library, tmp_path: Path) -> None:
    before = shelf(library)
    away = library.root.rename(tmp_path / "away")
    library.root.mkdir()
    library.scan("held", "root_changed")
    library.check(unseen=before)
    assert library.ids() == before
    library.root.rmdir()
    away.rename(library.root)
    scan = library.scan()
    assert (scan.counts["added"], scan.counts["changed"], scan.counts["missing"]) == (0, 0, 0)
    library.check()
    assert library.ids() == before
