"""Which media a sighting is of: paths, names, links, moves, copies (reports.md, 3.2)."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest

from schemas.library import ItemObserved
from streams.domain.identity import media_id
from streams.domain.library.outputs import Merged

from .simple import SOURCE, File, Library, Tree, tree_of


def scanned(tree: Tree) -> Library:
    library = Library()
    assert library.scan(tree).status == "finalized"
    return library


def nfc(text: str) -> bytes:
    return unicodedata.normalize("NFC", text).encode()


def nfd(text: str) -> bytes:
    return unicodedata.normalize("NFD", text).encode()


def test_a_new_file_has_the_id_that_the_door_computes_from_its_first_path() -> None:
    library = scanned({b"a/b.flac": File(1, "h")})
    assert library.at(b"a/b.flac") == media_id(SOURCE, "a/b.flac")


def test_an_unchanged_rescan_tells_nothing_but_the_scan() -> None:
    tree = tree_of(30)
    library = scanned(tree)
    before, since = dict(library.items), len(library.told)
    assert library.scan(tree).seen == 30
    assert library.changes(since) == []
    assert library.items == before


def test_names_that_differ_in_normal_form_only_are_one_media_after_a_copy_changed_them() -> None:
    library = scanned({nfc("Björk/é.flac"): File(1, "h")})
    media = library.at(nfc("Björk/é.flac"))
    state = library.scan({nfd("Björk/é.flac"): File(2, "h")})
    assert (state.moved, state.added, state.missing) == (1, 0, 0)
    assert library.at(nfd("Björk/é.flac")) == media


def test_the_normal_form_alone_is_evidence_even_for_another_content() -> None:
    library = scanned({nfc("é.flac"): File(1, "h")})
    media = library.at(nfc("é.flac"))
    library.scan({nfd("é.flac"): File(2, "better", size=9_000)})
    assert library.at(nfd("é.flac")) == media


def test_twins_in_both_normal_forms_are_two_items_when_both_are_there() -> None:
    tree = {nfc("é.flac"): File(1, "h1"), nfd("é.flac"): File(2, "h2")}
    library = scanned(tree)
    one, two = library.at(nfc("é.flac")), library.at(nfd("é.flac"))
    assert one != two
    assert library.scan(tree).status == "finalized"
    assert (library.at(nfc("é.flac")), library.at(nfd("é.flac"))) == (one, two)


@pytest.mark.parametrize("folds", [True, False])
def test_a_case_only_rename_keeps_the_media_on_any_file_system(folds: bool) -> None:
    library = scanned({b"Abba/SOS.flac": File(1, "h")})
    media = library.at(b"Abba/SOS.flac")
    library.scan({b"ABBA/sos.flac": File(1, "h")}, folds=folds)
    assert library.live() == {media: {b"ABBA/sos.flac"}}


def test_case_alone_is_evidence_only_where_the_file_system_folds_it() -> None:
    for folds, same in ((True, True), (False, False)):
        library = Library()
        library.scan({b"a.flac": File(1, "h1"), b"z.flac": File(9, "z")}, folds=folds)
        media = library.at(b"a.flac")
        library.scan({b"A.flac": File(2, "h2"), b"z.flac": File(9, "z")}, folds=folds)
        assert (library.at(b"A.flac") == media) is same


def test_the_same_path_listed_twice_is_one_item_seen_once() -> None:
    library = Library()
    tree = {b"a.flac": File(1, "h")}
    state = library.scan(tree, order=[b"a.flac", b"a.flac"])
    assert (state.status, state.seen, state.added) == ("finalized", 1, 1)
    assert len(library.items) == 1


def test_two_missing_tracks_are_not_matched_to_one_target() -> None:
    library = scanned({b"a/1.flac": File(1, "same"), b"b/1.flac": File(2, "same"), b"k": File(9, "k")})
    ids = {library.at(b"a/1.flac"), library.at(b"b/1.flac")}
    assert len(ids) == 2
    state = library.scan({b"c/1.flac": File(3, "same"), b"k": File(9, "k")})
    assert (state.moved, state.missing) == (1, 1)
    assert library.at(b"c/1.flac") == min(ids)
    assert library.status(max(ids)) == "missing"


def test_two_missing_tracks_go_to_two_targets_one_to_one() -> None:
    library = scanned({b"a/1.flac": File(1, "same"), b"b/1.flac": File(2, "same")})
    ids = {library.at(b"a/1.flac"), library.at(b"b/1.flac")}
    library.scan({b"c/1.flac": File(3, "same"), b"c/2.flac": File(4, "same")})
    assert {library.at(b"c/1.flac"), library.at(b"c/2.flac")} == ids


def test_a_rename_keeps_the_media() -> None:
    tree = tree_of(5)
    library = scanned(tree)
    media = library.at(b"music/001.flac")
    state = library.scan({**{p: f for p, f in tree.items() if p != b"music/001.flac"}, b"new.flac": File(1_001, "h1")})
    assert (state.moved, state.added, state.missing) == (1, 0, 0)
    assert library.paths(media) == {b"new.flac"}
    assert "moved" in library.items[media].changes


def test_a_folder_renamed_moves_all_in_it_and_removes_nothing() -> None:
    tree = tree_of(50)
    library = scanned(tree)
    ids = {path: library.at(path) for path in tree}
    state = library.scan({path.replace(b"music", b"audio"): file for path, file in tree.items()})
    assert (state.status, state.moved, state.missing, state.added) == ("finalized", 50, 0, 0)
    assert all(library.at(path.replace(b"music", b"audio")) == media for path, media in ids.items())


def test_a_move_to_another_disk_is_known_by_content_when_everything_is_listed() -> None:
    library = scanned({b"a.flac": File(1, "h"), b"z": File(9, "z")})
    media = library.at(b"a.flac")
    state = library.scan({b"disk2/a.flac": File(70, "h", mtime=9), b"z": File(9, "z")})
    assert (state.moved, state.missing, state.added) == (1, 0, 0)
    assert library.paths(media) == {b"disk2/a.flac"}


def test_a_copy_is_a_media_of_its_own() -> None:
    library = scanned({b"z.flac": File(1, "h")})
    media = library.at(b"z.flac")
    state = library.scan({b"z.flac": File(1, "h"), b"a/copy.flac": File(2, "h")})
    assert (state.added, state.moved) == (1, 0)
    assert library.paths(media) == {b"z.flac"}
    assert library.at(b"a/copy.flac") != media
    assert "copy" in library.items[library.at(b"a/copy.flac")].changes


def test_the_same_content_twice_from_the_start_is_two_media() -> None:
    library = scanned({b"a.flac": File(1, "h"), b"b.flac": File(2, "h")})
    assert library.at(b"a.flac") != library.at(b"b.flac")


def test_names_swapped_by_renaming_swap_identities() -> None:
    library = scanned({b"1": File(1, "h1"), b"2": File(2, "h2")})
    one, two = library.at(b"1"), library.at(b"2")
    state = library.scan({b"1": File(2, "h2"), b"2": File(1, "h1")})
    assert (state.missing, state.added) == (0, 0)
    assert (library.at(b"1"), library.at(b"2")) == (two, one)


def test_names_swapped_by_renaming_swap_identities_even_when_nothing_can_be_read() -> None:
    library = scanned({b"1": File(1, "h1", size=10), b"2": File(2, "h2", size=20)})
    one, two = library.at(b"1"), library.at(b"2")
    records = library.records({b"1": File(2, "h2", size=20), b"2": File(1, "h1", size=10)})
    for record in records:
        library.feed(replace(record, details=None) if isinstance(record, ItemObserved) else record)
    assert (library.at(b"1"), library.at(b"2")) == (two, one)


def test_three_names_turned_round_by_renaming_turn_identities_round() -> None:
    library = scanned({b"1": File(1, "h1"), b"2": File(2, "h2"), b"3": File(3, "h3")})
    one, two, three = (library.at(path) for path in (b"1", b"2", b"3"))
    library.scan({b"1": File(3, "h3"), b"2": File(1, "h1"), b"3": File(2, "h2")})
    assert (library.at(b"1"), library.at(b"2"), library.at(b"3")) == (three, one, two)


def test_names_swapped_by_copying_swap_identities() -> None:
    library = scanned({b"1": File(1, "h1"), b"2": File(2, "h2")})
    one, two = library.at(b"1"), library.at(b"2")
    state = library.scan({b"1": File(1, "h2", mtime=5), b"2": File(2, "h1", mtime=5)})
    assert (state.missing, state.added) == (0, 0)
    assert (library.at(b"1"), library.at(b"2")) == (two, one)


def test_a_better_copy_under_the_same_path_stays_the_media() -> None:
    library = scanned({b"film.mkv": File(1, "low")})
    media = library.at(b"film.mkv")
    state = library.scan({b"film.mkv": File(2, "high", size=90_000, mtime=2)})
    assert (state.changed, state.added, state.missing) == (1, 0, 0)
    assert library.at(b"film.mkv") == media
    assert "content" in library.items[media].changes


def test_a_better_copy_with_an_older_time_is_taken_all_the_same() -> None:
    library = scanned({b"film.mkv": File(1, "low", mtime=100)})
    media = library.at(b"film.mkv")
    library.scan({b"film.mkv": File(2, "high", size=90_000, mtime=2)})
    details = library.items[media].details
    assert details is not None
    assert details.content_hash == "high"


def test_a_file_overwritten_with_a_copy_of_another_stays_when_that_is_still_there() -> None:
    library = scanned({b"1": File(1, "h1"), b"2": File(2, "h2")})
    one, two = library.at(b"1"), library.at(b"2")
    library.scan({b"1": File(1, "h2", mtime=5), b"2": File(2, "h2")})
    assert (library.at(b"1"), library.at(b"2")) == (one, two)


def test_a_file_moved_over_another_leaves_only_the_moved_one() -> None:
    library = scanned({b"1": File(1, "h1"), b"2": File(2, "h2")})
    one, two = library.at(b"1"), library.at(b"2")
    state = library.scan({b"1": File(2, "h2")})
    assert library.at(b"1") == two
    assert library.status(one) == "missing"
    assert state.missing == 1


def test_an_inode_used_again_is_no_evidence_when_the_content_differs() -> None:
    library = scanned({b"a": File(1, "h1"), b"k": File(9, "k")})
    media = library.at(b"a")
    state = library.scan({b"b": File(1, "other"), b"k": File(9, "k")})
    assert (state.added, state.missing) == (1, 1)
    assert library.at(b"b") != media


def test_an_inode_used_again_with_another_time_and_unknown_content_is_no_evidence() -> None:
    library = scanned({b"a": File(1, "h1"), b"k": File(9, "k")})
    media = library.at(b"a")
    library.scan({b"b": File(1, "x", mtime=50, unreadable=True), b"k": File(9, "k")})
    assert library.at(b"b") != media
    assert library.status(media) == "missing"


def test_hard_links_are_one_media_with_several_locators() -> None:
    library = scanned({b"a": File(1, "h"), b"b": File(1, "h")})
    assert len(library.items) == 1
    assert library.paths(library.at(b"a")) == {b"a", b"b"}


def test_one_of_two_hard_links_removed_is_no_removal() -> None:
    library = scanned({b"a": File(1, "h"), b"b": File(1, "h")})
    media = library.at(b"a")
    state = library.scan({b"b": File(1, "h")})
    assert (state.missing, library.status(media), library.paths(media)) == (0, "present", {b"b"})


def test_copies_made_hard_links_of_one_file_are_merged_and_the_smallest_id_stays() -> None:
    library = scanned({b"a": File(1, "h"), b"b": File(2, "h")})
    ids = {library.at(b"a"), library.at(b"b")}
    for kept in (1, 2):
        again = scanned({b"a": File(1, "h"), b"b": File(2, "h")})
        state = again.scan({b"a": File(kept, "h"), b"b": File(kept, "h")})
        assert state.missing == 0
        assert again.live() == {min(ids): {b"a", b"b"}}
        assert Merged(max(ids), min(ids)) in again.told


def test_missing_then_added_again_elsewhere_is_the_same_media() -> None:
    library = scanned({b"a": File(1, "h"), b"k": File(9, "k")})
    media = library.at(b"a")
    library.scan({b"k": File(9, "k")})
    assert library.status(media) == "missing"
    library.scan({b"new/a": File(44, "h"), b"k": File(9, "k")})
    assert library.at(b"new/a") == media
    assert {"back", "moved"} <= set(library.items[media].changes)


def test_missing_then_back_at_its_place_is_the_same_media() -> None:
    tree = tree_of(3)
    library = scanned(tree)
    media = library.at(b"music/001.flac")
    library.scan({p: f for p, f in tree.items() if p != b"music/001.flac"})
    assert library.status(media) == "missing"
    library.scan(tree)
    assert (library.status(media), library.items[media].changes) == ("present", ("back",))


def test_a_name_that_is_not_utf8_is_an_item_with_its_bytes_kept() -> None:
    tree = {b"caf\xe9.flac": File(1, "h")}
    library = scanned(tree)
    assert library.paths(library.at(b"caf\xe9.flac")) == {b"caf\xe9.flac"}
    since = len(library.told)
    library.scan(tree)
    assert library.changes(since) == []


def test_a_new_file_at_the_first_path_of_one_that_moved_gets_another_id() -> None:
    library = scanned({b"a": File(1, "h")})
    media = library.at(b"a")
    library.scan({b"b": File(1, "h")})
    library.scan({b"a": File(5, "new"), b"b": File(1, "h")})
    assert library.at(b"b") == media
    assert library.at(b"a") != media


def test_a_catalogue_id_alone_is_a_move_only_when_the_other_is_gone() -> None:
    library = scanned({b"low.mkv": File(1, "low", provider="m1"), b"k": File(9, "k")})
    media = library.at(b"low.mkv")
    both = {b"low.mkv": File(1, "low", provider="m1"), b"high.mkv": File(2, "high", provider="m1"), b"k": File(9, "k")}
    library.scan(both)
    other = library.at(b"high.mkv")
    assert other != media
    assert library.items[other].work_id == library.items[media].work_id is not None
    replaced = scanned({b"low.mkv": File(1, "low", provider="m1"), b"k": File(9, "k")})
    replaced.scan({b"high.mkv": File(2, "high", provider="m1"), b"k": File(9, "k")})
    assert replaced.at(b"high.mkv") == media


def test_a_catalogue_id_that_all_tracks_share_matches_no_other_track() -> None:
    library = scanned({b"1": File(1, "h1", provider="album", number=1), b"k": File(9, "k")})
    media = library.at(b"1")
    library.scan({b"3": File(3, "h3", provider="album", number=3), b"k": File(9, "k")})
    assert library.at(b"3") != media
    assert library.status(media) == "missing"


def test_title_alone_is_no_evidence() -> None:
    library = scanned({b"1": File(1, "h1", title="Intro"), b"k": File(9, "k")})
    media = library.at(b"1")
    library.scan({b"2": File(2, "h2", title="Intro"), b"k": File(9, "k")})
    assert library.at(b"2") != media


def test_what_cannot_be_read_is_an_item_and_is_read_again_when_it_can() -> None:
    library = scanned({b"a": File(1, "h", unreadable=True)})
    media = library.at(b"a")
    assert library.items[media].details is None
    assert library.items[media].locators[0].size is None
    library.scan({b"a": File(1, "h")})
    assert library.at(b"a") == media
    assert library.items[media].details is not None


def test_what_is_still_written_waits_and_does_not_take_a_known_one_for_gone() -> None:
    library = scanned({b"a": File(1, "h")})
    media = library.at(b"a")
    state = library.scan({b"a": File(1, "h2", size=7, mtime=9, growing=True), b"b": File(2, "x", growing=True)})
    assert (state.status, state.added, state.missing) == ("finalized", 0, 0)
    assert library.paths(media) == {b"a"}
    assert library.items[media].locators[0].size == 1_000
