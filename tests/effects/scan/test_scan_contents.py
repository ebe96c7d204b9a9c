"""What is read when, and what is told of it (reports: bad tags; replaced, changed and unchanged files)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.library import CollectionRef, ProviderId
from streams.upstream.files.kinds import kind_of
from streams.upstream.files.reading import reader as readers
from streams.upstream.files.reading.reader import Reader
from tests.effects.scan.desk import LONG_AGO_NS, Desk, make_old, make_wav
from tests.effects.scan.media import make_avi, make_mp3

MBID = "0383dadf-2a4e-4d10-a46a-e9e041da8eb3"


def test_an_unchanged_tree_is_told_again_without_opening_a_file(desk: Desk) -> None:
    make_wav(desk.root / "a/1.wav", salt=1)
    make_wav(desk.root / "a/2.wav", salt=2)
    first = desk.scan()
    assert first.read == [b"a/1.wav", b"a/2.wav"]

    def never(name: bytes, parent: int) -> int:
        raise AssertionError(name)

    desk.posix.open_file = never  # type: ignore[method-assign]
    again = desk.scan()
    assert again.paths == first.paths
    assert again.read == []
    assert sorted(set(desk.known.asked)) == [b"", b"a"]


def test_a_full_scan_reads_what_is_unchanged_as_well(desk: Desk) -> None:
    make_wav(desk.root / "1.wav")
    desk.scan()
    told = desk.scan(full=True)
    assert told.read == [b"1.wav"]
    assert told.started[0].full is True


def test_of_many_files_only_changed_ones_are_read(desk: Desk) -> None:
    for number in range(20):
        make_wav(desk.root / f"{number:02}.wav", salt=number)
    desk.scan()
    make_wav(desk.root / "07.wav", 0.3, salt=7)
    make_wav(desk.root / "new.wav", salt=99)
    told = desk.scan()
    assert told.read == [b"07.wav", b"new.wav"]
    assert (told.counts.items, told.counts.changed) == (21, 2)
    assert desk.progress.totals[-1] == (21, 2, 0)


def test_two_files_that_swap_names_with_equal_size_and_time_are_both_read(desk: Desk) -> None:
    make_wav(desk.root / "a.wav", salt=1)
    make_wav(desk.root / "b.wav", salt=2)
    first = desk.scan()
    os.rename(desk.root / "a.wav", desk.root / "x")
    os.rename(desk.root / "b.wav", desk.root / "a.wav")
    os.rename(desk.root / "x", desk.root / "b.wav")
    told = desk.scan()
    assert told.read == [b"a.wav", b"b.wav"]
    assert told.details("a.wav").content_hash == first.details("b.wav").content_hash


def test_another_device_number_alone_is_no_change(desk: Desk) -> None:
    make_wav(desk.root / "a.wav")
    desk.scan()
    stats = desk.posix.stat

    def stat(name: bytes, parent: int) -> os.stat_result:
        found = stats(name, parent)
        fields = list(found)
        fields[2] += 1
        return os.stat_result(
            fields, {"st_mtime_ns": found.st_mtime_ns, "st_atime_ns": 0, "st_ctime_ns": 0, "st_rdev": 0}
        )

    desk.posix.stat = stat  # type: ignore[method-assign]
    assert desk.scan().read == []


def test_a_young_file_is_seen_and_read_when_it_has_settled(desk: Desk) -> None:
    make_wav(desk.root / "a.wav")
    now_ns = desk.clock.now_ms() * 1_000_000
    os.utime(desk.root / "a.wav", ns=(now_ns, now_ns - 9_000_000_000))
    told = desk.scan()
    event = told.of("a.wav")
    assert (event.settled, event.details, event.failed) == (False, None, None)
    assert told.counts.unsettled == 1
    desk.clock.advance(2_000)
    assert desk.scan().read == [b"a.wav"]


def test_a_file_from_the_far_future_settles_too(desk: Desk) -> None:
    make_wav(desk.root / "a.wav")
    ahead = desk.clock.now_ms() * 1_000_000 + 10**18
    os.utime(desk.root / "a.wav", ns=(ahead, ahead))
    assert desk.scan().read == [b"a.wav"]


def test_a_file_that_changes_while_it_is_read_is_unsettled_and_read_by_the_next_scan(desk: Desk) -> None:
    make_wav(desk.root / "a.wav", salt=1)
    make_wav(desk.root / "b.wav", salt=2)
    stats = desk.posix.stat_open
    grown = []

    def stat_open(descriptor: int) -> os.stat_result:
        found = stats(descriptor)
        if os.path.samestat(found, os.stat(desk.root / "a.wav")):
            grown.append(found)
            if len(grown) == 2:
                with open(desk.root / "a.wav", "ab") as file:
                    file.write(b"more")
                return stats(descriptor)
        return found

    desk.posix.stat_open = stat_open  # type: ignore[method-assign]
    told = desk.scan()
    assert told.of("a.wav").settled is False
    assert told.read == [b"b.wav"]
    make_old(desk.root / "a.wav")
    assert desk.scan().read == [b"a.wav"]


def test_a_file_deleted_before_it_is_read_is_unsettled(desk: Desk) -> None:
    make_wav(desk.root / "a.wav")
    opens = desk.posix.open_file

    def open_file(name: bytes, parent: int) -> int:
        os.unlink(desk.root / "a.wav")
        return opens(name, parent)

    desk.posix.open_file = open_file  # type: ignore[method-assign]
    assert desk.scan().of("a.wav").settled is False


def test_the_same_content_twice_has_one_hash_and_two_inodes(desk: Desk) -> None:
    make_wav(desk.root / "a.wav", salt=1)
    shutil.copyfile(desk.root / "a.wav", desk.root / "b.wav")
    make_old(desk.root / "b.wav")
    told = desk.scan()
    assert told.details("a.wav").content_hash == told.details("b.wav").content_hash
    assert len({event.locator.inode for event in told.items if event.locator}) == 2


def test_tags_of_a_track_become_its_details(desk: Desk) -> None:
    make_mp3(
        desk.root / "Artist/Album/01.mp3",
        title="Títle",
        artist=["One", "Two"],
        albumartist="The Band",
        album="Album/1",
        track="3/12",
        disc="2/2",
        year="1999-01-02",
        more={"MusicBrainz Release Track Id": MBID.upper(), "MusicBrainz Album Id": MBID},
    )
    found = desk.scan().details("Artist/Album/01.mp3")
    assert (found.title, found.artists) == ("Títle", ("One", "Two"))
    assert (found.media_kind, found.item_kind) == ("music", "track")
    assert (found.number, found.part, found.year) == (3, 2, 1999)
    assert found.version == LONG_AGO_NS // 1_000_000
    assert found.duration_ms is not None
    assert 1_000 <= found.duration_ms <= 1_100
    assert found.provider_ids == (ProviderId("mbid", MBID),)
    assert found.collections == (
        CollectionRef("album", f"mbid:{MBID}", "Album/1"),
        CollectionRef("artist", "the band", "The Band"),
        CollectionRef("folder", "Artist/Album", "Album"),
    )


def test_albums_of_one_name_by_two_artists_are_two(desk: Desk) -> None:
    for artist in ("a/b", "a", "A"):
        make_mp3(desk.root / f"{len(os.listdir(desk.root))}.mp3", artist=artist, album="b/Greatest")
    told = desk.scan()
    keys = [told.details(f"{number}.mp3").collections[0].key for number in range(3)]
    assert keys == ["a%2Fb/b%2Fgreatest", "a/b%2Fgreatest", "a/b%2Fgreatest"]


def test_a_file_without_tags_is_called_by_its_name(desk: Desk) -> None:
    make_mp3(desk.root / "Some song.mp3")
    found = desk.scan().details("Some song.mp3")
    assert (found.title, found.artists, found.provider_ids) == ("Some song", (), ())


@pytest.mark.parametrize("year", ["0", "0000-00-00", "19", "9999-99-99", "yesterday", "-1"])
def test_odd_and_tiny_dates_are_no_year(desk: Desk, year: str) -> None:
    make_mp3(desk.root / "a.mp3", year=year)
    assert desk.scan().details("a.mp3").year is None


def test_nul_and_broken_text_in_tags_stay_out_of_the_log(desk: Desk) -> None:
    make_mp3(desk.root / "a.mp3", title="a\0b", artist="x" * 5_000)
    found = desk.scan().details("a.mp3")
    assert found.title is not None
    assert "\0" not in found.title
    assert len(found.artists[0].encode()) == 1_024


@pytest.mark.parametrize(("track", "told"), [("1/1", True), ("2/9", False), ("1/9", False)])
def test_a_books_ids_are_of_it_only_when_the_file_is_the_whole_book(desk: Desk, track: str, told: bool) -> None:
    make_mp3(desk.root / "a.mp3", genre="Audiobook", track=track, artist="Vernon", more={"ISBN": "978-0-00-000000-2"})
    found = desk.scan().details("a.mp3")
    assert (found.media_kind, found.item_kind) == ("audiobook", "book")
    assert found.provider_ids == ((ProviderId("isbn", "9780000000002"),) if told else ())
    assert CollectionRef("author", "vernon", "Vernon") in found.collections


def test_a_video_is_read_by_mediainfo_and_an_episode_told_by_its_name(desk: Desk) -> None:
    make_avi(desk.root / "Shows/The Series/Season 2/The.Series.S02E05.avi")
    make_avi(desk.root / "Films/A Film [imdbid-tt1234567].avi")
    told = desk.scan()
    episode = told.details("Shows/The Series/Season 2/The.Series.S02E05.avi")
    assert (episode.media_kind, episode.item_kind, episode.number, episode.part) == ("video", "episode", 5, 2)
    assert episode.duration_ms == 1_000
    assert [(one.kind, one.key, one.name) for one in episode.collections] == [
        ("series", "Shows/The Series", "The Series"),
        ("season", "Shows/The Series/2", "The Series 2"),
        ("folder", "Shows/The Series/Season 2", "Season 2"),
    ]
    film = told.details("Films/A Film [imdbid-tt1234567].avi")
    assert (film.item_kind, film.provider_ids) == ("video", (ProviderId("imdb", "tt1234567"),))


def test_corrupt_tags_fail_only_their_file_which_is_tried_again(desk: Desk) -> None:
    for number in range(6):
        make_wav(desk.root / f"{number}.wav", salt=number)
    (desk.root / "3.flac").write_bytes(b"fLaC\x84\xff\xff\xff" + bytes(range(256)) * 4)
    (desk.root / "4.mkv").write_bytes(b"\x1aE\xdf\xa3" + os.urandom(2_000))
    for name in ("3.flac", "4.mkv"):
        make_old(desk.root / name)
    told = desk.scan()
    assert len(told.read) == 6
    assert told.counts.failed == 2
    assert {told.of(name).failed for name in ("3.flac", "4.mkv")} == {"corrupt"}
    again = desk.scan()
    assert again.counts.failed == 2
    assert again.read == []


def test_a_file_that_hangs_or_crashes_the_reader_fails_alone_and_the_rest_is_read(desk: Desk, tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(
        "import sys, os, time\n"
        f"sys.path.insert(0, {str(readers._HOME)!r})\n"
        "from streams.upstream.files.reading import worker\n"
        "real = worker.answer\n"
        "def answer(request, descriptor):\n"
        "    head = os.pread(descriptor, 5, 0)\n"
        "    if head == b'crash': os.abort()\n"
        "    if head == b'hangs': time.sleep(600)\n"
        "    if head == b'floods': pass\n"
        "    return real(request, descriptor)\n"
        "worker.answer = answer\n"
        "worker.main()\n"
    )
    for number in range(9):
        make_wav(desk.root / f"{number}.wav", salt=number)
    for number, head in ((2, b"crash"), (5, b"hangs")):
        (desk.root / f"{number}.wav").write_bytes(head)
        make_old(desk.root / f"{number}.wav")
    with Reader(timeout_s=1, command=(sys.executable, "-I", str(script))) as desk.reader:
        told = desk.scan()
        assert told.of("2.wav").failed == "reader_crashed"
        assert told.of("5.wav").failed == "reader_timeout"
        assert told.read == [f"{number}.wav".encode() for number in (0, 1, 3, 4, 6, 7, 8)]
        assert desk.reader.started == 3


def test_a_worker_that_lies_is_replaced_and_not_believed(desk: Desk, tmp_path: Path) -> None:
    make_wav(desk.root / "a.wav")
    for answer in ("'no json\\n'", '\'{"id": 99, "hash": ""}\\n\'', "'x' * 200_000", "'[' * 60_000 + '\\n'"):
        lie = (
            "import socket, os; s = socket.socket(fileno=os.dup(0))\n"
            f"while s.recv(96): s.sendall(({answer}).encode())\n"
        )
        with Reader(timeout_s=5, command=(sys.executable, "-I", "-c", lie)) as desk.reader:
            assert desk.scan().of("a.wav").failed == "bad_answer"


def test_a_worker_is_replaced_after_so_many_files(desk: Desk) -> None:
    for number in range(6):
        make_wav(desk.root / f"{number}/a.wav", salt=number)
    with Reader(files_max=2) as desk.reader:
        assert len(desk.scan().read) == 6
        assert desk.reader.started == 3


def test_the_worker_can_write_no_file_and_has_little_memory(tmp_path: Path) -> None:
    program = f"""
import os, signal, sys
sys.path.insert(0, {readers._HOME!r})
from streams.upstream.files.reading import worker
worker.confine()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    bytes(2 * 1024**3)
except MemoryError:
    print("no memory")
try:
    os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), b"x")
except OSError:
    print("no file")
"""
    said = subprocess.run(
        [sys.executable, "-I", "-c", program, str(tmp_path / "written")], capture_output=True, text=True, check=False
    )
    assert said.stdout.split("\n") == ["no memory", "no file", ""]


def test_a_file_of_zeros_ends_at_the_budget_instead_of_being_searched_to_its_end(desk: Desk) -> None:
    path = desk.root / "zeros.mp3"
    path.touch()
    os.truncate(path, 4_000_000_000)
    make_old(path)
    assert desk.scan().of("zeros.mp3").failed == "too_much_read"


def test_a_machine_without_mediainfo_tells_a_video_by_its_name_and_counts_it(desk: Desk, tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {readers._HOME!r})\n"
        "import pymediainfo\n"
        "pymediainfo.MediaInfo._get_library_paths = staticmethod(lambda windows: ('/nowhere/libmediainfo.so.0',))\n"
        "from streams.upstream.files.reading.worker import main\n"
        "main()\n"
    )
    make_avi(desk.root / "A film.avi")
    with Reader(command=(sys.executable, "-I", str(script))) as desk.reader:
        told = desk.scan()
    assert told.details("A film.avi").title == "A film"
    assert told.details("A film.avi").content_hash
    assert told.count("no_reader") == 1


def test_every_kind_of_file_has_a_reader() -> None:
    assert kind_of(b"a.MP3") is not None
    assert kind_of(b".mp3") is None
    assert kind_of(b"mp3") is None
    assert kind_of(b"a.jpg") is None
