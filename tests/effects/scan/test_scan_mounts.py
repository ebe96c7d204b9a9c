"""Roots, mounts and folders that go away or can't be read (reports: mount loss, partial and aborted scans)."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from streams.effects.scan import scanner
from streams.effects.scan.ports import SourceFailed
from streams.runtime.leases import Cancelled, LeaseLost
from streams.upstream.files import walk
from streams.upstream.files.errors import OutOfDescriptors, RootMissing
from streams.upstream.files.posix import Entries, Posix
from tests.effects.scan.desk import Desk, FakeLease, Told, make_wav


def failing(desk: Desk, folder: bytes, code: int) -> None:
    """From now on the folder can't be listed."""
    opens = Posix().open_folder

    def open_folder(name: bytes, parent: int) -> int:
        if name == folder:
            raise OSError(code, os.strerror(code))
        return opens(name, parent)

    desk.posix.open_folder = open_folder  # type: ignore[method-assign]


def three_folders(desk: Desk) -> None:
    for number, name in enumerate(("a/1", "b/2", "b/inner/3", "c/4")):
        make_wav(desk.root / f"{name}.wav", salt=number)


def fails(desk: Desk) -> Told:
    with pytest.raises(SourceFailed):
        desk.scan()
    return desk.told()


def test_a_missing_root_fails_the_scan_before_anything_is_listed(desk: Desk) -> None:
    desk.root.rmdir()
    told = fails(desk)
    assert told.failed == [("root_missing", "the root can't be opened: No such file or directory")]
    assert len(told.events) == 1


def test_a_root_that_is_a_file_fails_the_scan(desk: Desk) -> None:
    desk.root.rmdir()
    desk.root.write_text("a file")
    assert fails(desk).failed[0][0] == "root_missing"


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ESTALE, errno.ENODEV])
def test_an_unreadable_root_fails_the_scan(desk: Desk, code: int) -> None:
    def entries(folder: int, at_most: int) -> Entries:
        raise OSError(code, os.strerror(code))

    desk.posix.entries = entries  # type: ignore[method-assign]
    assert fails(desk).failed[0][0] == "root_missing"


def test_an_empty_mount_is_a_complete_listing_of_nothing(desk: Desk) -> None:
    three_folders(desk)
    desk.scan()
    shutil.rmtree(desk.root)
    desk.root.mkdir()
    told = desk.scan()
    assert told.paths == []
    assert told.listed.complete is True


@pytest.mark.parametrize("back", [True, False])
def test_a_root_replaced_during_the_walk_fails_the_scan(desk: Desk, tmp_path: Path, back: bool) -> None:
    three_folders(desk)

    def lose(_: int) -> None:
        if desk.root.exists() and not (tmp_path / "gone").exists():
            desk.root.rename(tmp_path / "gone")
            if back:
                desk.root.mkdir()

    desk.sink.on_flush = lose
    told = fails(desk)
    assert told.failed[0][0] == "root_missing"
    assert not any(event for event in told.events if type(event).__name__ == "ScanListed")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ESTALE, errno.ENODEV])
def test_one_unreadable_folder_is_told_as_such_and_the_rest_is_seen(desk: Desk, code: int) -> None:
    three_folders(desk)
    desk.scan()
    failing(desk, b"b", code)
    told = desk.scan()
    assert told.paths == [b"a/1.wav", b"c/4.wav"]
    assert told.skipped == [(b"b", True, "unreadable")]
    assert told.listed.complete is True
    assert told.counts.unreadable_paths == (b"b",)


def test_an_error_in_the_middle_of_a_folders_list_makes_all_of_it_unreadable(desk: Desk) -> None:
    three_folders(desk)
    lists = desk.posix.entries
    calls = iter(range(100))

    def entries(folder: int, at_most: int) -> Entries:
        found = lists(folder, at_most)
        if next(calls) == 2:
            raise OSError(errno.EIO, "half of it was read")
        return found

    desk.posix.entries = entries  # type: ignore[method-assign]
    told = desk.scan()
    assert told.skipped == [(b"b", True, "unreadable")]
    assert told.paths == [b"a/1.wav", b"c/4.wav"]


def test_a_folder_that_nobody_else_may_read_is_unreadable_to_others(desk: Desk) -> None:
    """The kernel's own refusal, seen by a process without root's rights."""
    three_folders(desk)
    os.chmod(desk.root / "b", 0)
    if os.geteuid() != 0:
        assert desk.scan().skipped == [(b"b", True, "unreadable")]
        return
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            # The way to the root stays open by descriptor.
            with walk.opened(desk.root, lambda _: None) as tree:
                os.setegid(65534)
                os.seteuid(65534)
                # At the end the root is named again, which nobody may here.
                with suppress(RootMissing):
                    for step in tree.walk():
                        if isinstance(step, walk.NotSeen):
                            os.write(writing, step.path + b"|")
                os.seteuid(0)
                status = 0
        finally:
            os._exit(status)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, "rb") as pipe:
        assert pipe.read() == b"b|"
    os.chmod(desk.root / "b", 0o755)


@pytest.mark.parametrize(("code", "told_as"), [(errno.EACCES, "unreadable"), (errno.EIO, "unreadable")])
def test_one_unreadable_file_is_told_as_such_and_its_folder_is_seen(desk: Desk, code: int, told_as: str) -> None:
    three_folders(desk)
    opens = desk.posix.open_file

    def open_file(name: bytes, parent: int) -> int:
        if name == b"2.wav":
            raise OSError(code, os.strerror(code))
        return opens(name, parent)

    desk.posix.open_file = open_file  # type: ignore[method-assign]
    told = desk.scan()
    assert told.skipped == [(b"b/2.wav", False, told_as)]
    assert told.paths == [b"a/1.wav", b"b/inner/3.wav", b"c/4.wav"]


def test_a_file_gone_between_list_and_stat_is_only_counted(desk: Desk) -> None:
    three_folders(desk)
    stats = desk.posix.stat

    def stat(name: bytes, parent: int) -> os.stat_result:
        if name == b"2.wav":
            raise FileNotFoundError(errno.ENOENT, "gone")
        return stats(name, parent)

    desk.posix.stat = stat  # type: ignore[method-assign]
    told = desk.scan()
    assert told.count("vanished") == 1
    assert told.skipped == []


def test_a_machine_without_descriptors_says_nothing_about_the_tree(desk: Desk) -> None:
    three_folders(desk)
    failing(desk, b"b", errno.EMFILE)
    with pytest.raises(OutOfDescriptors):
        desk.scan()
    assert desk.told().skipped == []
    assert desk.told().failed == []


def test_a_folder_with_too_many_entries_is_protected_not_cut(desk: Desk) -> None:
    three_folders(desk)
    for number in range(2):
        make_wav(desk.root / f"b/more{number}.wav", salt=number)
    skipped: list[str] = []
    with walk.opened(desk.root, skipped.append, entries_max=3) as tree:
        steps = list(tree.walk())
    assert walk.NotSeen(b"b", True, "unreadable") in steps
    assert skipped == ["too_many_entries"]


def test_no_descriptor_stays_open_after_a_scan_however_it_ends(desk: Desk) -> None:
    three_folders(desk)
    desk.scan()
    before = len(os.listdir("/dev/fd"))
    desk.scan(full=True)
    failing(desk, b"b", errno.EMFILE)
    with pytest.raises(OutOfDescriptors):
        desk.scan(full=True)
    desk.lease.on_check = _raise(LeaseLost("not ours"), at=desk.lease.checks + 3)
    desk.posix = Posix()
    with pytest.raises(LeaseLost):
        desk.scan(full=True)
    desk.reader.close()
    assert len(os.listdir("/dev/fd")) <= before


@pytest.mark.parametrize("after", [1, 2, 3, 4, 5, 6])
def test_a_lost_lease_ends_the_scan_without_another_word(desk: Desk, after: int) -> None:
    three_folders(desk)
    desk.lease.on_check = _raise(LeaseLost("not ours"), at=after)
    with pytest.raises(LeaseLost):
        desk.scan()
    said = desk.sink.events
    assert not any(type(event).__name__ in ("ScanListed", "ScanFailed") for event in said)
    assert len(said) == desk.sink.durable


def test_a_cancelled_scan_says_so_and_lists_nothing_as_complete(desk: Desk) -> None:
    three_folders(desk)
    desk.lease.on_check = _raise(Cancelled("stop"), at=3)
    with pytest.raises(Cancelled):
        desk.scan()
    told = desk.told()
    assert told.failed == [("cancelled", "")]
    assert told.events[-1] is desk.sink.events[-1]


def _raise(error: Exception, at: int) -> Callable[[int], None]:
    def check(number: int) -> None:
        if number >= at:
            raise error

    return check


def test_the_lease_is_looked_at_before_each_chunk_of_a_large_folder(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "CHUNK", 2)
    for number in range(5):
        make_wav(desk.root / f"{number}.wav", salt=number)
    desk.scan()
    desk.lease = FakeLease(on_check=_raise(LeaseLost("not ours"), at=3))
    with pytest.raises(LeaseLost):
        desk.scan()
    # ScanStarted and the first chunk.
    assert len(desk.sink.events) == 3
