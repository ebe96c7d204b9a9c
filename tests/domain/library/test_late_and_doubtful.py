"""News that is late, comes twice or says little, and media of which the evidence says too much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schemas.library import Command, ItemObserved, Observation, PathSkipped, ScanConfirmed, ScanRequested
from streams.domain.identity import media_id
from streams.domain.library.limits import ROWS_READ_MAX
from streams.domain.library.outputs import ScanState

from .simple import SOURCE, File, Library, Tree, facts, listed, observed, started, tree_of


def by_hand(library: Library, *events: ItemObserved | PathSkipped) -> ScanState:
    """A scan of these observations."""
    library.generation += 10
    library.feed(started(library.generation))
    for number, event in enumerate(events):
        library.feed(replace(event, generation=library.generation, ordinal=number))
    library.feed(listed(library.generation, len(events)))
    return library.scans[library.generation]


def seen(path: bytes, file: File) -> ItemObserved:
    return observed(path, file, None, 0, 0)


def retry(library: Library, generation: int) -> None:
    library.feed(
        ScanRequested(
            event_id="e",
            correlation_id="c",
            source_id=SOURCE,
            received_at=0,
            requested_by="retry",
            replaces=generation,
        )
    )


def test_a_scan_that_was_replaced_before_its_start_came_never_begins() -> None:
    tree = tree_of(10)
    library = Library()
    library.scan(tree)
    late = library.records({})
    library.offset = max(library.offset, library.generation + 1)
    retry(library, library.generation)
    for record in late:
        library.feed(record)
    assert library.generation not in library.scans
    assert library.scan(tree).status == "finalized"
    assert {item.status for item in library.items.values()} == {"present"}


def test_a_word_to_itself_that_is_no_longer_where_the_scan_stands_does_nothing() -> None:
    tree = tree_of(2 * ROWS_READ_MAX + 500)
    library = Library()
    library.scan(tree)
    waiting: list[Observation | Command] = []
    for record in library.records(dict(sorted(tree.items())[10:])):
        library.feed_one(record, waiting)
    first = waiting[0]
    library.feed_one(waiting.pop(0), waiting)
    assert waiting
    assert library.feed_one(first, []) == []


def test_a_confirmed_scan_counts_anew_what_could_not_be_read() -> None:
    tree = tree_of(20, folder=b"a") | tree_of(30, folder=b"b", first=100)
    library = Library()
    library.scan(tree)
    left = dict(sorted(tree.items())[10:])
    held = library.scan(left, skips=[(b"b", True, "unreadable")])
    assert (held.status, held.missing, held.unreadable) == ("held", 10, 30)
    library.feed(
        ScanConfirmed(event_id="e", correlation_id="c", source_id=SOURCE, received_at=0, generation=held.generation)
    )
    done = library.scans[held.generation]
    assert (done.status, done.missing, done.unreadable) == ("finalized", 10, 30)


def test_a_file_that_cannot_be_looked_at_hides_nothing_that_lay_below_its_name() -> None:
    tree = tree_of(10) | {b"x/1": File(50, "x1")}
    library = Library()
    library.scan(tree)
    media = library.at(b"x/1")
    del tree[b"x/1"]
    library.scan(tree, skips=[(b"x", False, "unreadable")])
    assert library.status(media) == "missing"


def test_a_file_of_unknown_content_is_not_another_because_of_its_inode_when_its_time_differs() -> None:
    library = Library()
    library.scan({b"a": File(1, "h1"), b"k": File(9, "k")})
    new = seen(b"b", File(1, "?", mtime=50))
    assert new.details is not None
    new = replace(new, details=replace(new.details, content_hash=None))
    state = by_hand(library, new, seen(b"k", File(9, "k")))
    assert (state.added, state.missing) == (1, 1)


def test_a_better_copy_stays_the_media_though_another_edition_of_the_work_has_just_gone() -> None:
    library = Library()
    library.scan({b"a": File(1, "h1", provider="x"), b"b": File(2, "h2", provider="x")})
    media, other = library.at(b"a"), library.at(b"b")
    for better in (File(1, "h3", mtime=2, provider="x"), File(7, "h4", mtime=3, provider="x")):
        library.scan({b"a": better})
        assert library.at(b"a") == media
        assert library.status(other) == "missing"


@pytest.mark.parametrize("names", [(b"1", b"2"), (b"2", b"1")])
def test_a_copy_that_was_there_moves_and_what_had_been_gone_before_stays_gone(names: tuple[bytes, bytes]) -> None:
    gone, kept = names
    others = tree_of(3)
    library = Library()
    library.scan({gone: File(1, "h"), kept: File(2, "h")} | others)
    was, media = library.at(gone), library.at(kept)
    library.scan({kept: File(2, "h")} | others)
    library.scan({b"3": File(3, "h")} | others)
    assert library.at(b"3") == media
    assert library.status(was) == "missing"


def test_of_hard_links_one_replaced_and_one_gone_the_gone_one_is_no_name_of_the_new_file_when_it_returns() -> None:
    others = tree_of(40)
    linked = File(1, "h")
    library = Library()
    library.scan({b"p": linked, b"q": linked} | others)
    tree: Tree = {b"p": File(2, "better", mtime=2), b"q": linked} | others
    few = {path: file for path, file in tree.items() if path in (b"p", b"music/001.flac")}
    assert library.scan(few).status == "held"
    library.scan(tree)
    assert library.at(b"p") != library.at(b"q")


def test_a_link_replaced_while_the_other_cannot_be_looked_at_waits_and_both_are_told_apart_then() -> None:
    others = tree_of(40)
    linked = File(1, "h")
    library = Library()
    library.scan({b"p": linked, b"u/q": linked} | others)
    media = library.at(b"p")
    tree: Tree = {b"p": File(2, "better", mtime=2), b"u/q": linked} | others
    for _ in range(2):
        library.scan(tree, skips=[(b"u", True, "unreadable")])
        assert library.live()[media] == {b"p", b"u/q"}
    library.scan(tree)
    assert library.at(b"u/q") == media
    assert library.at(b"p") != media


def test_a_file_mounted_again_under_another_device_is_itself_though_its_other_name_cannot_be_looked_at() -> None:
    linked = File(1, "h")
    library = Library()
    library.scan({b"p": linked, b"u/q": linked})
    unchanged = replace(seen(b"p", linked), details=None)
    assert unchanged.locator is not None
    skipped = library.records({}, skips=[(b"u", True, "unreadable")])[1]
    assert isinstance(skipped, PathSkipped)
    by_hand(library, replace(unchanged, locator=replace(unchanged.locator, device=7)), skipped)
    assert library.known()[b"p"].device == 7


# Servers.


def server(count: int = 6) -> tuple[Library, dict[str, object]]:
    library = Library()
    listing: dict[str, object] = {f"u{n}": facts(f"f{n}") for n in range(count)}
    library.serve({name: facts(f"f{n}") for n, name in enumerate(listing)})
    return library, listing


def computed(upstream_id: str) -> str:
    return media_id(SOURCE, upstream_id)


def test_news_of_an_item_from_before_its_removal_do_not_bring_it_back() -> None:
    library, _ = server()
    library.removal("u3", received_at=500_000_000)
    library.hook("u3", details=facts("f3"), received_at=400_000_000)
    assert library.status(computed("u3")) == "missing"
    library.hook("u3", details=facts("f3"), received_at=600_000_000)
    assert library.status(computed("u3")) == "present"


def test_what_only_hooks_know_is_provisional_again_when_it_comes_back() -> None:
    library, _ = server()
    library.hook("n", details=facts("new"), received_at=1_000_000)
    assert library.status(computed("n")) == "provisional"
    library.removal("n", received_at=2_000_000)
    library.hook("n", details=facts("new"), received_at=3_000_000)
    assert library.status(computed("n")) == "provisional"


@pytest.mark.parametrize("number", range(6))
def test_an_id_that_a_server_had_in_between_leads_to_the_media_and_keeps_nothing_from_it(number: int) -> None:
    library, listing = server()
    media = computed(f"u{number}")
    library.hook("between", details=facts(f"f{number}"), received_at=1_000_000)
    library.serve({("now" if n == number else f"u{n}"): facts(f"f{n}") for n in range(6)})
    (item,) = [item for item in library.items.values() if item.upstream_id == "now"]
    assert (item.media_id, item.status) == (media, "present")
    assert library.merged[computed("between")] == media
    assert len(library.items) == len(listing)
