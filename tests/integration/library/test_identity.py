"""Which file is which media: names, letters, links, moves (reports: identity)."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

from streams.upstream.files.walk import Tree
from tests.effects.scan.desk import LONG_AGO_NS, make_old
from tests.integration.library.library import Library

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("library"), pytest.mark.long]

NFC, NFD = (unicodedata.normalize(form, "Café/Ærø.mp3") for form in ("NFC", "NFD"))
LATIN = b"caf\xe9/\xc6r\xf8.mp3"


def full(library: Library, *names: str | bytes) -> dict[bytes, str]:
    """These songs and ten others, scanned; these have been played."""
    library.make(*names, *(f"rest/{number}.mp3" for number in range(10)))
    library.scan()
    library.play(*names)
    library.check()
    return library.ids()


def test_twins_in_nfc_and_nfd_are_two_songs_and_stay_so(library: Library) -> None:
    before = full(library, NFC, NFD)
    assert len(before) == 12
    library.scan()
    library.check()
    assert library.ids() == before


@pytest.mark.parametrize(("was", "becomes"), [(NFC, NFD), (NFD, NFC)], ids=["nfc-nfd", "nfd-nfc"])
@pytest.mark.parametrize("tagged", [False, True], ids=["copied", "copied-and-tagged"])
def test_a_song_copied_into_the_other_normal_form_is_the_same(
    library: Library, was: str, becomes: str, tagged: bool
) -> None:
    before = full(library, was)
    if tagged:
        library.song(becomes, "Another title")
    else:
        library.copy(was, becomes)
    library.remove(was)
    library.scan()
    library.check()
    assert library.of(becomes).media_id == before[os.fsencode(was)]
    assert len(library.items()) == len(before)


def test_names_that_are_not_utf_8_are_kept_byte_for_byte(library: Library) -> None:
    before = full(library, LATIN, "Ærø.mp3")
    library.rename(LATIN, b"caf\xe9/\xff\xfe.mp3")
    library.scan()
    library.check()
    assert library.of(b"caf\xe9/\xff\xfe.mp3").media_id == before[LATIN]
    library.copy(b"caf\xe9/\xff\xfe.mp3", b"caf\xe9/2.mp3")
    library.remove(b"caf\xe9/\xff\xfe.mp3")
    library.scan()
    library.check()
    assert library.of(b"caf\xe9/2.mp3").media_id == before[LATIN]


@pytest.mark.parametrize("folds", [False, True], ids=["case-counts", "case-folds"])
@pytest.mark.parametrize("how", ["renamed", "copied"])
def test_a_rename_of_case_only_keeps_the_song(
    library: Library, monkeypatch: pytest.MonkeyPatch, folds: bool, how: str
) -> None:
    monkeypatch.setattr(Tree, "case_folds", lambda _: folds)
    before = full(library, "Kites/SONG.MP3")
    if how == "renamed":
        library.rename("Kites/SONG.MP3", "KITES/Song.mp3")
    else:
        library.copy("Kites/SONG.MP3", "KITES/Song.mp3")
        library.remove("Kites/SONG.MP3")
    library.scan()
    library.check()
    assert library.of("KITES/Song.mp3").media_id == before[b"Kites/SONG.MP3"]
    assert len(library.items()) == len(before)


def test_where_case_folds_another_case_and_other_tags_are_the_same_song(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tree, "case_folds", lambda _: True)
    before = full(library, "Kites/Song.mp3")
    library.song("Kites/new.mp3", "Another title")
    library.remove("Kites/Song.mp3")
    library.rename("Kites/new.mp3", "Kites/song.mp3")
    library.scan()
    library.check()
    assert library.of("Kites/song.mp3").media_id == before[b"Kites/Song.mp3"]


def test_links_that_loop_lead_out_or_nowhere_add_nothing(library: Library, tmp_path: Path) -> None:
    before = full(library, "a/b/song.mp3")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "foreign.mp3").write_bytes(library.path("a/b/song.mp3").read_bytes())
    links = {"a/b/up": "..", "a/self": "self", "top": str(library.root), "out": str(outside), "none": "nowhere"}
    for name, target in links.items():
        library.path(name).symlink_to(target)
    library.path("a/b/again.mp3").symlink_to("song.mp3")
    scan = library.scan()
    assert scan.skipped["symlink"] == len(links) + 1
    library.check()
    assert library.ids() == before


@pytest.mark.parametrize("how", ["renamed", "copied"])
def test_songs_that_swap_names_swap_places_not_lives(library: Library, how: str) -> None:
    before = full(library, "a.mp3", "b.mp3")
    if how == "renamed":
        library.rename("a.mp3", "x.mp3")
        library.rename("b.mp3", "a.mp3")
        library.rename("x.mp3", "b.mp3")
    else:
        one, two = (library.path(name).read_bytes() for name in ("a.mp3", "b.mp3"))
        assert len(one) == len(two)
        for name, content in (("a.mp3", two), ("b.mp3", one)):
            library.path(name).write_bytes(content)
            os.utime(library.path(name), ns=(LONG_AGO_NS + 1_000_000, LONG_AGO_NS + 1_000_000))
    library.scan()
    library.check()
    if how == "renamed":
        assert (library.ids()[b"a.mp3"], library.ids()[b"b.mp3"]) == (before[b"b.mp3"], before[b"a.mp3"])
    assert set(library.ids().values()) == set(before.values())


def test_three_songs_that_go_round_keep_their_lives(library: Library) -> None:
    before = full(library, "a.mp3", "b.mp3", "c.mp3")
    library.rename("c.mp3", "x.mp3")
    for old, new in (("b", "c"), ("a", "b"), ("x", "a")):
        library.rename(f"{old}.mp3", f"{new}.mp3")
    library.scan()
    library.check()
    now = library.ids()
    assert [now[name] for name in (b"b.mp3", b"c.mp3", b"a.mp3")] == [
        before[name] for name in (b"a.mp3", b"b.mp3", b"c.mp3")
    ]


def test_a_folder_that_is_renamed_keeps_every_song_in_it(library: Library) -> None:
    before = full(library, *(f"old/{number}.mp3" for number in range(12)))
    library.rename("old", "new/deeper")
    scan = library.scan()
    assert (scan.counts["moved"], scan.counts["added"], scan.counts["missing"]) == (12, 0, 0)
    library.check()
    assert library.ids() == {path.replace(b"old/", b"new/deeper/"): media for path, media in before.items()}


def test_the_same_content_twice_is_two_songs(library: Library) -> None:
    before = full(library, "a.mp3")
    library.copy("a.mp3", "copies/a.mp3")
    library.scan()
    library.check()
    assert library.ids()[b"a.mp3"] == before[b"a.mp3"]
    assert len(library.ids()) == len(before) + 1
    library.remove("a.mp3")
    library.scan()
    library.check()
    assert library.statuses(before[b"a.mp3"]) == ["missing"]


def test_of_two_equal_songs_that_are_gone_one_moves_to_the_one_that_came(library: Library) -> None:
    library.song("a.mp3", "Twin")
    library.song("b.mp3", "Twin")
    before = full(library, "c.mp3")
    library.play("a.mp3", "b.mp3")
    library.copy("a.mp3", "new.mp3")
    library.remove("a.mp3", "b.mp3")
    scan = library.scan()
    assert (scan.counts["moved"], scan.counts["missing"], scan.counts["added"]) == (1, 1, 0)
    library.check()
    twins = {before[b"a.mp3"], before[b"b.mp3"]}
    moved = library.of("new.mp3").media_id
    assert moved in twins
    assert library.statuses(*(twins - {moved})) == ["missing"]


def test_a_file_replaced_by_a_better_one_is_the_same_song(library: Library) -> None:
    before = full(library, "a.mp3")
    old = library.of("a.mp3")
    library.song("new.mp3", "a.mp3 (remastered)", frames=40)
    library.rename("new.mp3", "a.mp3")
    library.scan()
    library.check()
    new = library.of("a.mp3")
    assert (new.media_id, new.title) == (before[b"a.mp3"], "a.mp3 (remastered)")
    assert new.content_hash != old.content_hash


def test_hard_links_are_one_song_with_several_places_until_the_last_is_gone(library: Library) -> None:
    before = full(library, "a.mp3")
    os.link(library.path("a.mp3"), library.path("rest/link.mp3"))
    library.scan()
    library.check()
    assert library.of("rest/link.mp3").media_id == before[b"a.mp3"]
    assert set(library.of("a.mp3").paths) == {b"a.mp3", b"rest/link.mp3"}
    library.remove("a.mp3")
    library.scan()
    library.check()
    assert library.of("rest/link.mp3").media_id == before[b"a.mp3"]
    library.remove("rest/link.mp3")
    library.scan()
    library.check()
    assert library.statuses(before[b"a.mp3"]) == ["missing"]


def test_copies_that_a_tool_made_names_of_one_file_become_one_song(library: Library) -> None:
    library.song("a.mp3", "Twin")
    library.song("b.mp3", "Twin")
    before = full(library, "c.mp3")
    library.play("a.mp3", "b.mp3")
    library.remove("b.mp3")
    os.link(library.path("a.mp3"), library.path("b.mp3"))
    library.scan()
    twins = [before[b"a.mp3"], before[b"b.mp3"]]
    assert library.of("a.mp3").media_id == library.of("b.mp3").media_id
    assert library.of("a.mp3").media_id in twins
    library.positions = dict.fromkeys(twins, max(library.positions[media] for media in twins)) | {
        media: place for media, place in library.positions.items() if media not in twins
    }
    library.check()


def test_an_inode_that_is_used_again_is_another_song(library: Library) -> None:
    before = full(library, "a.mp3")
    content = library.path("a.mp3").read_bytes()
    inode = library.path("a.mp3").stat().st_ino
    library.rename("a.mp3", "other.mp3")
    library.song("pattern.mp3", "b.mp3")
    library.path("other.mp3").write_bytes(library.path("pattern.mp3").read_bytes())
    library.remove("pattern.mp3")
    make_old(library.path("other.mp3"))
    seen = library.path("other.mp3").stat()
    assert (seen.st_ino, seen.st_size) == (inode, len(content))
    library.scan()
    library.check()
    assert library.of("other.mp3").media_id != before[b"a.mp3"]
    assert library.statuses(before[b"a.mp3"]) == ["missing"]


def test_a_song_that_was_missing_and_comes_back_elsewhere_is_the_same(library: Library) -> None:
    before = full(library, "a.mp3")
    content = library.path("a.mp3").read_bytes()
    library.remove("a.mp3")
    library.scan()
    library.check()
    assert library.statuses(before[b"a.mp3"]) == ["missing"]
    library.path("found/again.mp3").parent.mkdir()
    library.path("found/again.mp3").write_bytes(content)
    make_old(library.path("found/again.mp3"))
    library.scan()
    library.check()
    assert library.of("found/again.mp3").media_id == before[b"a.mp3"]


def test_songs_that_a_new_ignore_file_hides_are_put_away_and_come_back_with_what_was_played(library: Library) -> None:
    before = full(library, "a/1.mp3", "a/2.mp3")
    library.path("a/.ignore").write_text("")
    library.scan()
    assert library.statuses(before[b"a/1.mp3"], before[b"a/2.mp3"]) == ["archived"] * 2
    assert library.progress() == library.positions
    library.path("a/.ignore").unlink()
    library.scan()
    library.check()
    assert library.ids() == before


def test_songs_with_corrupt_tags_are_songs(library: Library) -> None:
    before = full(library, "a.mp3")
    library.path("bad").mkdir()
    song = library.path("a.mp3").read_bytes()
    broken = {
        "cut.mp3": song[:15],
        "noise.mp3": os.urandom(2_000),
        "head.mp3": song[:10] + b"\xff" * 50 + song[60:],
        "size.mp3": b"ID3\x03\x00\x00\x7f\x7f\x7f\x7f" + song,
        "empty-frames.mp3": b"ID3\x04\x00\x00\x00\x00\x00\x40" + bytes(64) + song,
        "video.avi": b"RIFF\xff\xff\xff\xffAVI " + bytes(100),
        "zeros.wav": bytes(4_096),
    }
    for name, content in broken.items():
        library.path(f"bad/{name}").write_bytes(content)
        make_old(library.path(f"bad/{name}"))
    library.scan()
    library.check()
    assert len(library.ids()) == len(before) + len(broken)
    library.scan()
    library.check()
