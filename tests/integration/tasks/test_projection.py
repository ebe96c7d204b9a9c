"""Commands become wishes: coalesced, replayed without effect, of one log at a time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from schemas.library import Command, MetadataRefreshRequested, ReconcileRequested
from tests.integration.tasks.bench import Bench, asked, cancelled, record

pytestmark = pytest.mark.services

ALL = "SELECT * FROM core.tasks ORDER BY kind, key"


def refresh(media_id: str | None = None) -> MetadataRefreshRequested:
    return MetadataRefreshRequested(
        event_id="r", correlation_id="c-r", source_id="music", received_at=1, media_id=media_id
    )


def reconcile(scope: str) -> ReconcileRequested:
    return ReconcileRequested(event_id="r", correlation_id="c", source_id="music", received_at=1, scope=scope)


def without_clocks(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    clocks = {"requested_at", "next_attempt_at"}
    return [{name: value for name, value in row.items() if name not in clocks} for row in rows]


def test_the_newest_request_is_what_is_wanted(bench: Bench) -> None:
    bench.want(3, 5, 9)
    row = bench.row()
    assert (row["wanted_version"], row["done_version"], row["source_id"]) == (9, -1, "music")
    assert row["payload"] == {"requested_by": "operator"}


def test_full_sticks_until_it_is_done_and_no_longer(bench: Bench) -> None:
    bench.fold(record(asked(full=True), 3), record(asked(by="schedule"), 5))
    lease = bench.tasks().claim("scan")
    assert lease is not None
    assert lease.task.full
    bench.want(7)
    lease.finish()
    follow = bench.tasks().claim("scan")
    assert follow is not None
    assert (follow.task.version, follow.task.full) == (7, False)


def test_full_asked_for_while_a_scan_runs_is_for_the_one_after_it(bench: Bench) -> None:
    bench.want(3)
    lease = bench.tasks().claim("scan")
    assert lease is not None
    assert not lease.task.full
    bench.want(5, full=True)
    lease.finish()
    follow = bench.tasks().claim("scan")
    assert follow is not None
    assert follow.task.full


def test_replaying_the_log_changes_nothing_whatever_was_done_since(bench: Bench) -> None:
    log = [
        record(asked(), 1),
        record(refresh("m"), 2),
        record(asked(by="schedule"), 3),
        record(cancelled(1), 4),
        record(reconcile("library"), 5),
        record(refresh(), 6),
    ]
    bench.fold(*log)
    lease = bench.tasks().claim("scan")
    assert lease is not None
    lease.finish()
    before = bench.query(ALL)
    dice = random.Random(7)
    for _ in range(20):
        begin = dice.randrange(len(log))
        bench.fold(*log[begin:])
    assert bench.query(ALL) == before
    assert bench.tasks().claim("scan") is None


def test_a_replay_brings_back_what_is_wanted_whatever_was_lost(bench: Bench) -> None:
    log = [record(asked(full=True), 1), record(refresh("m"), 2), record(cancelled(1), 3), record(asked(), 4)]
    bench.fold(*log)
    before = bench.digest()
    assert before.rows == 2
    lease = bench.tasks().claim("scan")
    assert lease is not None
    lease.finish()
    assert bench.digest() == before, "what workers did is not of the log"
    bench.query("DELETE FROM core.tasks WHERE kind = 'scan'")
    assert bench.digest() != before
    bench.fold(*log)
    assert bench.digest() == before


def test_one_batch_or_many_make_the_same_rows(bench: Bench) -> None:
    log: list[tuple[Command, int]] = [
        *((asked(f"source-{number % 3}", full=number % 2 == 0), number) for number in range(12)),
        (refresh("m"), 12),
        (reconcile("rows"), 13),
        (reconcile("library"), 14),
    ]
    bench.fold(*(record(event, offset) for event, offset in log))
    whole = without_clocks(bench.query(ALL))
    bench.query("DELETE FROM core.tasks")
    for event, offset in log:
        bench.fold(record(event, offset))
    assert without_clocks(bench.query(ALL)) == whole


def test_each_item_and_the_whole_source_are_tasks_of_their_own(bench: Bench) -> None:
    bench.fold(record(refresh("m"), 1), record(refresh(), 2), record(refresh("m"), 3))
    keys = {row["key"]: row["wanted_version"] for row in bench.query(ALL)}
    assert keys == {"music:m": 3, "music": 2}


def test_scopes_of_reconcile_add_up(bench: Bench) -> None:
    bench.fold(record(reconcile("library"), 1), record(reconcile("rows"), 2))
    assert bench.row(kind="reconcile")["payload"] == {"scope library": 1, "scope rows": 2}


def test_a_person_does_not_wait_for_an_old_failures_pause_and_a_schedule_does(bench: Bench) -> None:
    from streams.runtime.errors import Unavailable

    bench.want(1)
    lease = bench.tasks().claim("scan")
    assert lease is not None
    lease.put_off(Unavailable("x"), 300.0)
    bench.want(2, by="schedule")
    assert bench.tasks().claim("scan") is None
    bench.want(3, by="operator")
    lease = bench.tasks().claim("scan")
    assert lease is not None
    assert lease.task.attempt == 1


def test_another_log_begins_anew_and_records_of_the_old_one_count_nothing(bench: Bench) -> None:
    bench.want(900)
    lease = bench.tasks().claim("scan")
    assert lease is not None
    lease.finish()
    bench.fold(record(asked(), 2, log_epoch=2))
    row = bench.row()
    assert (row["log_epoch"], row["wanted_version"], row["done_version"]) == (2, 2, -1)
    assert bench.fold(record(asked(), 901, log_epoch=1)) == 1
    assert bench.row() == row
    lease = bench.tasks().claim("scan")
    assert lease is not None
    assert (lease.task.version, lease.task.begun) == (2, None)


def test_cancelling_reaches_no_further_than_its_own_place_in_the_log(bench: Bench) -> None:
    bench.want(1)
    bench.fold(record(cancelled(2**62), 2))
    bench.want(3)
    lease = bench.tasks().claim("scan")
    assert lease is not None
    lease.check()
