"""No fault, and kill -9 at every step of a batch, of a replay and of giving partitions away."""

from __future__ import annotations

import signal
from collections import deque

from streams.engine import FAILPOINTS

from ..case import KILLED, Act, Case, add
from ..field import Field

#: Steps that are not passed with each batch.
RARE = frozenset({"persisted", "revoked_midway"})


def watch(field: Field) -> None:
    """No fault: what a fault is compared with."""
    field.wait_progress(1000)


def kill_at(step: str) -> Act:
    """Let every worker die at ``step``."""

    def act(field: Field) -> None:
        _die(field, {number: [step] for number in field.workers})

    return act


def kill_at_every_step(field: Field) -> None:
    """Share the steps out among the workers; each dies at one after the other."""
    workers = len(field.workers)
    _die(field, {number: list(FAILPOINTS[at::workers]) for at, number in enumerate(field.workers)})


def _die(field: Field, steps: dict[int, list[str]]) -> None:
    """Kill each worker once, then let it die at its steps, a life each."""
    field.wait_progress(500)
    goal = len(field.exits) + sum(1 + len(mine) for mine in steps.values())
    for number, mine in steps.items():
        field.lives[number] = deque(_life(field, step) for step in mine)
    for number in steps:
        field.kill(number)

    def all_died() -> bool:
        for number in steps:
            _ask_to_leave(field, number)
        return len(field.exits) >= goal

    field.wait("every worker has died at its steps", all_died, 180)
    field.faults.update(f"kill -9 at {step}" for mine in steps.values() for step in mine)


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
            act=kill_at(_step),
            codes=frozenset({KILLED}),
        )
    )
add(
    Case(
        name="kill-at-every-step",
        does="kill -9 at every step, the steps shared out among the workers",
        act=kill_at_every_step,
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
