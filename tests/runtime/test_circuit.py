"""The circuit breaker."""

from __future__ import annotations

from streams.runtime.circuit import Circuit
from streams.runtime.clock import FakeClock


def broken(clock: FakeClock) -> Circuit:
    circuit = Circuit("thing", clock, rest_s=2.0)
    assert circuit.enter()
    circuit.failed()
    return circuit


def test_while_all_is_well_everybody_enters() -> None:
    circuit = Circuit("thing", FakeClock(), rest_s=2.0)
    assert circuit.enter()
    assert circuit.enter()
    assert not circuit.is_open


def test_after_a_failure_nobody_enters_until_the_rest_is_over() -> None:
    clock = FakeClock()
    circuit = broken(clock)
    assert not circuit.enter()
    assert circuit.retry_after_s == 2
    clock.advance(1_999)
    assert not circuit.enter()
    assert circuit.retry_after_s == 1


def test_then_one_tries_and_its_success_lets_all_in() -> None:
    clock = FakeClock()
    circuit = broken(clock)
    clock.advance(2_000)
    assert circuit.enter()
    assert not circuit.enter()
    circuit.succeeded()
    assert circuit.enter()
    assert circuit.enter()


def test_then_one_tries_and_its_failure_begins_another_rest() -> None:
    clock = FakeClock()
    circuit = broken(clock)
    clock.advance(2_000)
    assert circuit.enter()
    circuit.failed()
    clock.advance(1_999)
    assert not circuit.enter()
    clock.advance(1)
    assert circuit.enter()


def test_a_trial_that_was_given_up_lets_the_next_one_try() -> None:
    clock = FakeClock()
    circuit = broken(clock)
    clock.advance(2_000)
    assert circuit.enter()
    circuit.abandoned()
    assert circuit.enter()
    assert circuit.is_open
