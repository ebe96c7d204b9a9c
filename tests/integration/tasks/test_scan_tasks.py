"""From a command in the log to observations in the log: projection, lease, scanner, all real."""

from __future__ import annotations

import os

import pytest

from schemas.library import ItemObserved, ScanFailed, ScanListed, ScanRequested, ScanStarted
from tests.integration.projections.world import eventually
from tests.integration.tasks.site import Site, sound

pytestmark = [pytest.mark.services, pytest.mark.long]

FOLLOW_UPS = "SELECT next_at, next_at - now() AS wait FROM core.schedules WHERE requested_by = 'follow_up'"


def test_a_requested_scan_is_done_and_what_it_saw_is_in_the_log(site: Site) -> None:
    sound(site.root / "artist/album/one.wav")
    sound(site.root / "artist/album/two.wav", 0.2)
    with site.projecting(), site.working():
        generation = site.ask()
        row = site.wait_done(generation)
    assert (row["attempts"], row["last_error"], row["dead_at"]) == (0, None, None)
    started, *items, listed = site.observed()
    assert isinstance(started, ScanStarted)
    assert (started.generation, started.requested_by) == (generation, "operator")
    assert all(isinstance(item, ItemObserved) and item.details is not None for item in items)
    assert sorted(item.locator.path for item in items) == [b"artist/album/one.wav", b"artist/album/two.wav"]
    assert isinstance(listed, ScanListed)
    assert (listed.complete, listed.observations) == (True, 2)
    [command] = site.commands()
    assert {event.correlation_id for event in site.observed()} == {command.correlation_id}


def test_a_folder_that_is_gone_fails_the_scan_and_nothing_else_and_the_next_one_works(site: Site) -> None:
    os.rename(site.root, away := site.root.with_name("away"))
    with site.projecting(), site.working():
        row = site.wait_done(site.ask())
        assert row["last_error_class"] == "CameToNothing"
        assert row["last_error"].startswith("root_missing")
        assert row["dead_at"] is None
        assert [type(event) for event in site.observed()] == [ScanFailed]
        os.rename(away, site.root)
        row = site.wait_done(site.ask())
        assert row["last_error"] is None


def test_a_scan_whose_worker_died_is_repeated_under_a_generation_that_replaces_it(site: Site) -> None:
    for number in range(3):
        sound(site.root / f"{number}.wav")
    died = RuntimeError("died")

    def die(point: str) -> None:
        if point == "work.observed":
            raise died

    with site.projecting():
        generation = site.ask()
        with pytest.raises(RuntimeError, match="died"), site.working(failpoint=die):
            eventually(lambda: bool(site.observed()), "the scan has begun")
        site.bench.expire(site.source_id)
        with site.working():
            row = site.wait_done(generation + 1)
    first, again = site.commands()
    assert isinstance(again, ScanRequested)
    assert (again.requested_by, again.replaces, again.correlation_id) == ("retry", generation, first.correlation_id)
    listed = [event for event in site.observed() if isinstance(event, ScanListed)]
    assert [event.generation for event in listed] == [row["done_version"]]


def test_a_file_that_is_still_written_is_scanned_again_within_a_minute(site: Site) -> None:
    sound(site.root / "growing.wav", settled=False)
    with site.projecting(), site.working():
        site.wait_done(site.ask())
        [due] = site.bench.query(
            "SELECT *, next_at - now() AS wait FROM core.schedules WHERE requested_by = 'follow_up'"
        )
        assert 0 < due["wait"].total_seconds() <= 60
        os.utime(site.root / "growing.wav", (1_700_000_000, 1_700_000_000))
        site.bench.query("UPDATE core.schedules SET next_at = now() WHERE requested_by = 'follow_up'")
        eventually(lambda: len(site.commands()) == 2, "the follow-up was asked for")
        follow = site.commands()[1]
        assert follow.requested_by == "follow_up"
        eventually(
            lambda: bool(isinstance(site.observed()[-1], ScanListed) and len(site.observed()) == 6), "it is over"
        )
    settled = [event.settled for event in site.observed() if isinstance(event, ItemObserved)]
    assert settled == [False, True]
    [rest] = site.bench.query(FOLLOW_UPS)
    assert rest["next_at"] is None
