"""No fault, and kill -9 at every step of a batch, of a replay and of giving partitions away."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Sequence

from streams.engine import FAILPOINTS

from ..case import KILLED, Act, Case, add
from ..field import Field

TIMES = 1
#: Steps that are not passed with each batch.
RARE = frozenset({"persisted", "revoked_midway"})


def watch(field: Field) -> None:
    """No fault: what a fault is compared with."""
    field.wait_progress(1000)


def kill_at(steps: Sequence[str], times: int = TIMES) -> Act:
    """Let every worker die at each of ``steps``, ``times`` over."""

    def act(field: Field) -> None:
        field.wait_progress(500)
        goal = len(field.exits) + (1 + len(steps) * times) * len(field.workers)
        for number in field.workers:
            turned = (*steps[number % len(steps) :], *steps[: number % len(steps)])
            field.lives[number] = deque(_life(field, step) for step in turned * times)
        for number in field.workers:
            field.kill(number)

        def all_died() -> bool:
            for number in field.workers:
                _ask_to_leave(field, number)
            return len(field.exits) >= goal

        field.wait("every worker has died at its steps", all_died, 180)
        for step in steps:
            field.faults[f"kill -9 at {step}"] += times * len(field.workers)

    return act


def _ask_to_leave(field: Field, number: int) -> None:
    """A worker that is to die while it gives partitions away may be the last one, to whom nobody comes any more."""
    die = field.current(number).get("die")
    if die and die["at"] == "revoked_midway" and field.cluster.said_now(number, ": restored"):
        field.cluster.workers[number].send_signal(signal.SIGTERM)


def _life(field: Field, step: str) -> dict[str, object]:
    if step == "restoring":
        return {"die": {"at": step, "after": 1}, "wiped": True}
    after = 1 if step in RARE else field.random.randint(2, 12)
    return {"die": {"at": step, "after": after}}


def kill_at_random(field: Field) -> None:
    """Kill whichever worker whenever."""
    for _ in range(6):
        field.wait_progress(field.random.randint(100, 900))
        field.kill(field.random.choice(field.workers))


def kill_all(field: Field) -> None:
    """Kill all at once, as a power cut of their machine would."""
    for _ in range(2):
        field.wait_progress(800)
        goal = len(field.exits) + len(field.workers)
        for number in field.workers:
            field.kill(number)
        field.wait_exits(goal)


add(Case(name="no-fault", does="nothing: the control", act=watch))
for _step in FAILPOINTS:
    add(
        Case(
            name=f"kill-at-{_step.replace('_', '-')}",
            does=f"kill -9 of each worker at step {_step}",
            act=kill_at([_step]),
            codes=frozenset({KILLED}),
        )
    )
add(
    Case(
        name="kill-at-every-step",
        does="kill -9 of each worker at every step, in another order each",
        act=kill_at(FAILPOINTS, times=1),
        codes=frozenset({KILLED}),
        # Replaced at once when it returns; a dynamic member only after its session.
        static=True,
    )
)
add(
    Case(
        name="kill-at-random",
        does="kill -9 of any worker at any time, six times",
        act=kill_at_random,
        codes=frozenset({KILLED}),
    )
)
add(Case(name="kill-all", does="kill -9 of all workers at once, twice", act=kill_all, codes=frozenset({KILLED})))
