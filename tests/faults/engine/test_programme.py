"""A part of the programme for every run of the tests (``make faults`` runs all of it), and the oracle on real logs.

A case fails with the seed that repeats it: ``python -m tests.faults.engine --case NAME --seed N``.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.local.unprivileged import temporary_folder
from tests.faults.engine import cases as _registered  # noqa: F401  importing registers them
from tests.faults.engine.__main__ import chosen, parse
from tests.faults.engine.case import CASES, KILLED, Case
from tests.faults.engine.field import Field
from tests.faults.engine.programme import Result, Scale, arena, run

pytestmark = [pytest.mark.services, pytest.mark.faults, pytest.mark.timeout(240)]

#: The control, one of each kind, and what nothing else in the tests covers.
SUBSET = (
    "no-fault",
    "kill-at-before-commit",
    "kill-at-committed",
    "zombie",
    "state-tables-flipped",
    "poison-flood",
)
SMALL = Scale(records=4_000, rate=500, seed=int(time.time()) % 100_000, patience=2.0)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Local stores of many workers; deleted also by those whose temporary folders are kept."""
    made = temporary_folder("engine-faults-")
    yield made
    shutil.rmtree(made, ignore_errors=True)


def assert_holds(result: Result) -> None:
    assert result.violations == [], f"--case {result.case} --seed {SMALL.seed}\n" + "\n".join(result.violations)
    assert result.records >= SMALL.records
    assert result.verdict.inputs >= result.records - result.unknown


@pytest.mark.parametrize("name", SUBSET)
def test_given_the_fault_then_the_oracle_holds(name: str, kafka_bootstrap: str, folder: Path) -> None:
    case = CASES[name]
    assert not case.brokers
    with arena(case, kafka_bootstrap, folder, SMALL, None) as field:
        assert_holds(run(case, field))


def kill_all(field: Field) -> None:
    """What shows a mutant: kill every worker amid its work."""
    field.wait_progress(1200)
    for number in field.workers:
        field.kill(number)
    field.wait_exits(len(field.workers))
    field.wait_progress(500)


@pytest.mark.parametrize(
    ("mutant", "rows"),
    [
        ("store_before_commit", {"nothing_is_lost", "tables_are_the_fold"}),
        ("repeat_output", {"no_effect_is_doubled"}),
    ],
)
def test_given_a_broken_engine_then_the_oracle_objects(
    mutant: str, rows: set[str], kafka_bootstrap: str, folder: Path
) -> None:
    # Trusting the group lets an engine without its replay start at all; it would be refused as contradicting.
    case = Case(
        name=f"mutant-{mutant.replace('_', '-')}",
        does="an engine broken on purpose",
        act=kill_all,
        worker={"mutant": mutant},
        config={"trust_group_offsets": True},
        codes=frozenset({KILLED}),
        static=True,
    )
    with arena(case, kafka_bootstrap, folder, SMALL, None) as field:
        result = run(case, field)
    assert rows <= result.verdict.findings.keys(), result.violations


def test_the_first_case_is_the_control_on_any_number_of_brokers() -> None:
    for brokers in ("1", "3"):
        names = [case.name for case in chosen(parse(["--brokers", brokers]))]
        assert names[0] == "no-fault"
        assert ("coordinator-moved" in names) == (brokers == "3")
    assert set(SUBSET) <= CASES.keys()
