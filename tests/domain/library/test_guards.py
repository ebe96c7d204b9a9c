"""What keeps a library from being emptied by accident (reports.md, 3.3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schemas.library import (
    Command,
    ItemObserved,
    ItemStatusRequested,
    Locator,
    Observation,
    PathSkipped,
    ScanCancelled,
    ScanConfirmed,
    ScanFailed,
    ScanRequested,
)
from streams.domain.library.invalid import Invalid
from streams.domain.library.limits import ROWS_READ_MAX
from streams.domain.library.outputs import Hold, ItemState
from streams.domain.library.validity import hold

from .simple import SOURCE, File, Library, facts, listed, observed, started, timed, tree_of


def confirm(library: Library, generation: int) -> None:
    library.feed(
        ScanConfirmed(event_id="e", correlation_id="c", source_id=SOURCE, received_at=0, generation=generation)
    )


def missing(library: Library) -> set[str]:
    return {item.media_id for item in library.items.values() if item.status == "missing"}


def without(tree: dict[bytes, File], count: int) -> dict[bytes, File]:
    return dict(sorted(tree.items())[count:])


def test_ten_percent_removed_are_missing_and_twelve_percent_are_held() -> None:
    for count, status in ((10, "finalized"), (12, "held")):
        tree = tree_of(100)
        library = Library()
        library.scan(tree)
        state = library.scan(without(tree, count))
        assert (state.status, state.missing, state.present_before) == (status, count, 100)
        assert len(missing(library)) == (10 if status == "finalized" else 0)
        assert state.reason == (None if status == "finalized" else "mass_removal")


def test_five_of_a_few_may_go_and_six_are_held() -> None:
    for count, status in ((5, "finalized"), (6, "held")):
        tree = tree_of(20)
        library = Library()
        library.scan(tree)
        assert library.scan(without(tree, count)).status == status


def test_a_held_scan_confirmed_marks_what_it_held() -> None:
    tree = tree_of(100)
    library = Library()
    library.scan(tree)
    library.scan(without(tree, 50))
    assert not missing(library)
    confirm(library, library.generation)
    assert library.scans[library.generation].status == "finalized"
    assert len(missing(library)) == library.scans[library.generation].missing == 50


def test_a_held_scan_confirmed_after_some_came_back_marks_only_the_others() -> None:
    library = Library()
    listing = {f"u{n}": facts(f"f{n}") for n in range(40)}
    library.serve(listing)
    held = library.serve({name: listing[name] for name in list(listing)[20:]})
    assert (held.status, held.missing) == ("held", 20)
    for name in list(listing)[:7]:
        library.hook(name, details=listing[name])
    confirm(library, library.generation)
    assert library.scans[library.generation].status == "finalized"
    assert len(missing(library)) == 13
    assert all(library.items[item].upstream_id not in list(listing)[:7] for item in missing(library))


def test_a_held_scan_is_superseded_by_the_next_and_its_confirmation_then_does_nothing() -> None:
    tree = tree_of(100)
    library = Library()
    library.scan(tree)
    library.scan(without(tree, 50))
    held = library.generation
    library.scan(tree)
    assert library.scans[held].status == "superseded"
    confirm(library, held)
    assert not missing(library)


def test_an_empty_root_is_held_even_when_few_were_there() -> None:
    library = Library()
    library.scan(tree_of(3))
    state = library.scan({})
    assert (state.status, state.reason, state.missing) == ("held", "root_changed", 3)
    assert not missing(library)


def test_another_disk_at_the_root_is_held() -> None:
    library = Library()
    library.scan(tree_of(4, b"music"))
    state = library.scan(tree_of(4, b"photos", first=50))
    assert (state.status, state.reason) == ("held", "root_changed")


def test_a_root_whose_only_entry_was_renamed_is_the_same_root() -> None:
    tree = tree_of(4, b"music")
    library = Library()
    library.scan(tree)
    state = library.scan({path.replace(b"music", b"Musik"): file for path, file in tree.items()})
    assert (state.status, state.missing, state.moved) == ("finalized", 0, 4)


def test_a_known_entry_that_is_left_is_the_same_root_though_all_in_it_is_new() -> None:
    library = Library()
    library.scan(tree_of(4, b"music"))
    state = library.scan(tree_of(4, b"music", first=50))
    assert (state.status, state.missing, state.added) == ("finalized", 4, 4)


def test_a_device_number_that_changed_says_nothing() -> None:
    tree = tree_of(30)
    library = Library()
    library.scan(tree)
    for record in library.records(tree):
        if isinstance(record, ItemObserved) and record.locator is not None:
            library.feed(replace(record, locator=replace(record.locator, device=77)))
        else:
            library.feed(record)
    assert library.scans[library.generation].status == "finalized"
    assert not missing(library)


def test_a_scan_that_failed_changes_nothing() -> None:
    tree = tree_of(30)
    library = Library()
    library.scan(tree)
    before = dict(library.items)
    library.feed(started(90))
    library.feed(
        ScanFailed(
            event_id="e", correlation_id="c", source_id=SOURCE, received_at=0, generation=90, reason="root_missing"
        )
    )
    assert (library.scans[90].status, library.scans[90].reason) == ("failed", "root_missing")
    library.feed(listed(90, 0))
    assert library.items == before


def test_an_incomplete_listing_marks_nothing() -> None:
    tree = tree_of(30)
    library = Library()
    library.scan(tree)
    state = library.scan(without(tree, 2), complete=False)
    assert (state.status, state.reason) == ("incomplete", "listing_incomplete")
    assert not missing(library)


@pytest.mark.parametrize("lost", [1, 15, 28])
def test_an_observation_lost_on_the_way_marks_nothing(lost: int) -> None:
    tree = tree_of(30)
    library = Library()
    library.scan(tree)
    records = library.records(without(tree, 2))
    for record in records[:lost] + records[lost + 1 :]:
        library.feed(record)
    state = library.scans[library.generation]
    assert (state.status, state.reason) == ("incomplete", "observations_lost")
    assert not missing(library)
    assert library.scan(without(tree, 2)).missing == 2


def test_observations_told_twice_are_no_loss() -> None:
    tree = tree_of(9)
    library = Library()
    library.scan(tree)
    for record in library.records(without(tree, 2)):
        library.feed(record)
        library.feed(record)
    assert (library.scans[library.generation].status, len(missing(library))) == ("finalized", 2)


def test_one_unreadable_folder_leaves_all_in_it_where_it_is_and_says_so() -> None:
    tree = {**tree_of(70, b"locked"), **tree_of(30, b"open", first=70)}
    library = Library()
    library.scan(tree)
    state = library.scan(tree, skips=[(b"locked", True, "unreadable")])
    assert (state.status, state.missing, state.unreadable) == ("finalized", 0, 70)
    locked = [item for item in library.items.values() if item.locators[0].path.startswith(b"locked/")]
    assert all((item.status, item.readable) == ("present", False) for item in locked)
    since = len(library.told)
    library.scan(tree, skips=[(b"locked", True, "unreadable")])
    assert library.changes(since) == []
    library.scan(tree)
    assert all(item.readable for item in library.items.values())


def test_a_file_that_cannot_be_looked_at_is_not_gone() -> None:
    tree = tree_of(3)
    library = Library()
    library.scan(tree)
    state = library.scan(tree, skips=[(b"music/001.flac", False, "unreadable")])
    assert (state.missing, state.unreadable) == (0, 1)


def test_what_is_found_elsewhere_while_its_folder_is_unreadable_is_provisional_until_it_can_be_told() -> None:
    tree = {b"locked/a": File(1, "h"), b"k": File(9, "k")}
    moved = {b"open/a": File(51, "h"), b"k": File(9, "k")}
    for later, merged in ((moved, True), ({**tree, **moved}, False)):
        library = Library()
        library.scan(tree)
        media = library.at(b"locked/a")
        library.scan({**tree, **moved}, skips=[(b"locked", True, "unreadable")])
        found = library.at(b"open/a")
        assert (library.status(found), library.status(media)) == ("provisional", "present")
        library.scan({**tree, **moved}, skips=[(b"locked", True, "unreadable")])
        assert library.status(found) == "provisional"
        library.scan(later)
        if merged:
            assert library.merged[found] == media
            assert library.live()[media] == {b"open/a"}
        else:
            assert (library.status(found), library.status(media)) == ("present", "present")


def test_what_a_new_ignore_file_hides_is_archived_and_no_removal() -> None:
    tree = {**tree_of(50, b"demos"), **tree_of(50, b"music", first=50)}
    library = Library()
    library.scan(tree)
    state = library.scan(tree, skips=[(b"demos", True, "ignored")])
    assert (state.status, state.missing) == ("finalized", 0)
    hidden = [item for item in library.items.values() if item.locators[0].path.startswith(b"demos/")]
    assert {item.status for item in hidden} == {"archived"}
    assert all("ignored" in item.changes for item in hidden)
    library.scan(tree)
    assert {item.status for item in library.items.values()} == {"present"}


def test_records_of_a_stale_scan_count_nothing_as_seen_and_end_nothing() -> None:
    tree = tree_of(10)
    library = Library()
    library.scan(tree)
    old = library.records(tree)
    new = library.records(without(tree, 2))
    for record in old[:6]:
        library.feed(record)
    library.feed(new[0])
    for record in (*old[6:], *new[1:]):
        library.feed(record)
    assert len(missing(library)) == 2
    assert library.scans[library.generation - 10].status == "superseded"


def test_a_repeated_scan_makes_the_one_it_replaces_stale_before_it_begins() -> None:
    tree = tree_of(10)
    library = Library()
    library.scan(tree)
    old = library.records(without(tree, 3))
    library.feed(old[0])
    library.feed(
        ScanRequested(
            event_id="e",
            correlation_id="c",
            source_id=SOURCE,
            received_at=0,
            requested_by="retry",
            replaces=library.generation,
        )
    )
    for record in old[1:]:
        library.feed(record)
    assert library.scans[library.generation].status == "superseded"
    assert not missing(library)


def test_a_scan_that_starts_after_a_newer_one_is_stale() -> None:
    tree = tree_of(10)
    library = Library()
    library.scan(tree)
    old = library.records({})
    library.scan(tree)
    for record in old:
        library.feed(record)
    assert not missing(library)
    assert library.scans[library.generation].status == "finalized"


@pytest.mark.parametrize("when", ["before", "running", "held"])
def test_a_cancelled_scan_marks_nothing(when: str) -> None:
    tree = tree_of(50)
    library = Library()
    library.scan(tree)
    records = library.records(without(tree, 2 if when != "held" else 40))
    cancel = ScanCancelled(
        event_id="e", correlation_id="c", source_id=SOURCE, received_at=0, generation=library.generation
    )
    if when == "before":
        library.feed(cancel)
    for record in records[:9]:
        library.feed(record)
    if when == "running":
        library.feed(cancel)
    for record in records[9:]:
        library.feed(record)
    if when == "held":
        library.feed(cancel)
        confirm(library, library.generation)
    assert library.scans[library.generation].status == "cancelled"
    assert not missing(library)


def test_an_item_that_a_hook_adds_to_a_folder_already_listed_is_not_missing() -> None:
    library = Library()
    listing = {f"u{n}": facts(f"f{n}") for n in range(5)}
    library.serve(listing)
    records = library.served(listing)
    for record in records[:-1]:
        library.feed(record)
    library.hook("new", details=facts("new"))
    library.feed(records[-1])
    assert library.scans[library.generation].missing == 0
    (new,) = [item for item in library.items.values() if item.upstream_id == "new"]
    assert new.status == "provisional"
    library.serve({**listing, "new": facts("new")})
    assert library.status(new.media_id) == "present"


def test_a_few_removals_told_by_hooks_are_believed_and_a_listing_brings_back_what_is_there() -> None:
    library = Library()
    listing = {f"u{n}": facts(f"f{n}") for n in range(20)}
    library.serve(listing)
    for n in range(3):
        library.removal(f"u{n}")
    assert len(missing(library)) == 3
    assert {"upstream_removed", "missing"} <= set(library.items[next(iter(missing(library)))].changes)
    library.serve(listing)
    assert not missing(library)


def test_500_removals_told_at_once_are_held_and_nothing_is_missing_until_a_scan_says_so() -> None:
    library = Library()
    listing = {f"u{n}": facts(f"f{n}") for n in range(600)}
    library.serve(listing)
    for n in range(500):
        library.removal(f"u{n}")
    holds = [told for told in library.told if isinstance(told, Hold)]
    assert [(told.held, told.reason) for told in holds] == [(True, "mass_removal")]
    assert not missing(library)
    assert library.serve(listing).status == "finalized"
    holds = [told for told in library.told if isinstance(told, Hold)]
    assert [told.held for told in holds] == [True, False]
    assert not missing(library)
    library.removal("u1")
    assert len(missing(library)) == 1


def test_as_many_removals_over_hours_of_log_time_are_believed() -> None:
    library = Library()
    library.serve({f"u{n}": facts(f"f{n}") for n in range(30)})
    for n in range(20):
        library.minute += 11
        library.removal(f"u{n}")
    assert len(missing(library)) == 20


def test_a_removal_told_again_after_the_item_was_seen_again_is_old_news() -> None:
    library = Library()
    listing = {f"u{n}": facts(f"f{n}") for n in range(5)}
    library.serve(listing)
    told_at = library.offset * 1_000
    library.removal("u1", told_at)
    library.serve(listing)
    library.removal("u1", told_at)
    assert not missing(library)


def test_upstream_ids_renewed_with_the_same_facts_keep_every_media() -> None:
    library = Library()
    library.serve({f"u{n}": facts(f"f{n}") for n in range(50)})
    before = {item.details: item.media_id for item in library.items.values()}
    state = library.serve({f"v{n}": facts(f"f{n}") for n in range(50)})
    assert (state.status, state.missing, state.added, state.moved) == ("finalized", 0, 0, 50)
    assert {item.details: item.media_id for item in library.items.values()} == before
    assert len(library.merged) == 50  # the ids the door would compute from the new upstream ids
    assert {item.upstream_id for item in library.items.values()} == {f"v{n}" for n in range(50)}


def test_an_upstream_id_renewed_is_known_by_its_path_when_its_facts_changed() -> None:
    library = Library()
    paths = {"u1": b"a/1.mp3", "k": b"k.mp3"}
    library.serve({"u1": facts("old"), "k": facts("k")}, paths)
    (media,) = [item.media_id for item in library.items.values() if item.upstream_id == "u1"]
    library.serve({"u2": facts("new"), "k": facts("k")}, {"u2": b"a/1.mp3", "k": b"k.mp3"})
    assert library.items[media].upstream_id == "u2"
    assert library.status(media) == "present"


def test_an_old_observation_of_details_that_comes_late_changes_nothing() -> None:
    library = Library()
    library.serve({"u1": facts("f", version=10, title="New")})
    since = len(library.told)
    library.hook("u1", details=facts("f", version=5, title="Old"))
    library.hook("u1", details=facts("f", version=None, title="Nobody knows when"))
    assert library.changes(since) == []
    library.hook("u1", details=facts("f", version=11, title="Newer"))
    (item,) = library.items.values()
    assert item.details is not None
    assert (item.details.title, item.changes) == ("Newer", ("details",))


def status_requested(media_id: str, status: str) -> ItemStatusRequested:
    return ItemStatusRequested(
        event_id="e", correlation_id="c", source_id=SOURCE, received_at=0, media_id=media_id, status=status
    )


def test_what_is_missing_is_archived_by_request_and_back_when_it_is_seen_again() -> None:
    tree = tree_of(3)
    library = Library()
    library.scan(tree)
    media = library.at(b"music/001.flac")
    library.feed(status_requested(media, "archived"))
    assert library.status(media) == "present"  # it is there
    library.scan({path: file for path, file in tree.items() if path != b"music/001.flac"})
    library.feed(status_requested(media, "archived"))
    assert (library.status(media), library.items[media].changes) == ("archived", ("archived",))
    library.scan(tree)
    assert library.at(b"music/001.flac") == media


def test_many_items_end_in_many_pieces_and_a_piece_told_twice_does_nothing() -> None:
    tree = tree_of(2 * ROWS_READ_MAX + 500)
    library = Library()
    library.scan(tree)
    pieces = 0
    for record in library.records(without(tree, 430)):
        waiting: list[Observation | Command] = []
        library.feed_one(record, waiting)
        while waiting:
            piece = waiting.pop(0)
            pieces += 1
            library.feed_one(piece, waiting)
            library.feed_one(piece, waiting)
    assert pieces > 3
    state = library.scans[library.generation]
    assert (state.status, state.missing, len(missing(library))) == ("finalized", 430, 430)


def test_a_record_costs_no_more_than_a_bounded_number_of_items() -> None:
    library = Library()
    library.scan(tree_of(3_000))
    library.scan({})
    waiting: list[Observation | Command] = []
    library.feed_one(
        ScanConfirmed(event_id="e", correlation_id="c", source_id=SOURCE, received_at=0, generation=20), waiting
    )
    while waiting:
        outputs = library.feed_one(waiting.pop(0), waiting)
        assert sum(isinstance(output, ItemState) for output in outputs) <= 400
    assert len(missing(library)) == 3_000


_SEEN = observed(b"a", File(1, "h"), None, 10, 0)
_SKIPPED = PathSkipped(
    event_id="e",
    correlation_id="c",
    source_id=SOURCE,
    received_at=0,
    generation=1,
    ordinal=0,
    path=b"a",
    reason="ignored",
)


@pytest.mark.parametrize(
    "bad",
    [
        replace(_SEEN, locator=Locator(b"/a", 1, 1, 1, 1)),
        replace(_SEEN, locator=Locator(b"a/../b", 1, 1, 1, 1)),
        replace(_SEEN, locator=Locator(b"./a", 1, 1, 1, 1)),
        replace(_SEEN, locator=Locator(b"a//b", 1, 1, 1, 1)),
        replace(_SEEN, locator=Locator(b"a/", 1, 1, 1, 1)),
        replace(_SEEN, locator=Locator(b"a\0", 1, 1, 1, 1)),
        replace(_SEEN, locator=Locator(b"a" * 4_097, 1, 1, 1, 1)),
        replace(_SEEN, locator=Locator(b"", 1, 1, 1, 1)),
        replace(_SEEN, locator=Locator(b"a", -1, 1, 1, 1)),
        replace(_SEEN, locator=None),
        replace(_SEEN, upstream_id=""),
        replace(_SEEN, ordinal=-1),
        replace(_SEEN, how="guessed"),
        replace(_SEEN, source_id=""),
        replace(_SEEN, source_id="a:b"),
        replace(_SKIPPED, reason="bored"),
        replace(_SKIPPED, ordinal=-1),
        listed(1, -1),
        status_requested("m", "present"),
    ],
    ids=str,
)
def test_impossible_values_are_poison(bad: ItemObserved) -> None:
    with pytest.raises(Invalid):
        hold(bad)


def test_a_servers_path_may_be_absolute() -> None:
    hold(replace(_SEEN, upstream_id="u", locator=Locator(b"/music/../a", 1, None, None, None)))


def test_time_is_taken_from_the_log() -> None:
    library = Library()
    library.minute = 5
    library.scan(tree_of(1))
    (item,) = library.items.values()
    assert item.first_seen_at >= 5 * 60_000
    assert timed(started(1), 3).received_at == 3_000
