"""The listed properties over any reports in any interleaving."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st

from streams.domain.playback import decide
from streams.domain.policy import FURTHEST, PLAYTHROUGH, Policy
from streams.domain.report import Report
from streams.domain.state import State, shown
from streams.domain.words import Verdict
from tests.domain.given import RECEIVED
from tests.domain.invariants import check
from tests.domain.strategies import reports

policies = st.sampled_from([PLAYTHROUGH, FURTHEST])


def arriving(reports: list[Report]) -> list[Report]:
    """The same reports received one after the other, long after they happened: no clock is in doubt."""
    return [replace(one, received_at=RECEIVED + 1000 * index) for index, one in enumerate(reports)]


def told(reports: list[Report], policy: Policy = PLAYTHROUGH) -> State | None:
    """The state after all of them, every step checked."""
    state = None
    plays: Counter[int] = Counter()
    for one in reports:
        decision = decide(state, one, policy)
        check(state, one, decision)
        assert decide(state, one, policy) == decision
        if decision.play_epoch is not None:
            plays[decision.play_epoch] += 1
        state = decision.state
    assert max(plays.values(), default=0) <= 1
    return state


@settings(max_examples=200, deadline=None)
@given_any(st.lists(reports(), max_size=40), policies)
def test_every_step_keeps_the_properties(stream: list[Report], policy: Policy) -> None:
    told(arriving(stream), policy)


@settings(max_examples=150, deadline=None)
@given_any(
    st.lists(reports(), max_size=30), policies, st.lists(st.integers(-(10**12), 10**13), min_size=30, max_size=30)
)
def test_every_step_keeps_the_properties_with_any_clock(
    stream: list[Report], policy: Policy, clocks: list[int]
) -> None:
    told([replace(one, received_at=clock) for one, clock in zip(stream, clocks, strict=False)], policy)


@settings(max_examples=200, deadline=None)
@given_any(st.lists(reports(), min_size=1, max_size=40), st.data())
def test_replaying_what_was_seen_changes_nothing(stream: list[Report], data: st.DataObject) -> None:
    stream = arriving(stream)
    state = told(stream)
    for one in data.draw(st.lists(st.sampled_from(stream), max_size=20)):
        later = replace(one, received_at=one.received_at + 3_600_000)
        decision = decide(state, later)
        assert decision.verdict in (Verdict.DUPLICATE, Verdict.IGNORED)
        assert decision.state == state


@settings(max_examples=100, deadline=None)
@given_any(st.lists(reports(), min_size=1, max_size=30))
def test_two_users_and_two_media_never_touch_each_other(stream: list[Report]) -> None:
    stream = arriving(stream)
    states: dict[tuple[str, str], State | None] = {}
    for one in stream:
        for user, media in (("ana", "m"), ("ben", "m"), ("ana", "n")):
            theirs = replace(one, user=user, media=media)
            states[user, media] = decide(states.get((user, media)), theirs).state
    anas = states["ana", "m"]
    assert anas == told(stream)
    assert anas is not None
    for (user, media), state in states.items():
        assert state is not None
        assert shown(state) | {"user": user, "media": media} == shown(state)
        assert shown(state) | {"user": "ana", "media": "m"} == shown(anas)
