"""The loop of a worker on real rows: what becomes of attempts, however they end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from schemas.events import DeadLetter
from schemas.topics import DEAD_LETTERS, LIBRARY_COMMANDS
from streams.effects.kinds import Kind
from streams.effects.letters import Letters
from streams.effects.retry import RetryPolicy
from streams.effects.tasks import Worker
from streams.runtime.clock import FakeClock
from streams.runtime.errors import Permanent, Transient, Unavailable
from streams.runtime.leases import CameToNothing, Lease, Task
from tests.integration.projections.world import eventually, read_all
from tests.integration.tasks.bench import Bench, cancelled, record
from tests.integration.tasks.site import Site, in_thread

pytestmark = pytest.mark.services

NEVER = RetryPolicy(first_s=1_000.0, longest_s=1_000.0, attempts=3)


@dataclass
class Written:
    letters: list[tuple[int, str]] = field(default_factory=list)
    away: bool = False

    def write(self, task: Task, error: Exception) -> None:
        if self.away:
            raise Unavailable("Kafka is away")
        self.letters.append((task.version, str(error)))


def latest(low: float, high: float) -> float:
    del low
    return high


def worker(
    bench: Bench, run: Callable[[Lease], None], letters: Written | None = None, *, ttl_s: float = 30.0, at_once: int = 1
) -> Worker:
    kind = Kind("scan", run, at_once, 3_600.0, NEVER)
    return Worker(bench.tasks(ttl_s), [kind], letters or Written(), chance=latest, poll_s=0.02)


def raising(error: Exception) -> Callable[[Lease], None]:
    def run(_: Lease) -> None:
        raise error

    return run


def settles(bench: Bench, the_worker: Worker, **wanted: object) -> dict[str, object]:
    """The row of the task once it is let go and its columns are as wanted."""

    def as_wanted() -> bool:
        row = bench.row()
        return row["lease_token"] is None and all(row[name] == value for name, value in wanted.items())

    with in_thread(the_worker.run):
        eventually(as_wanted, f"the row says {wanted}")
    return bench.row()


def test_what_fails_in_passing_is_put_off_and_told_why(bench: Bench) -> None:
    bench.want(7)
    row = settles(bench, worker(bench, raising(Transient("not now"))), attempts=1, last_error="not now")
    assert (row["dead_at"], row["done_version"]) == (None, -1)


def test_the_last_attempt_is_a_dead_letter_first_and_then_given_up(bench: Bench) -> None:
    bench.want(7)
    written = Written()
    the_worker = worker(bench, raising(Transient("not now")), written)
    for attempt in (1, 2):
        settles(bench, the_worker, attempts=attempt)
        the_worker = worker(bench, raising(Transient("not now")), written)
        bench.due()
    row = settles(bench, the_worker, last_error="not now", attempts=0)
    assert row["dead_at"] is not None
    assert written.letters == [(7, "not now")]


def test_what_is_wrong_for_good_is_given_up_at_once(bench: Bench) -> None:
    bench.want(7)
    written = Written()
    row = settles(bench, worker(bench, raising(Permanent("no such source", cause="other")), written), attempts=0)
    assert row["dead_at"] is not None
    assert written.letters == [(7, "no such source")]


def test_nothing_is_given_up_while_its_letter_can_not_be_written(bench: Bench) -> None:
    bench.want(7)
    written = Written(away=True)
    row = settles(bench, worker(bench, raising(Permanent("x", cause="other")), written), attempts=1)
    assert row["dead_at"] is None
    written.away = False
    bench.due()
    row = settles(bench, worker(bench, raising(Permanent("x", cause="other")), written), attempts=0)
    assert row["dead_at"] is not None


def test_what_killed_its_worker_again_and_again_is_given_up(bench: Bench) -> None:
    bench.want(7)
    for _ in range(NEVER.attempts):
        assert bench.tasks().claim("scan") is not None
        bench.expire()
    written = Written()
    began: list[Task] = []
    settles(bench, worker(bench, lambda lease: began.append(lease.task), written), attempts=0)
    assert began == []
    assert [text for _, text in written.letters] == ["given up: 3 attempts ended without a word"]


def test_what_came_to_nothing_is_done_and_says_why(bench: Bench) -> None:
    bench.want(7)
    row = settles(bench, worker(bench, raising(CameToNothing("root_missing: gone"))), done_version=7)
    assert (row["last_error"], row["dead_at"], row["attempts"]) == ("root_missing: gone", None, 0)


def test_what_was_cancelled_ends_and_is_not_begun_again(bench: Bench) -> None:
    bench.want(7)
    began = threading.Event()

    def run(lease: Lease) -> None:
        began.set()
        eventually(lambda: bench.row()["cancelled_version"] == 7, "the cancellation is in the table")
        threading.Event().wait(0.3)
        lease.check()

    with in_thread(worker(bench, run).run):
        assert began.wait(20)
        bench.fold(record(cancelled(7), 8))
        eventually(lambda: bench.row()["done_version"] == 7, "it is over")
    assert bench.tasks().claim("scan") is None


def test_a_worker_that_is_told_to_stop_gives_back_what_it_has(bench: Bench) -> None:
    bench.want(7)
    began = threading.Event()

    def run(lease: Lease) -> None:
        began.set()
        while True:
            lease.check()
            threading.Event().wait(0.02)

    with in_thread(worker(bench, run).run):
        assert began.wait(20)
    row = bench.row()
    assert (row["attempts"], row["lease_token"], row["done_version"]) == (0, None, -1)
    again = bench.tasks().claim("scan")
    assert again is not None
    assert again.task.begun == 7


def test_what_nobody_foresaw_ends_the_worker_and_the_task_is_anothers_when_the_lease_is_over(bench: Bench) -> None:
    bench.want(7)
    with pytest.raises(ZeroDivisionError):
        # It ends by itself: nobody tells it to.
        worker(bench, raising(ZeroDivisionError())).run(threading.Event())
    assert bench.tasks().claim("scan") is None
    bench.expire()
    assert bench.tasks().claim("scan") is not None


def test_a_worker_has_no_more_of_a_kind_at_once_than_it_has_places(bench: Bench) -> None:
    for number in range(5):
        bench.want(number, source_id=f"s{number}")
    most = at_work = 0
    kept = threading.Lock()

    def run(_: Lease) -> None:
        nonlocal most, at_work
        with kept:
            at_work += 1
            most = max(most, at_work)
        threading.Event().wait(0.05)
        with kept:
            at_work -= 1

    with in_thread(worker(bench, run, at_once=2).run):
        eventually(
            lambda: bench.query("SELECT count(*) AS n FROM core.tasks WHERE done_version >= 0")[0]["n"] == 5, "all done"
        )
    assert most == 2


def test_a_letter_names_the_command_by_its_place_in_the_log(site: Site) -> None:
    site.bench.want(41, source_id=site.source_id)
    lease = site.bench.tasks().claim("scan")
    assert lease is not None
    letters = Letters(site.settings.kafka, site.contract, FakeClock())
    for _ in range(2):
        letters.write(lease.task, Permanent("no such folder", cause="other"))
    found = [
        site.contract.decode(message.value() or b"") for message in read_all(site.settings.kafka, DEAD_LETTERS.name)
    ]
    mine = [one for one in found if isinstance(one, DeadLetter) and one.source_id == site.source_id]
    assert len({one.event_id for one in mine}) == 1, "one letter, however often it is written"
    letter = mine[0]
    assert (letter.topic, letter.offset, letter.consumer) == (LIBRARY_COMMANDS.name, 41, "work.scan")
    assert (letter.correlation_id, letter.error_text) == (lease.task.correlation_id, "no such folder")
