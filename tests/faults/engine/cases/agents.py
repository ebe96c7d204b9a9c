"""Agents and records that fail: exceptions at random, an agent that returns, poison below and beyond the limit."""

from __future__ import annotations

from streams.engine import EXIT_CRASH, EXIT_REFUSED

from ..case import Case, add
from ..field import START_S, Field, Violation


def raising(field: Field) -> None:
    """An agent's own bug, at random records."""
    _fail(field, "agent_raises_at", times=4)


def returning(field: Field) -> None:
    """An agent that leaves its loop: nobody would notice, had it not to end the worker."""
    _fail(field, "agent_returns_at", times=2)


def _fail(field: Field, how: str, times: int) -> None:
    for _ in range(times):
        number = field.random.choice(field.workers)
        field.stop(number)
        ended = len(field.exits)
        field.start(number, **{how: field.random.randint(20, 200)})
        field.faults[how.removesuffix("_at").replace("_", " ")] += 1
        field.wait_exits(ended + 1)
        if field.exits[-1][1] != EXIT_CRASH:
            raise Violation(f"{how}: exit code {field.exits[-1][1]} instead of {EXIT_CRASH}")


def flood(field: Field) -> None:
    """Poison without end: workers refuse, nothing of the batch is committed; told to accept it, they go on."""
    field.expect_refusals = True
    field.load.burst(4_000, poison=1.0)
    field.faults["poison burst"] += 1
    field.wait("a worker refuses the flood", lambda: field.deaths(EXIT_REFUSED) > 0, START_S)
    number = next(number for number, code in field.exits if code == EXIT_REFUSED)
    words = field.cluster.last_words(number)
    if "dead letters" not in words:
        raise Violation(f"refused without naming the dead letters:\n{field.cluster.epitaph(number)}")
    field.faults["refused"] += 1
    field.stop_all()
    field.expect_refusals = False
    for number in field.workers:
        field.start(number, config={"flood_run": 1_000_000, "flood_share": 1.0})


add(
    Case(
        name="agent-raises",
        does="an agent raises at a random record, four times",
        act=raising,
        codes=frozenset({EXIT_CRASH}),
    )
)
add(Case(name="agent-returns", does="an agent leaves its loop, twice", act=returning, codes=frozenset({EXIT_CRASH})))
add(
    Case(
        name="poison-flood",
        does="a burst of poison: exit 78; then accepted by raised limits",
        act=flood,
        codes=frozenset({EXIT_REFUSED}),
        poison=0.02,
    )
)
