"""The fold without a database: what counts as newer, and what a batch is said to have changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from projections.models.library_fold import Known, KnownItem, KnownMerge, LibraryFold
from schemas.library import Change
from tests.projections.changes import ALBUM, Libraries, aliased, details, held, item, merged, placed, scan

A, B, C = (letter * 32 for letter in "abc")


def folded(events: list[Change], known: Known | None = None, log_epoch: int = 1) -> LibraryFold:
    fold = LibraryFold(known or Known())
    for record in placed(events, log_epoch):
        fold.apply(record)
    return fold


def known_item(media: str, offset: int, *collections: str, status: str = "present", source: str = "home") -> Known:
    return Known(items={media: KnownItem(source, (1, offset), status, False, frozenset(collections))})


def test_a_record_that_is_not_newer_than_its_row_changes_nothing() -> None:
    known = Known(
        items={A: KnownItem("home", (1, 4), "present", False, frozenset({ALBUM}))},
        merges={B: KnownMerge(A, (1, 4))},
        aliases={("home", "u"): (1, 4)},
        scans={("home", 7): (1, 4)},
        sources={"home": (1, 4)},
    )
    fold = folded([item(A), merged(B, C), aliased("u", A), scan(7), held(True)], known)
    assert fold.stale == 5
    touched = (fold.items, fold.collections, fold.merges, fold.aliases, fold.scans, fold.sources)
    assert touched == ({}, {}, {}, {}, {}, {})
    assert fold.invalidations() == []
    assert folded([item(A)], known, log_epoch=2).stale == 0


def test_a_media_of_another_source_is_never_taken_over() -> None:
    assert folded([item(A)], known_item(A, -1, source="flat")).stale == 1


def test_an_item_that_passed_through_a_collection_has_touched_it() -> None:
    fold = folded([item(A, 0, details=None), item(A, 1), item(A, 2, details=None)])
    assert fold.collections[ALBUM].newest.offset == 2
    assert sum(fold.collections[ALBUM].counts.values()) == 0
    assert f"collection:{ALBUM}" in {one.cache_key for one in fold.invalidations()}


def test_a_collection_is_named_as_the_newest_item_in_it_has_it() -> None:
    renamed = details(collections=(details().collections[0].__class__("album", "organ", "Organ works"),))
    fold = folded([item(A, 0), item(B, 1, details=renamed), item(B, 2, details=None)])
    ref = fold.collections[ALBUM].ref
    assert ref is not None
    assert ref.name == "Organ works"


def test_what_left_a_collection_is_counted_out_under_the_status_it_had() -> None:
    fold = folded([item(A, 5, details=None, locators=())], known_item(A, -1, ALBUM, status="missing"))
    assert fold.collections[ALBUM].ref is None
    assert fold.collections[ALBUM].counts == {"missing": -1}
    assert fold.sources["home"].counts == {"missing": -1, "present": 1}


def test_a_merge_ends_an_item_and_moves_the_version_of_the_one_that_stays() -> None:
    fold = folded([item(A, 0), item(B, 1), merged(A, B, 2)])
    assert (fold.items[A].now.merged, fold.items[B].now.merged) == (True, False)
    assert fold.items[B].now.stamp == (1, 2)
    assert fold.sources["home"].counts["present"] == 1
    assert {one.cache_key: one.version for one in fold.invalidations() if one.cache_key.startswith("item:")} == {
        f"item:{A}": 2,
        f"item:{B}": 2,
    }


def test_a_circle_that_was_passed_over_stays_so_when_it_is_read_again_after_it_opened() -> None:
    log: list[Change] = [merged(B, A, 0), merged(A, B, 1), merged(B, C, 2)]
    first = folded(log)
    assert {media: end for media, (end, _) in first.merges.items()} == {B: C}
    assert folded(log, Known(merges={B: KnownMerge(C, (1, 2))})).merges == {}


def test_a_scan_and_a_hold_are_no_news_for_caches() -> None:
    fold = folded([scan(7, 0), scan(7, 1, status="finalized"), held(True, 2)])
    assert fold.invalidations() == []
    assert fold.sources["home"].finalized == 7


@given(seed=st.integers(0, 10_000), count=st.integers(1, 120))
def test_a_second_reading_over_what_the_first_left_is_all_stale(seed: int, count: int) -> None:
    log = placed(Libraries(seed, media=6).changes(count))
    first = LibraryFold(Known())
    for record in log:
        first.apply(record)
    known = Known(
        items={media: after.now for media, after in first.items.items()},
        merges={
            media: KnownMerge(end, (record.log_epoch, record.offset)) for media, (end, record) in first.merges.items()
        },
        aliases={name: (record.log_epoch, record.offset) for name, (_, record) in first.aliases.items()},
        scans={name: (after.newest.log_epoch, after.newest.offset) for name, after in first.scans.items()},
        sources={name: (after.newest.log_epoch, after.newest.offset) for name, after in first.sources.items()},
    )
    second = LibraryFold(known)
    for record in log:
        second.apply(record)
    assert second.stale == len(log)
    assert second.invalidations() == []
