from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.engine.errors import EXIT_REFUSED, FloodError, exit_code
from streams.engine.flood import FloodGuard


def trips(guard: FloodGuard, outcomes: list[bool]) -> bool:
    dead = [place for place, bad in enumerate(outcomes) if bad]
    try:
        guard.check(dead)
    except FloodError:
        return True
    guard.count(len(outcomes), dead)
    return False


@settings(deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=15), max_size=30))
def test_given_any_batches_then_it_trips_exactly_when_a_plain_count_does(batches: list[list[bool]]) -> None:
    guard = FloodGuard(run=4, share=0.3, window=20)
    history: list[bool] = []
    for outcomes in batches:
        expected = False
        trial = list(history)
        for bad in outcomes:
            trial.append(bad)
            run = next((n for n, before in enumerate(reversed(trial)) if not before), len(trial))
            expected = expected or (bad and (run >= 4 or sum(trial[-20:]) >= 6))
        assert trips(guard, outcomes) is expected
        if expected:
            return
        history = trial


def test_given_the_default_limits_then_100_in_a_row_or_100_of_1000_stop() -> None:
    assert trips(FloodGuard(100, 0.1, 1000), [True] * 100)
    assert not trips(FloodGuard(100, 0.1, 1000), [True] * 99)
    spread = FloodGuard(100, 0.1, 1000)
    assert not any(trips(spread, [True] + [False] * 10) for _ in range(500))
    assert any(trips(FloodGuard(100, 0.1, 1000), ([True] + [False] * 8) * 100) for _ in range(1))


def test_given_a_batch_that_was_only_checked_then_it_does_not_count() -> None:
    guard = FloodGuard(run=3, share=1.0, window=100)
    guard.check([0, 1])
    guard.check([0, 1])
    guard.count(2, [0, 1])
    with pytest.raises(FloodError, match="in a row"):
        guard.check([0])


def test_given_a_flood_then_the_exit_code_asks_for_an_operator() -> None:
    assert exit_code(FloodError("x")) == EXIT_REFUSED


def test_given_a_flood_then_it_says_how_many_which_and_what_to_do() -> None:
    guard = FloodGuard(2, 1.0, 100)
    with pytest.raises(FloodError, match=r"2 dead letters in a row.*One of the last is t\[0\]@7: bad.*before starting"):
        guard.check([0, 1], "t[0]@7: bad")
