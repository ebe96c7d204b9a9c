"""Leases on a real PostgreSQL: who holds a task, for how long, and what those who do not may write (nothing)."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from streams.runtime.errors import Permanent, Unavailable
from streams.runtime.leases import Cancelled, Lease, LeaseLost, Tasks
from tests.integration.projections.world import eventually
from tests.integration.tasks.bench import Bench, asked, cancelled, record

pytestmark = pytest.mark.services


def claimed(tasks: Tasks, kind: str = "scan") -> Lease:
    lease = tasks.claim(kind)
    assert lease is not None
    return lease


def test_a_task_is_held_by_one_worker_until_it_is_done(bench: Bench) -> None:
    bench.want(7)
    first, second = bench.tasks(), bench.tasks()
    lease = claimed(first)
    assert (lease.task.version, lease.task.attempt, lease.task.begun) == (7, 1, None)
    assert second.claim("scan") is None
    lease.finish()
    assert second.claim("scan") is None
    row = bench.row()
    assert (row["done_version"], row["lease_token"], row["attempts"]) == (7, None, 0)


def test_an_expired_lease_goes_to_another_under_a_higher_number_and_the_old_one_writes_nothing(bench: Bench) -> None:
    bench.want(7)
    zombie = claimed(bench.tasks())
    bench.expire()
    heir = claimed(bench.tasks())
    assert heir.task.token > zombie.task.token
    assert (heir.task.attempt, heir.task.begun) == (2, 7)
    before = bench.row()
    late: list[Callable[[], None]] = [
        zombie.check,
        zombie.finish,
        zombie.give_back,
        lambda: zombie.begin(99),
        lambda: zombie.say({"items": 1}),
        lambda: zombie.put_off(Unavailable("x"), 1.0),
        lambda: zombie.bury(Permanent("x", cause="other")),
    ]
    for write in late:
        with pytest.raises(LeaseLost):
            write()
    assert bench.row() == before
    heir.finish()


def test_an_expired_lease_that_nobody_took_is_lost_all_the_same(bench: Bench) -> None:
    bench.want(7)
    lease = claimed(bench.tasks())
    bench.expire()
    with pytest.raises(LeaseLost):
        lease.finish()
    assert bench.row()["done_version"] == -1


def test_a_lease_is_renewed_while_it_is_entered_and_ends_by_itself_afterwards(bench: Bench) -> None:
    bench.want(7)
    lease = claimed(bench.tasks(ttl_s=0.6))
    others = bench.tasks()
    with lease:
        first = bench.row()["lease_until"]
        eventually(lambda: bool((bench.row()["lease_until"] - first).total_seconds() > 1.2), "it was renewed for long")
        assert others.claim("scan") is None
        lease.check()
    eventually(lambda: others.claim("scan") is not None, "it ended and was taken")


def test_a_renewal_does_not_bring_back_a_lease_that_is_over(bench: Bench) -> None:
    bench.want(7)
    with claimed(bench.tasks(ttl_s=0.9)) as lease:
        bench.expire()
        heir = claimed(bench.tasks())

        def noticed() -> bool:
            try:
                lease.check()
            except LeaseLost:
                return True
            return False

        assert noticed()
        # Its renewals come and go, and change nothing.
        eventually(lambda: lease.lost, "the thread that renews has noticed")
    heir.check()


@pytest.mark.parametrize("hours", [-5, 5], ids=["behind", "ahead"])
def test_a_workers_clock_decides_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
    monkeypatch.setattr(time, "time_ns", lambda: int((real() + hours * 3600) * 1e9))
    bench.want(7)
    lease = claimed(bench.tasks())
    [left] = bench.query("SELECT extract(epoch FROM lease_until - now())::float8 AS s FROM core.tasks")
    assert 20 < left["s"] <= 30
    assert bench.tasks().claim("scan") is None
    lease.check()
    lease.put_off(Unavailable("x"), 100.0)
    [wait] = bench.query("SELECT extract(epoch FROM next_attempt_at - now())::float8 AS s FROM core.tasks")
    assert 90 < wait["s"] <= 100


def test_workers_that_race_for_a_thousand_tasks_do_each_once(bench: Bench) -> None:
    count, workers = 1_000, 6
    bench.fold(*(record(asked(f"source-{number}"), number) for number in range(count)))
    done: Counter[str] = Counter()
    tokens: set[str] = set()
    kept = threading.Lock()

    def work(_: int) -> None:
        tasks = bench.tasks()
        while (lease := tasks.claim("scan")) is not None:
            with kept:
                done[lease.task.key] += 1
                tokens.add(lease.task.token)
            lease.finish()

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    assert (len(done), set(done.values()), len(tokens)) == (count, {1}, count)
    assert bench.query("SELECT count(*) AS n FROM core.tasks WHERE done_version = wanted_version") == [{"n": count}]


def test_a_request_while_it_runs_is_done_after_it_and_once(bench: Bench) -> None:
    bench.want(7)
    lease = claimed(bench.tasks())
    bench.want(9, 12)
    assert bench.tasks().claim("scan") is None
    lease.finish()
    follow = claimed(bench.tasks())
    assert (follow.task.version, follow.task.begun, follow.task.attempt) == (12, None, 1)
    follow.finish()
    assert bench.tasks().claim("scan") is None


def test_what_failed_is_tried_again_when_it_is_due_and_knows_what_was_begun(bench: Bench) -> None:
    bench.want(7)
    claimed(bench.tasks()).put_off(Unavailable("the server is away"), 300.0)
    assert bench.tasks().claim("scan") is None
    row = bench.row()
    assert (row["last_error"], row["last_error_class"]) == ("the server is away", "Unavailable")
    bench.due()
    again = claimed(bench.tasks())
    assert (again.task.attempt, again.task.begun) == (2, 7)
    again.begin(8)
    again.finish()
    row = bench.row()
    assert (row["done_version"], row["attempts"], row["last_error"]) == (8, 0, None)


def test_an_attempt_that_begun_another_version_and_crashed_is_known_by_it(bench: Bench) -> None:
    bench.want(7)
    claimed(bench.tasks()).put_off(Unavailable("x"), 0.0)
    claimed(bench.tasks()).begin(11)
    bench.expire()
    assert claimed(bench.tasks()).task.begun == 11
    # Its own request came through the log: still begun, not a new wish.
    bench.expire()
    bench.want(11, by="retry", replaces=7)
    assert claimed(bench.tasks()).task.begun == 11


def test_what_is_given_back_is_no_attempt(bench: Bench) -> None:
    bench.want(7)
    claimed(bench.tasks()).give_back()
    assert claimed(bench.tasks()).task.attempt == 1


def test_what_was_given_up_stays_so_until_somebody_asks_again(bench: Bench) -> None:
    bench.want(7)
    claimed(bench.tasks()).bury(Permanent("no such folder", cause="other"))
    assert bench.row()["dead_at"] is not None
    # The request of its last attempt comes late through the log.
    bench.want(8, by="retry", replaces=7)
    assert bench.tasks().claim("scan") is None
    bench.want(9, by="schedule")
    assert claimed(bench.tasks()).task.attempt == 1


def test_what_was_asked_for_meanwhile_is_not_given_up_with_it(bench: Bench) -> None:
    bench.want(7)
    lease = claimed(bench.tasks())
    bench.want(9)
    lease.bury(Permanent("no such folder", cause="other"))
    assert bench.row()["dead_at"] is None
    assert claimed(bench.tasks()).task.version == 9


def test_a_cancelled_scan_is_told_so_and_a_later_request_is_not_hurt(bench: Bench) -> None:
    bench.want(7)
    lease = claimed(bench.tasks())
    bench.want(9)
    bench.fold(record(cancelled(7), 10))
    with pytest.raises(Cancelled):
        lease.check()
    lease.finish()
    follow = claimed(bench.tasks())
    follow.check()
    assert follow.task.version == 9


def test_a_repeated_scan_is_cancelled_under_the_number_it_was_asked_for(bench: Bench) -> None:
    bench.want(7)
    claimed(bench.tasks()).put_off(Unavailable("x"), 0.0)
    again = claimed(bench.tasks())
    again.begin(8)
    bench.fold(record(cancelled(7), 9))
    with pytest.raises(Cancelled):
        again.check()


def test_a_waiting_scan_that_was_cancelled_is_not_begun(bench: Bench) -> None:
    bench.want(7)
    bench.fold(record(cancelled(7), 8))
    assert bench.tasks().claim("scan") is None


def test_kinds_do_not_take_each_others_tasks(bench: Bench) -> None:
    bench.want(7)
    assert bench.tasks().claim("metadata") is None
    assert claimed(bench.tasks()).task.kind == "scan"


def test_depths_tell_what_waits_runs_and_was_given_up(bench: Bench) -> None:
    for number, source in enumerate(("a", "b", "c", "d")):
        bench.want(number, source_id=source)
    tasks = bench.tasks()
    claimed(tasks)
    claimed(tasks).bury(Permanent("x", cause="other"))
    claimed(tasks).finish()
    depth = tasks.depths()["scan"]
    assert (depth.waiting, depth.running, depth.dead) == (1, 1, 1)
    assert depth.oldest_s >= 0


def test_a_worker_may_not_want_anything_and_a_projector_may_not_hold_anything(bench: Bench) -> None:
    bench.want(7)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        bench.query("UPDATE core.tasks SET wanted_version = 99", role="worker")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        bench.query("UPDATE core.tasks SET lease_token = 'mine'", role="projector")
