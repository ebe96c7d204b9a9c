"""Scans that nobody asks for: by schedule, once for each time whoever asks; and when files change."""

from __future__ import annotations

import psycopg
import pytest

from schemas.library import ScanRequested
from streams.effects.requesting import Requests
from streams.effects.scheduling import ScheduledScans
from streams.runtime.clock import FakeClock
from streams.runtime.schedules import FOLLOW_UP_FIRST_S, Schedules, schedule_scans
from streams.runtime.tokens import create_source
from tests.integration.projections.world import eventually
from tests.integration.tasks.bench import Bench
from tests.integration.tasks.site import Site, sound

pytestmark = pytest.mark.services

DUE = "UPDATE core.schedules SET next_at = now() - interval '1 s'"
WAIT = "SELECT extract(epoch FROM next_at - now())::float8 AS s, delay_s FROM core.schedules"


def chores(site: Site) -> ScheduledScans:
    requests = Requests(site.settings.kafka, site.contract, FakeClock())
    return ScheduledScans(Schedules(site.bench.worker), site.bench.tasks(), requests, chance=lambda low, high: high)


def test_a_source_is_scanned_when_its_time_has_come_and_then_waits_for_the_next(site: Site) -> None:
    chore = chores(site)
    chore.step()
    assert site.commands() == []
    site.bench.query(DUE)
    again = chores(site)
    again.step()
    [command] = site.commands()
    assert isinstance(command, ScanRequested)
    assert command.requested_by == "schedule"
    [wait] = site.bench.query(WAIT)
    assert 0 < wait["s"] <= 6 * 3600 + 1_800
    chore.close()
    again.close()


def test_a_schedule_that_dies_between_request_and_row_asks_again(site: Site) -> None:
    site.bench.query(DUE)

    def die(point: str) -> None:
        if point == "schedule.requested":
            raise RuntimeError("died")

    requests = Requests(site.settings.kafka, site.contract, FakeClock())
    dying = ScheduledScans(Schedules(site.bench.worker), site.bench.tasks(), requests, failpoint=die)
    with pytest.raises(RuntimeError):
        dying.step()
    heir = chores(site)
    heir.step()
    assert len(site.commands()) == 1, "it is held until its lease is over"
    site.bench.query("UPDATE core.schedules SET lease_until = now()")
    last = chores(site)
    last.step()
    assert len(site.commands()) == 2
    for chore in (dying, heir, last):
        chore.close()


def test_a_scan_that_waits_or_runs_is_the_scan_that_is_due(site: Site) -> None:
    site.bench.want(7, source_id=site.source_id)
    site.bench.query(DUE)
    chore = chores(site)
    chore.step()
    assert site.commands() == []
    [wait] = site.bench.query(WAIT)
    assert wait["s"] > 0
    chore.close()


def test_a_server_that_can_be_listed_has_a_schedule_by_itself_and_one_that_can_not_has_none(bench: Bench) -> None:
    with psycopg.connect(**bench.settings.postgres.conninfo("door")) as connection:
        for source_id, kind in (("sub", "subsonic"), ("plex", "plex"), ("app", "native")):
            create_source(connection, source_id, kind, source_id)
            connection.execute(
                "INSERT INTO core.source_upstreams (source_id, url, interval_s) VALUES (%s, 'http://x.test', 30)",
                (source_id,),
            )
    schedules = Schedules(bench.worker)
    schedules.provide()
    schedules.provide()
    found = bench.query("SELECT schedule_id, cron, jitter_s FROM core.schedules")
    assert found == [{"schedule_id": "scan:sub", "cron": "0 */6 * * *", "jitter_s": 1_800}]


def test_a_schedule_somebody_chose_stays_and_is_kept_to_the_minute(site: Site) -> None:
    with psycopg.connect(**site.settings.postgres.conninfo("door")) as connection:
        schedule_scans(connection, site.source_id, "15 3 * * *")
        schedule_scans(connection, site.source_id, None)
    [row] = site.bench.query("SELECT cron, jitter_s FROM core.schedules")
    assert row == {"cron": "15 3 * * *", "jitter_s": 0}


def test_follow_ups_of_follow_ups_come_later_and_later(site: Site) -> None:
    site.bench.query("DELETE FROM core.schedules")
    schedules = Schedules(site.bench.worker)
    waits = []
    for again in (False, True, True, True, True, True, True, False):
        schedules.follow_up(site.source_id, again=again)
        [row] = site.bench.query(WAIT)
        assert abs(row["s"] - row["delay_s"]) < 5
        waits.append(row["delay_s"])
    assert waits == [45, 90, 180, 360, 720, 900, 900, FOLLOW_UP_FIRST_S]


def test_a_change_in_a_watched_tree_makes_one_scan_however_many_files_it_is(site: Site) -> None:
    site.add_source(watch=True)
    with site.projecting(), site.working(scheduling=False):
        # Watching begins a moment after the worker: until it has, changes are not seen.
        def seen() -> bool:
            for number in range(5):
                sound(site.root / f"album/{number}.wav")
            return bool(site.commands())

        eventually(seen, "the changes were noticed", 30.0)
        [command] = site.commands()
        assert command.requested_by == "watch"
        eventually(lambda: bool(site.rows() and site.rows()[0]["done_version"] >= 0), "it was scanned")
