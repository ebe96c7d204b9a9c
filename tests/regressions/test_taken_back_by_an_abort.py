"""A commit is answered before its markers are written. A broker died in between, a part never got its marker, and the
abort of the next transaction took it back: an output that nobody saw, or rows that only one local copy had."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.broker import Fault
from tests.engine.test_model import Model

#: The logs without a marker, as bits: a changelog, the other, the output.
TORN = range(1, 8)
ABORTED = [Fault("abort", "commit")]
KILLED = [Fault("kill", "before_commit")]


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model()
    yield made
    made.teardown()


def check(model: Model) -> None:
    assert not model.broker.harmed
    model.outputs_are_the_fold_of_what_is_processed_once_and_in_order()
    model.changelogs_are_the_tables_and_say_how_far()
    model.no_store_leads_and_each_is_a_fold()


@pytest.mark.parametrize("state", ["kept", "lost"])
@pytest.mark.parametrize("end", [ABORTED, KILLED], ids=["aborted", "killed and fenced"])
@pytest.mark.parametrize("torn", TORN)
def test_given_an_abort_over_parts_without_a_marker_then_the_next_start_has_them_all(
    model: Model, torn: int, end: list[Fault], state: str
) -> None:
    model.process(0, [([(b"a", b"twice"), (b"b", b"one")], 2, [])])
    model.process(0, [([(b"a", b"one"), (b"c", b"twice")], 2, [Fault(f"torn {torn}", "commit")])])
    model.process(0, [([(b"a", b"delete")], 1, end)])
    assert model.broker.harmed
    assert model.machines[0] is None, "the worker has ended"
    model.restart(0, state, True, None)
    check(model)
    model.process(0, [([(b"b", b"one")], 2, [])])
    check(model)
