"""The limits of the rules, each tried at its edge, and pieces of work of any size."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.library import Command, ItemDetails, ItemRemovalObserved, Observation
from streams.domain.library import ending, keys, removals
from streams.domain.library.limits import (
    LOCATORS_SHOWN_MAX,
    PATH_BYTES_MAX,
    PLACES_MAX,
    SHARED_MAX,
    removals_max,
)
from streams.domain.library.outputs import Continued, Hold, ItemState, Output, ScanState
from streams.domain.library.rows import Item, Mark, Sight
from streams.domain.library.validity import hold

from .simple import SOURCE, File, Library, facts, observed, tree_of


def places(library: Library) -> list[int]:
    return sorted(len(row.places) for row in library.shelf.rows.values() if isinstance(row, Item))


@pytest.mark.parametrize(("present", "most"), [(0, 5), (50, 5), (59, 5), (60, 6), (100, 10), (109, 10), (1_000, 100)])
def test_removals_believed_are_five_or_ten_percent(present: int, most: int) -> None:
    assert removals_max(present) == most


def test_a_file_has_up_to_256_names_and_one_more_is_another_media() -> None:
    library = Library()
    file = File(1, "h")
    tree = {b"%03d" % n: file for n in range(PLACES_MAX)}
    library.scan(tree)
    assert places(library) == [PLACES_MAX]
    assert len(next(iter(library.items.values())).locators) == LOCATORS_SHOWN_MAX
    tree[b"z"] = file
    assert library.scan(tree).status == "finalized"
    assert places(library) == [1, PLACES_MAX]


def test_a_path_may_have_4096_bytes() -> None:
    hold(observed(b"a" * PATH_BYTES_MAX, File(1, "h"), None, 1, 0))


def test_evidence_that_more_media_share_than_can_be_named_doubles_and_loses_nothing() -> None:
    library = Library()
    tree = {b"a/%03d" % n: File(n, "silence") for n in range(SHARED_MAX + 8)}
    library.scan(tree)
    assert len(library.live()) == SHARED_MAX + 8
    for path in sorted(tree)[:4]:
        del tree[path]
    assert library.scan(tree).missing == 4
    assert len(library.live()) == len(tree)


@pytest.mark.parametrize("count", [1, 12, SHARED_MAX])
def test_as_many_equal_files_as_can_be_named_move_one_to_one(count: int) -> None:
    library = Library()
    library.scan({b"a/%d" % n: File(n, "same") for n in range(count)} | tree_of(1))
    media = set(library.live())
    tree = {b"b/%d" % n: File(100 + n, "same") for n in range(count)} | tree_of(1)
    state = library.scan(tree)
    assert (state.status, state.moved, state.missing, state.added) == ("finalized", count, 0, 0)
    assert set(library.live()) == media


def test_of_more_equal_files_that_move_by_copying_the_others_are_missing_with_their_state_and_new_ones_there() -> None:
    library = Library()
    library.scan({b"a/%02d" % n: File(n, "same") for n in range(SHARED_MAX + 3)} | tree_of(400))
    before = set(library.items)
    state = library.scan({b"b/%02d" % n: File(100 + n, "same") for n in range(SHARED_MAX + 3)} | tree_of(400))
    assert (state.status, state.moved, state.missing, state.added) == ("finalized", SHARED_MAX, 3, 3)
    assert before <= set(library.items)
    assert len(library.live()) == SHARED_MAX + 3 + 400


def test_of_any_number_of_equal_files_that_are_renamed_each_stays_what_it_is() -> None:
    library = Library()
    library.scan({b"a/%02d" % n: File(n, "same") for n in range(SHARED_MAX + 8)})
    before = {path.replace(b"a/", b"b/"): media for media, (path,) in library.live().items()}
    library.scan({b"b/%02d" % n: File(n, "same") for n in range(SHARED_MAX + 8)})
    assert {path: media for media, (path,) in library.live().items()} == before


@pytest.mark.parametrize("restored", [7, 400])
def test_any_number_of_removals_that_were_believed_is_taken_back_when_it_was_too_many(
    monkeypatch: pytest.MonkeyPatch, restored: int
) -> None:
    monkeypatch.setattr(removals, "RESTORED_MAX", restored)
    listing: dict[str, ItemDetails | None] = {f"u{n}": facts(f"f{n}") for n in range(4_500)}
    library = Library()
    library.serve(listing)
    for n in range(450):
        library.removal(f"u{n}")
    assert not any(isinstance(told, Hold) for told in library.told)
    assert sum(item.status == "missing" for item in library.items.values()) == 450
    library.removal("u450")
    assert [told.held for told in library.told if isinstance(told, Hold)] == [True]
    assert all(item.status == "present" for item in library.items.values())
    assert any(isinstance(told, Continued) for told in library.told)


def test_what_a_scan_ended_before_all_was_taken_back_stays_as_the_scan_found_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(removals, "RESTORED_MAX", 7)
    listing: dict[str, ItemDetails | None] = {f"u{n}": facts(f"f{n}") for n in range(200)}
    library = Library()
    library.serve(listing)
    waiting: list[Observation | Command] = []
    for n in range(21):
        library.feed_one(removal(library, f"u{n}"), waiting)
    (late,) = waiting
    del listing["u20"], listing["u19"]
    assert library.serve(listing).status == "finalized"
    assert sum(item.status == "missing" for item in library.items.values()) == 2
    library.removal("u18")
    library.feed(late)
    assert sum(item.status == "missing" for item in library.items.values()) == 3


def removal(library: Library, upstream_id: str) -> ItemRemovalObserved:
    return ItemRemovalObserved(
        event_id="r",
        correlation_id="c",
        source_id=SOURCE,
        received_at=library.offset * 1_000,
        upstream_id=upstream_id,
        how="hook",
    )


def told_and_kept(library: Library) -> tuple[list[Output], dict[bytes, object]]:
    """Without offsets: pieces are records, so what lies behind them has others."""
    kept: dict[bytes, object] = {
        key: replace(row, seen=0, since=0) if isinstance(row, Sight) else Mark(0) if isinstance(row, Mark) else row
        for key, row in library.shelf.rows.items()
        if not key.endswith(b":" + keys.SOURCE)
    }
    return [output for output in library.told if not isinstance(output, Continued)], kept


_files = st.dictionaries(
    st.sampled_from([b"%s/%d" % (folder, n) for folder in (b"a", b"b") for n in range(5)]),
    st.builds(
        File, inode=st.integers(1, 8), content=st.sampled_from(["h1", "h2", "h3", "h4"]), mtime=st.integers(1, 2)
    ),
    min_size=1,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(trees=st.lists(_files, min_size=2, max_size=3), read=st.integers(1, 6), worked=st.integers(1, 4))
def test_the_end_of_a_scan_in_pieces_of_any_size_comes_to_the_same(
    trees: list[dict[bytes, File]], read: int, worked: int
) -> None:
    at_once, piecewise = Library(), Library()
    for tree in trees:
        at_once.scan(tree)
        for record in piecewise.records(tree):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(ending, "ROWS_READ_MAX", read)
                patch.setattr(ending, "ROWS_WORKED_MAX", worked)
                piecewise.feed(replace(record, received_at=0))
    assert any(isinstance(output, Continued) for output in piecewise.told)
    one, other = told_and_kept(at_once), told_and_kept(piecewise)
    assert _timeless(one) == _timeless(other)


def _timeless(told: tuple[list[Output], dict[bytes, object]]) -> list[str]:
    """As text, without the times that follow offsets."""
    outputs = [
        replace(output, started_at=0)
        if isinstance(output, ScanState)
        else replace(output, first_seen_at=0)
        if isinstance(output, ItemState)
        else output
        for output in told[0]
    ]
    rows = {
        key: replace(row, at=0)
        if isinstance(row, Sight)
        else replace(row, first_seen_at=0)
        if isinstance(row, Item)
        else row
        for key, row in told[1].items()
    }
    return [*map(repr, outputs), *(repr((key, rows[key])) for key in sorted(rows))]
