"""A hook told of a file's new path before a scan did: the scan took it for new, and its media was missing."""

from __future__ import annotations

import pytest

from schemas.library import ItemObserved
from streams.domain.library.outputs import Merged
from tests.domain.library.simple import SOURCE, File, Library, details_of, located, tree_of


def told(library: Library, path: bytes, file: File, *, how: str = "hook") -> None:
    """A watcher's word: where, and which inode; nothing of what is in it. Who reads it again says that too."""
    library.feed(
        ItemObserved(
            event_id="h",
            correlation_id="c",
            source_id=SOURCE,
            received_at=library.offset * 1_000,
            how=how,
            locator=located(path, file),
            details=details_of(path, file) if how == "refresh" else None,
        )
    )


@pytest.mark.parametrize("order", [[b"a", b"k", b"z"], [b"z", b"k", b"a"]])
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("was", [b"a", b"z"])
def test_a_file_that_moves_during_a_scan_and_is_told_of_by_a_hook_keeps_its_media(
    was: bytes, replaced: bool, order: list[bytes]
) -> None:
    now = b"z" if was == b"a" else b"a"
    library = Library()
    before = {was: File(1, "h"), b"k": File(9, "k")}
    library.scan(before)
    media = library.at(was)
    # The scan has listed where it was, and does not come to where it is.
    records = library.records(before)
    for record in records[:-1]:
        library.feed(record)
    told(library, now, File(1, "h"))
    library.feed(records[-1])
    provisional = library.at(now)
    after = {now: File(1, "h"), b"k": File(9, "k")}
    if replaced:
        after[was] = File(2, "other", mtime=2)
    state = library.scan(after, order=[path for path in order if path in after])
    assert (state.status, state.missing) == ("finalized", 0)
    assert library.at(now) == media
    assert library.paths(media) == {now}
    assert len(library.items) == len(after)
    assert Merged(provisional, media) in library.told


def test_two_names_of_one_file_told_of_by_hooks_are_one_media() -> None:
    library = Library()
    library.scan(tree_of(2))
    for path in (b"a", b"b"):
        told(library, path, File(1, "h"))
    library.scan(tree_of(2) | {b"a": File(1, "h"), b"b": File(1, "h")})
    assert library.at(b"a") == library.at(b"b")
    assert {item.status for item in library.items.values()} == {"present"}
    assert len(library.items) == 3


@pytest.mark.parametrize("known", [b"k", b"m", b"y"])
def test_all_names_told_of_by_hooks_are_of_the_media_that_moved(known: bytes) -> None:
    library = Library()
    library.scan(tree_of(2) | {known: File(1, "h")})
    media = library.at(known)
    for path in (b"a", b"l", b"z"):
        told(library, path, File(1, "h"))
    library.scan(tree_of(2) | dict.fromkeys((b"a", b"l", b"z"), File(1, "h")))
    assert library.paths(media) == {b"a", b"l", b"z"}
    assert len(library.items) == 3


def test_what_hooks_told_of_is_not_what_was_moved_over_it() -> None:
    library = Library()
    library.scan(tree_of(2) | {b"a": File(1, "h")})
    media = library.at(b"a")
    told(library, b"z", File(2, "other"))
    provisional = library.at(b"z")
    library.scan(tree_of(2) | {b"z": File(1, "h")})
    assert library.at(b"z") == media
    assert library.status(provisional) == "missing"


def test_a_second_name_told_of_by_a_hook_is_of_the_media_that_is_still_there() -> None:
    library = Library()
    library.scan(tree_of(2) | {b"a": File(1, "h")})
    media = library.at(b"a")
    told(library, b"b", File(1, "h"))
    library.scan(tree_of(2) | {b"a": File(1, "h"), b"b": File(1, "h")})
    assert library.paths(media) == {b"a", b"b"}
    assert len(library.items) == 3


def test_a_new_file_that_a_hook_told_of_is_read_by_the_scan_that_lists_it() -> None:
    library = Library()
    library.scan(tree_of(2))
    told(library, b"a", File(1, "h"))
    told(library, b"a", File(1, "h"))
    library.scan(tree_of(2) | {b"a": File(1, "h")})
    assert content(library, b"a") == "h"
    assert library.known()[b"a"] == located(b"a", File(1, "h"))


def test_what_a_hook_tells_of_a_known_file_that_changed_is_read_by_the_next_scan() -> None:
    library = Library()
    library.scan(tree_of(2) | {b"a": File(1, "h")})
    media, since = library.at(b"a"), len(library.told)
    told(library, b"a", File(2, "better", mtime=2))
    assert library.changes(since) == []
    library.scan(tree_of(2) | {b"a": File(2, "better", mtime=2)})
    assert (library.at(b"a"), content(library, b"a")) == (media, "better")


@pytest.mark.parametrize("how", ["hook", "refresh"])
def test_names_that_are_swapped_swap_identities_whatever_was_told_before_the_scan(how: str) -> None:
    one, two = File(1, "h1"), File(2, "h2", size=2_000)
    library = Library()
    library.scan({b"1": one, b"2": two})
    media = library.at(b"1"), library.at(b"2")
    told(library, b"1", two, how=how)
    told(library, b"2", one, how=how)
    library.scan({b"1": two, b"2": one})
    assert (library.at(b"2"), library.at(b"1")) == media
    assert (content(library, b"1"), content(library, b"2")) == ("h2", "h1")


def test_a_file_that_is_read_again_as_it_was_is_described_anew() -> None:
    library = Library()
    library.scan({b"1": File(1, "h1", title="of an older reader")})
    told(library, b"1", File(1, "h1", title="of a newer one"), how="refresh")
    details = library.items[library.at(b"1")].details
    assert details is not None
    assert details.title == "of a newer one"


def content(library: Library, path: bytes) -> str | None:
    details = library.items[library.at(path)].details
    return None if details is None else details.content_hash
