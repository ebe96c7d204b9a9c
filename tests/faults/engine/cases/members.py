"""Membership: zombies, rolling restarts, a storm of rebalances, one slow member, transactions out of time."""

from __future__ import annotations

import time

from streams.engine import EXIT_CRASH, EXIT_RESTART

from ..case import KILLED, Case, add
from ..field import FREEZE_S, Field, Violation

STORM_S = 24.0
STORM_EVERY_S = 2.0


def zombie(field: Field) -> None:
    """Freeze a worker in mid-transaction until others have its partitions, then let it go on."""
    for number in field.workers[:2]:
        before, begin = field.owned(number), time.monotonic()
        field.freeze(number, FREEZE_S)
        field.assert_others_went_on(number, before, begin)
        taken = set().union(*(field.cluster.owned(other) for other in field.workers if other != number))
        if not before & taken:
            raise Violation(f"nobody took over from the frozen worker: it had {before}, others have {taken}")
        field.wait_progress(500)


def rolling(field: Field) -> None:
    """Restart one after the other, twice."""
    for number in [*field.workers] * 2:
        field.restart(number)
        field.wait_progress(300)


def storm(field: Field) -> None:
    """Add or remove a worker every two seconds."""
    until = time.monotonic() + STORM_S
    extra = len(field.workers)
    running: list[int] = []
    begun = field.cluster.progressed()
    while time.monotonic() < until:
        time.sleep(STORM_EVERY_S)  # the rhythm is the fault
        if len(running) < 2 and field.random.random() < 0.6:
            field.start(extra)
            running.append(extra)
            extra += 1
            field.faults["worker added"] += 1
        elif running and field.random.random() < 0.7:
            field.stop(running.pop(0))
            field.faults["worker removed"] += 1
        else:
            field.kill(field.random.choice(field.workers))
    if field.cluster.progressed() == begun:
        raise Violation("no progress during the storm")


def slow_member(field: Field) -> None:
    """One worker's agents sleep per batch: it falls behind, the others must not."""
    slow = field.workers[-1]
    field.stop(slow)
    field.start(slow, agent_sleeps=0.5)
    field.faults["slow worker"] += 1
    field.owned(slow)
    begin = time.monotonic()
    time.sleep(10)  # what is measured is this time
    field.assert_others_went_on(slow, field.owned(slow), begin)
    field.restart(slow)


def transaction_timeout(field: Field) -> None:
    """Hold transactions open longer than the broker allows: it aborts them, their owner must not commit."""
    for step in ("produced", "before_commit"):
        field.lives.clear()
        number = field.random.choice(field.workers)
        field.stop(number)
        ended = len(field.exits)
        field.start(number, hang={"at": step, "after": 3, "seconds": 14})
        field.faults[f"transaction held open at {step}"] += 1
        field.wait_exits(ended + 1)
        field.wait_progress(300)


def hung_commit(field: Field) -> None:
    """A commit that never returns: the watchdog must end the worker."""
    number = field.random.choice(field.workers)
    field.stop(number)
    ended = len(field.exits)
    field.start(number, hang={"at": "before_commit", "after": 3}, config={"commit_timeout": 3.0})
    field.faults["commit hangs"] += 1
    field.wait_exits(ended + 1)
    if field.exits[-1][1] != EXIT_RESTART:
        raise Violation(f"a hanging commit should end with {EXIT_RESTART}, not {field.exits[-1]}")
    field.wait_progress(300)


add(
    Case(
        name="zombie",
        does=f"SIGSTOP for {FREEZE_S:g} s (session 6 s) amid a transaction, then SIGCONT",
        act=zombie,
        worker={"slow": {"produced": 0.05}},
        codes=frozenset({EXIT_CRASH}),
    )
)
add(Case(name="rolling-restarts", does="SIGTERM and start again, each worker twice; exit code 0", act=rolling))
add(
    Case(
        name="rebalance-storm",
        does=f"add, remove or kill a worker every {STORM_EVERY_S:g} s for {STORM_S:g} s",
        act=storm,
        # A member that is fenced by the member after it starts again.
        codes=frozenset({KILLED, EXIT_CRASH}),
        heal_s=120,
    )
)
add(Case(name="slow-member", does="one worker's agents sleep 0.5 s per batch", act=slow_member))
add(
    Case(
        name="transaction-timeout",
        does="a transaction is held open beyond its timeout, before and after its offsets are sent",
        act=transaction_timeout,
        config={"transaction_timeout": 5.0},
        codes=frozenset({EXIT_CRASH}),
    )
)
add(
    Case(
        name="commit-hangs",
        does="a commit does not return; exit 70 and a restart",
        act=hung_commit,
        codes=frozenset({EXIT_RESTART}),
    )
)
