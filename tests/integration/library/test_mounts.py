"""Roots, mounts and folders that go away: nothing that is there becomes missing (reports: mount loss and scans)."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from streams.upstream.files.posix import Posix
from tests.integration.library.library import Library

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("library"), pytest.mark.long]


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


def test_a_mount_that_is_really_emptied_is_missing_once_that_is_confirmed(library: Library) -> None:
    before = shelf(library)
    for name in before:
        library.remove(name)
    held = library.scan("held", "root_changed")
    library.confirm(held.generation)
    library.check()
    assert library.statuses(*before.values()) == ["missing"] * len(before)


def test_songs_in_one_unreadable_folder_are_not_missing(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    before = shelf(library)
    refuse(monkeypatch, b"folder1")
    hidden = {path for path in before if path.startswith(b"folder1/")}
    library.remove("folder2/song02.mp3")
    scan = library.scan()
    assert (scan.counts["unreadable"], scan.counts["missing"]) == (len(hidden), 1)
    library.check()
    items = library.items()
    assert {path for path, media in before.items() if not items[media].readable} == hidden
    assert items[before[b"folder2/song02.mp3"]].status == "missing"
    monkeypatch.undo()
    library.scan()
    library.check()
    assert all(item.readable for item in library.items().values() if item.status == "present")
    assert library.ids() == {path: media for path, media in before.items() if path != b"folder2/song02.mp3"}


def test_what_moved_out_of_a_folder_that_became_unreadable_is_told_when_it_can_be_read_again(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = shelf(library)
    library.copy("folder1/song01.mp3", "folder2/moved.mp3")
    library.remove("folder1/song01.mp3")
    refuse(monkeypatch, b"folder1")
    library.scan()
    hidden = {path for path in before if path.startswith(b"folder1/")}
    library.check(unseen=hidden)
    assert library.of("folder2/moved.mp3").status == "provisional"
    monkeypatch.undo()
    library.scan()
    library.check()
    assert library.of("folder2/moved.mp3").media_id == before[b"folder1/song01.mp3"]
    assert len(library.ids()) == len(before)


def test_over_a_tenth_removed_is_held_until_it_is_confirmed(library: Library) -> None:
    library.make(*(f"{number % 6}/song{number:02}.mp3" for number in range(60)))
    library.scan()
    library.play("1/song01.mp3")
    before = library.ids()
    gone = sorted(before)[:8]  # 12 %
    library.remove(*gone)
    held = library.scan("held", "mass_removal")
    assert held.counts["missing"] == 8
    assert library.ids() == before
    library.check(unseen=gone)
    library.confirm(held.generation)
    library.check()
    assert library.statuses(*(before[path] for path in gone)) == ["missing"] * 8


def test_a_held_scan_that_is_confirmed_after_some_songs_came_back_takes_only_the_others(library: Library) -> None:
    library.make(*(f"{number % 6}/song{number:02}.mp3" for number in range(60)))
    library.scan()
    library.play("0/song00.mp3")
    before = library.ids()
    gone = sorted(before)[:8]
    library.remove(*gone)
    held = library.scan("held", "mass_removal")
    back = gone[:4]
    library.make(*back)
    library.tell_seen(*back)  # no scan has come by
    library.confirm(held.generation)
    assert library.statuses(*(before[path] for path in back)) == ["present"] * 4
    assert library.statuses(*(before[path] for path in gone[4:])) == ["missing"] * 4
    library.check()
    library.scan()
    library.check()
    assert library.ids() == {path: media for path, media in before.items() if path not in gone[4:]}


def test_a_held_scan_is_overtaken_by_one_that_finds_everything(library: Library, tmp_path: Path) -> None:
    library.make(*(f"{number % 6}/song{number:02}.mp3" for number in range(60)))
    library.scan()
    before = library.ids()
    away = library.path("2").rename(tmp_path / "away")
    held = library.scan("held", "mass_removal")
    away.rename(library.path("2"))
    library.scan()
    library.check()
    assert library.ids() == before
    [status] = [one.status for one in library.scans() if one.generation == held.generation]
    assert status == "superseded"


def test_a_root_that_is_mounted_elsewhere_is_the_same_library(library: Library, tmp_path: Path) -> None:
    before = shelf(library)
    library.move_root(library.root.rename(tmp_path / "elsewhere"))
    scan = library.scan()
    assert (scan.counts["added"], scan.counts["changed"], scan.counts["missing"]) == (0, 0, 0)
    library.check()
    assert library.ids() == before


def test_a_copy_of_the_root_on_another_disk_is_the_same_library(library: Library, tmp_path: Path) -> None:
    before = shelf(library)
    copied = tmp_path / "copied"
    shutil.copytree(library.root, copied)
    library.move_root(copied)
    library.scan()
    library.check()
    assert library.ids() == before


def test_a_root_that_is_changed_for_another_during_the_walk_fails_the_scan(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = shelf(library)
    away = tmp_path / "away"

    def lose() -> None:
        library.root.rename(away)
        library.root.mkdir()

    library.when_opened(monkeypatch, b"folder2", lose)
    library.scan("failed", "root_missing")
    monkeypatch.undo()
    assert library.ids() == before
    library.root.rmdir()
    away.rename(library.root)
    library.scan()
    library.check()
    assert library.ids() == before


def test_deleted_songs_do_not_linger_and_are_the_same_when_they_come_back(library: Library) -> None:
    before = shelf(library)
    gone = [b"folder0/song00.mp3", b"folder3/song07.mp3"]
    library.remove(*gone)
    scan = library.scan()
    assert scan.counts["missing"] == 2
    library.check()
    answer = library.house.operator.get(
        f"/v1/sources/{library.source_id}/items", params={"status": "present", "limit": 1000}
    )
    assert len(answer.json()["items"]) == len(before) - 2
    library.scan()
    library.check()
    library.make(*gone)
    library.scan()
    library.check()
    assert library.ids() == before


def test_a_scan_without_changes_says_nothing_of_any_item(library: Library) -> None:
    shelf(library)
    told = len(library.house.changes(library.source_id))
    library.scan()
    news = library.house.changes(library.source_id)[told:]
    assert {type(event).__name__ for event in news} == {"ScanChanged"}
    library.check()
