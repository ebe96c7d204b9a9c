"""What follows from a failed attempt: by the type of the error, with the chance handed in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.effects.retry import Again, Crash, GiveUp, RetryPolicy, after
from streams.runtime.database import DatabaseAway
from streams.runtime.errors import ConfigurationError, Fatal, Permanent, Transient, Unavailable
from streams.upstream.errors import CredentialsRefused, UpstreamAway

POLICY = RetryPolicy()


def longest(low: float, high: float) -> float:
    del low
    return high


def shortest(low: float, high: float) -> float:
    del high
    return low


def test_pauses_double_from_2_s_to_5_minutes_and_the_eighth_failure_is_the_last() -> None:
    pauses = [after(Transient("x"), attempt, POLICY, longest) for attempt in range(1, 9)]
    assert pauses == [*(Again(2.0 * 2**n) for n in range(7)), GiveUp()]
    assert RetryPolicy(attempts=20).longest_pause_s(12) == 300.0


def test_of_a_pause_any_part_may_be_waited() -> None:
    asked: list[tuple[float, float]] = []

    def chance(low: float, high: float) -> float:
        asked.append((low, high))
        return 1.25

    assert after(Transient("x"), 3, POLICY, chance) == Again(1.25)
    assert asked == [(0.0, 8.0)]


@given(attempt=st.integers(1, 7), share=st.floats(0, 1))
def test_a_pause_is_never_longer_than_its_bound(attempt: int, share: float) -> None:
    found = after(Transient("x"), attempt, POLICY, lambda low, high: low + share * (high - low))
    assert isinstance(found, Again)
    assert 0 <= found.in_s <= min(300.0, 2.0**attempt)


def test_a_media_server_that_says_when_is_not_asked_before_and_not_waited_for_ever() -> None:
    assert after(UpstreamAway("x", retry_after_s=60.0), 1, POLICY, shortest) == Again(60.0)
    assert after(UpstreamAway("x", retry_after_s=9_999.0), 1, POLICY, shortest) == Again(300.0)
    assert after(UpstreamAway("x"), 1, POLICY, shortest) == Again(0.0)


@pytest.mark.parametrize("error", [DatabaseAway("x"), Unavailable("x", retry_after_s=100)])
def test_what_a_dependency_tells_callers_outside_is_no_pause_for_us(error: Exception) -> None:
    assert after(error, 1, POLICY, shortest) == Again(0.0)


@pytest.mark.parametrize(
    "error",
    [Permanent("x", cause="other"), ConfigurationError("x"), CredentialsRefused("x")],
    ids=lambda e: type(e).__name__,
)
def test_what_will_fail_every_time_is_given_up_at_once(error: Exception) -> None:
    assert after(error, 1, POLICY, longest) == GiveUp()


@pytest.mark.parametrize("error", [ValueError("x"), Fatal("x"), AssertionError()], ids=lambda e: type(e).__name__)
def test_what_nobody_foresaw_ends_the_process(error: Exception) -> None:
    assert after(error, 1, POLICY, longest) == Crash()
