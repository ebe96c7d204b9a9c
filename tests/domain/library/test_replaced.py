"""Something else lies at a known path: whose it is, whatever the order in which files are listed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schemas.library import Locator, Observation
from streams.domain.library.outputs import ItemState, Merged

from .simple import File, Library, Tree, listed, observed, started, tree_of

FORWARD, BACKWARD = False, True
pytestmark = pytest.mark.parametrize("backward", [FORWARD, BACKWARD])


def scan(library: Library, tree: Tree, backward: bool) -> None:
    """A scan that lists in that order, then one that finds nothing new."""
    order = sorted(tree, reverse=backward)
    assert library.scan(tree, order=order).status == "finalized"
    since = len(library.told)
    assert library.scan(tree, order=order).status == "finalized"
    assert library.changes(since) == []
    assert {path for paths in library.live().values() for path in paths} == set(tree)


def numbered(count: int) -> dict[bytes, File]:
    return {b"album/%02d.flac" % n: File(100 + n, f"h{n}") for n in range(1, count + 1)}


@pytest.mark.parametrize("copied", [False, True])
def test_tracks_renumbered_for_a_new_first_one_keep_their_identities(backward: bool, copied: bool) -> None:
    library = Library()
    scan(library, numbered(5), backward)
    ids = {file.content: library.at(path) for path, file in numbered(5).items()}
    tree = {b"album/01.flac": File(900, "new")}
    for n in range(1, 6):
        tree[b"album/%02d.flac" % (n + 1)] = File(800 + n if copied else 100 + n, f"h{n}")
    scan(library, tree, backward)
    for path, file in tree.items():
        assert file.content == "new" or library.at(path) == ids[file.content]
    assert len(library.items) == 6


@pytest.mark.parametrize("kept", [b"a", b"z"])
def test_the_old_file_kept_under_another_name_is_the_media_and_the_better_copy_a_new_one(
    backward: bool, kept: bytes
) -> None:
    library = Library()
    scan(library, {b"film": File(1, "old")}, backward)
    media = library.at(b"film")
    tree = {kept: File(1, "old"), b"film": File(2, "better")}
    scan(library, tree, backward)
    assert library.at(kept) == media
    assert library.at(b"film") != media


@pytest.mark.parametrize("kept", [b"a", b"z"])
def test_a_file_moved_and_copied_back_is_two_media(backward: bool, kept: bytes) -> None:
    library = Library()
    scan(library, {b"film": File(1, "h")}, backward)
    media = library.at(b"film")
    scan(library, {kept: File(1, "h"), b"film": File(2, "h", mtime=2)}, backward)
    assert media in (library.at(kept), library.at(b"film"))
    assert library.at(kept) != library.at(b"film")


@pytest.mark.parametrize("edited", [b"a", b"z"])
def test_a_link_that_an_editor_breaks_is_a_media_of_its_own(backward: bool, edited: bytes) -> None:
    library = Library()
    scan(library, {b"a": File(1, "h"), b"z": File(1, "h")}, backward)
    media = library.at(b"a")
    tree = {b"a": File(1, "h"), b"z": File(1, "h"), edited: File(2, "edited", mtime=2)}
    scan(library, tree, backward)
    other = b"z" if edited == b"a" else b"a"
    assert library.at(other) == media
    assert library.at(edited) != media
    details = library.items[media].details
    assert details is not None
    assert details.content_hash == "h"


@pytest.mark.parametrize("new", [b"a", b"z"])
def test_a_file_edited_and_linked_at_once_is_one_media_and_reports_follow_it(backward: bool, new: bytes) -> None:
    library = Library()
    scan(library, {b"m": File(1, "h")}, backward)
    media = library.at(b"m")
    file = File(1, "edited", mtime=2, size=1_001)
    scan(library, {b"m": file, new: file}, backward)
    assert library.at(b"m") == library.at(new)
    assert library.merged.get(media, media) == library.at(new)


@pytest.mark.parametrize("new", [b"a", b"z"])
def test_a_file_replaced_by_one_with_two_names_is_one_media(backward: bool, new: bytes) -> None:
    library = Library()
    scan(library, {b"m": File(1, "h")}, backward)
    media = library.at(b"m")
    file = File(2, "better", mtime=2)
    scan(library, {b"m": file, new: file}, backward)
    assert library.at(b"m") == library.at(new)
    assert library.merged.get(media, media) == library.at(new)


def test_two_files_replaced_by_one_under_both_names_are_one_item(backward: bool) -> None:
    library = Library()
    scan(library, {b"a": File(1, "h1"), b"z": File(2, "h2")}, backward)
    file = File(3, "h3", mtime=3)
    scan(library, {b"a": file, b"z": file}, backward)
    assert library.at(b"a") == library.at(b"z")


def test_a_copy_with_two_names_of_what_is_gone_is_one_media_that_moved(backward: bool) -> None:
    library = Library()
    scan(library, {b"m": File(1, "h"), b"other": File(5, "h5")}, backward)
    media = library.at(b"m")
    file = File(2, "h")
    scan(library, {b"a": file, b"z": file, b"other": File(5, "h5")}, backward)
    assert library.at(b"a") == library.at(b"z") == media


def test_linked_files_restored_from_a_backup_stay_one_media(backward: bool) -> None:
    library = Library()
    names = (b"a", b"m", b"z")
    scan(library, dict.fromkeys(names, File(1, "h")), backward)
    media = library.at(b"a")
    scan(library, dict.fromkeys(names, File(2, "h", mtime=2)), backward)
    assert {library.at(name) for name in names} == {media}
    assert len(library.items) == 1


def test_tracks_mounted_again_under_another_device_stay_without_being_read(backward: bool) -> None:
    library = Library()
    tree = {**tree_of(3), b"music/link": tree_of(3)[b"music/000.flac"]}
    scan(library, tree, backward)
    before = library.live()
    library.generation += 10
    records: list[Observation] = [started(library.generation)]
    for number, path in enumerate(sorted(tree, reverse=backward)):
        seen = observed(path, tree[path], None, library.generation, number)
        assert seen.locator is not None
        records.append(replace(seen, details=None, locator=replace(seen.locator, device=77)))
    for record in [*records, listed(library.generation, len(tree))]:
        library.feed(record)
    assert library.live() == before
    assert all(place.device == 77 for item in library.items.values() for place in item.locators)


def test_content_swapped_with_a_file_that_cannot_be_looked_at_waits_until_it_can(backward: bool) -> None:
    library = Library()
    tree = {b"a/1": File(1, "h1"), b"b/1": File(2, "h2"), **tree_of(3)}
    scan(library, tree, backward)
    one, two = library.at(b"a/1"), library.at(b"b/1")
    tree |= {b"a/1": File(3, "h2", mtime=2), b"b/1": File(4, "h1", mtime=2)}
    for _ in range(2):
        assert library.scan(tree, skips=[(b"a", True, "unreadable")]).status == "finalized"
        assert (library.at(b"a/1"), library.at(b"b/1")) == (one, two)
        assert library.items[one].readable is False
    scan(library, tree, backward)
    assert (library.at(b"a/1"), library.at(b"b/1")) == (two, one)


def test_a_replaced_file_in_a_scan_that_breaks_off_changes_nothing_yet(backward: bool) -> None:
    library = Library()
    scan(library, {b"a": File(1, "h1"), b"b": File(2, "h2")}, backward)
    tree = {b"a": File(3, "h3", mtime=2), b"b": File(2, "h2")}
    since = len(library.told)
    assert library.scan(tree, complete=False).status == "incomplete"
    assert library.changes(since) == []
    media = library.at(b"a")
    scan(library, tree, backward)
    assert library.at(b"a") == media
    assert library.items[media].changes == ("locators", "content")


def test_a_scanner_that_took_a_file_for_unchanged_by_mistake_is_to_read_it_again(backward: bool) -> None:
    library = Library()
    scan(library, {b"a": File(1, "h1")}, backward)
    library.scan({b"a": File(2, "h2", mtime=2)}, order=[b"a"])
    library.generation += 10
    lagging = replace(observed(b"a", File(1, "h1"), None, library.generation, 0), details=None)
    for record in (started(library.generation), lagging, listed(library.generation, 1)):
        library.feed(record)
    assert library.known()[b"a"] == Locator(b"a", None, None, None, None)
    scan(library, {b"a": File(1, "h1")}, backward)
    details = library.items[library.at(b"a")].details
    assert details is not None
    assert details.content_hash == "h1"


def test_an_edit_in_place_is_told_at_once(backward: bool) -> None:
    library = Library()
    scan(library, {b"a": File(1, "h1")}, backward)
    records = library.records({b"a": File(1, "h2", mtime=2)})
    told = [output for record in records[:2] for output in library.feed(record)]
    assert [output.changes for output in told if isinstance(output, ItemState)] == [("locators", "content")]
    assert not any(isinstance(output, Merged) for output in told)
