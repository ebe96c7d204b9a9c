"""Names, links and kinds of files, on a real tree (reports: identity, paths, unicode, case, links)."""

from __future__ import annotations

import os
import socket
import unicodedata
from pathlib import Path

import pytest

from tests.effects.scan.desk import Desk, make_old, make_wav

NFC, NFD = unicodedata.normalize("NFC", "Björk é"), unicodedata.normalize("NFD", "Björk é")


def put(root: Path, name: bytes, salt: int = 1) -> bytes:
    """A sound under a name of bytes, in the root or below."""
    whole = os.fsencode(root) + b"/" + name
    os.makedirs(os.path.dirname(whole), exist_ok=True)
    made = make_wav(root.parent / "made.wav", salt=salt)
    os.rename(made, whole)
    return name


def test_names_in_nfc_and_nfd_are_two_files_each_with_its_own_bytes(desk: Desk) -> None:
    names = {put(desk.root, f"{form}/{form}.wav".encode(), salt) for salt, form in enumerate((NFC, NFD))}
    assert set(desk.scan().paths) == names
    assert desk.scan().read == []


def test_a_rename_that_changes_only_case_is_told_with_the_same_inode_and_content(desk: Desk) -> None:
    put(desk.root, b"Song.wav")
    before = desk.scan().of("Song.wav")
    os.rename(desk.root / "Song.wav", desk.root / "song.wav")
    after = desk.scan()
    assert after.paths == [b"song.wav"]
    assert before.locator is not None
    assert before.details is not None
    at = after.of("song.wav").locator
    assert at is not None
    assert (at.inode, at.device) == (before.locator.inode, before.locator.device)
    assert after.details("song.wav").content_hash == before.details.content_hash


@pytest.mark.parametrize(
    "name",
    [
        b"not utf-8 \xff\xfe.wav",
        b"line\nbreak.wav",
        b"line\nbreak/inside\n.wav",
        b"quote\"'`$(x);&.wav",
        b"back\\slash.wav",
        b" leading and trailing /x .wav",
        "emoji 🎧 and עברית.wav".encode(),
        b"x" * 236 + b".wav",
        b"%25#?&.wav",
        b"*?[a].wav",
    ],
)
def test_an_odd_name_is_told_byte_for_byte(desk: Desk, name: bytes) -> None:
    put(desk.root, name)
    told = desk.scan()
    assert told.paths == [name]
    details = told.details(name)
    assert details.title
    assert "\0" not in details.title
    assert [one.kind for one in details.collections] == ["folder"]
    assert desk.scan().read == []


def test_upper_case_suffixes_are_media_too(desk: Desk) -> None:
    put(desk.root, b"SONG.WAV")
    assert desk.scan().paths == [b"SONG.WAV"]


def test_symlinks_and_loops_of_them_are_counted_and_never_followed(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    make_wav(outside / "secret.wav")
    put(desk.root, b"a/b/real.wav")
    (desk.root / "a/b/up").symlink_to(desk.root, target_is_directory=True)
    (desk.root / "a/self").symlink_to("self")
    (desk.root / "out").symlink_to(outside, target_is_directory=True)
    (desk.root / "secret.wav").symlink_to(outside / "secret.wav")
    (desk.root / "dangling.wav").symlink_to("nowhere")
    told = desk.scan()
    assert told.paths == [b"a/b/real.wav"]
    assert told.count("symlink") == 5
    assert told.skipped == []


def test_the_root_itself_may_be_named_by_a_symlink(desk: Desk, tmp_path: Path) -> None:
    put(desk.root, b"a.wav")
    link = tmp_path / "link"
    link.symlink_to(desk.root, target_is_directory=True)
    desk.root = link
    assert desk.scan().paths == [b"a.wav"]


def test_a_folder_swapped_for_a_symlink_during_the_walk_is_not_entered(desk: Desk, tmp_path: Path) -> None:
    make_wav(tmp_path / "outside/secret.wav")
    put(desk.root, b"a/one.wav")
    put(desk.root, b"b/two.wav")
    opens = desk.posix.open_folder

    def swapped(name: bytes, parent: int) -> int:
        if name == b"b":
            os.rename(desk.root / "b", desk.root / "c")
            (desk.root / "b").symlink_to(tmp_path / "outside", target_is_directory=True)
        return opens(name, parent)

    desk.posix.open_folder = swapped  # type: ignore[method-assign]
    told = desk.scan()
    assert told.paths == [b"a/one.wav"]
    assert told.count("symlink") == 1


def test_hard_links_are_told_each_with_the_same_inode(desk: Desk) -> None:
    put(desk.root, b"a.wav")
    os.link(desk.root / "a.wav", desk.root / "b.wav")
    told = desk.scan()
    assert told.paths == [b"a.wav", b"b.wav"]
    assert len({event.locator.inode for event in told.items if event.locator}) == 1


def test_what_is_no_regular_file_is_never_opened(desk: Desk) -> None:
    os.mkfifo(desk.root / "pipe.wav")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(desk.root / "socket.wav"))
    os.mknod(desk.root / "device.wav", 0o020600, os.makedev(1, 5)) if os.geteuid() == 0 else os.mkfifo(
        desk.root / "device.wav"
    )
    put(desk.root, b"real.wav")
    told = desk.scan()
    listening.close()
    assert told.paths == [b"real.wav"]
    assert told.count("special") == 3


def test_a_file_swapped_for_a_pipe_after_it_was_listed_does_not_block(desk: Desk) -> None:
    put(desk.root, b"a.wav")
    opens = desk.posix.open_file

    def swapped(name: bytes, parent: int) -> int:
        os.unlink(desk.root / "a.wav")
        os.mkfifo(desk.root / "a.wav")
        return opens(name, parent)

    desk.posix.open_file = swapped  # type: ignore[method-assign]
    told = desk.scan()
    assert told.of("a.wav").settled is False
    assert told.read == []


def test_names_that_are_passed_over_are_counted_by_reason(desk: Desk) -> None:
    for name in (
        b".hidden.wav",
        b".folder/x.wav",
        b"@eaDir/x.wav",
        b"._song.wav",
        b"song.wav.part",
        b"song.wav~",
        b"~$song.wav",
        b"cover.jpg",
        b"noend",
        b"real.wav",
    ):
        put(desk.root, name)
    (desk.root / "empty.wav").touch()
    told = desk.scan()
    assert told.paths == [b"real.wav"]
    assert {one.reason: one.count for one in told.listed.skipped} == {
        "hidden": 3,
        "appledouble": 1,
        "temporary": 3,
        "not_media": 2,
        "zero_bytes": 1,
    }


def test_order_is_by_raw_bytes_files_of_a_folder_before_the_folders_in_it(desk: Desk) -> None:
    for name in (b"b/1.wav", b"a/2.wav", b"a/1.wav", b"z.wav", b"B/1.wav", b"a/b/0.wav", b"a.wav"):
        put(desk.root, name)
    assert desk.scan().paths == [
        b"a.wav",
        b"z.wav",
        b"B/1.wav",
        b"a/1.wav",
        b"a/2.wav",
        b"a/b/0.wav",
        b"b/1.wav",
    ]


def test_folders_deeper_than_the_cap_are_counted_not_walked(desk: Desk) -> None:
    put(desk.root, b"/".join([b"d"] * 64) + b"/in.wav")
    put(desk.root, b"/".join([b"d"] * 65) + b"/out.wav")
    told = desk.scan()
    assert told.paths == [b"/".join([b"d"] * 64) + b"/in.wav"]
    assert told.count("depth") == 1


def test_paths_longer_than_the_log_takes_are_counted_not_told(desk: Desk) -> None:
    put(desk.root, b"in.wav")
    folder = os.open(desk.root, os.O_RDONLY)
    for _ in range(17):
        os.mkdir(b"d" * 250, dir_fd=folder)
        inner = os.open(b"d" * 250, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(os.open(b"x.wav", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)
    told = desk.scan()
    assert told.paths == [b"in.wav"]
    assert told.count("path_too_long") == 1


def test_a_sparse_file_is_listed_by_its_size(desk: Desk) -> None:
    put(desk.root, b"big.wav")
    os.truncate(desk.root / "big.wav", 5_000_000_000)
    make_old(desk.root / "big.wav")
    at = desk.scan().of("big.wav").locator
    assert at is not None
    assert at.size == 5_000_000_000
    assert desk.scan().read == []


@pytest.mark.parametrize(("folds", "other_is"), [(True, "same"), (False, "absent")])
def test_case_folding_is_asked_of_the_file_system(desk: Desk, folds: bool, other_is: str) -> None:
    put(desk.root, b"Song.wav")
    real = desk.posix.stat

    def stat(name: bytes, parent: int) -> os.stat_result:
        return real(b"Song.wav" if other_is == "same" else name, parent)

    desk.posix.stat = stat  # type: ignore[method-assign]
    assert desk.scan().started[0].case_folds is folds


def test_names_of_both_cases_side_by_side_do_not_make_a_folding_file_system(desk: Desk) -> None:
    put(desk.root, b"song.wav")
    os.link(desk.root / "song.wav", desk.root / "SONG.WAV")
    assert desk.scan().started[0].case_folds is False
