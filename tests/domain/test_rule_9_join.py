"""Rule 9: joining the states of two media that were found to be the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st

from streams.domain.identity import event_id_hash
from streams.domain.join import join, moved_into
from streams.domain.playback import decide
from streams.domain.report import Report
from streams.domain.state import Merged, State
from tests.domain.given import RECEIVED, command, finish, given, progress
from tests.domain.strategies import reports


def told(media: str, stream: list[Report]) -> State:
    state: State | None = None
    for index, one in enumerate(stream):
        state = decide(state, replace(one, media=media, received_at=RECEIVED + index)).state
    return state if state is not None else State(user="ana", media=media)


states = st.builds(told, st.sampled_from(["a", "b", "c"]), st.lists(reports(), max_size=14))
grown = st.builds(
    lambda media, first, more: (told(media, first), told(media, first + more)),
    st.sampled_from(["a", "b"]),
    st.lists(reports(), max_size=8),
    st.lists(reports(), max_size=8),
)


@settings(max_examples=60, deadline=None)
@given_any(states, states)
def test_join_is_commutative(a: State, b: State) -> None:
    assert join(a, b) == join(b, a)


@settings(max_examples=60, deadline=None)
@given_any(states, states, states)
def test_join_is_associative(a: State, b: State, c: State) -> None:
    assert join(join(a, b), c) == join(a, join(b, c))


@settings(max_examples=60, deadline=None)
@given_any(states, states)
def test_join_is_idempotent(a: State, b: State) -> None:
    joined = join(a, b)
    assert join(a, a) == a
    assert join(joined, a) == join(joined, b) == join(joined, joined) == joined


@settings(max_examples=50, deadline=None)
@given_any(grown, states)
def test_join_adds_only_what_was_not_added_yet(pair: tuple[State, State], other: State) -> None:
    before, after = pair
    if other.media == before.media:
        other = replace(other, media="z")
    again = join(join(before, other), after)
    assert again.play_count == after.play_count + other.play_count
    assert again.listened_ms == after.listened_ms + other.listened_ms


@settings(max_examples=50, deadline=None)
@given_any(states, states, st.lists(reports(), min_size=1, max_size=10))
def test_joined_state_can_be_decided_on(a: State, b: State, stream: list[Report]) -> None:
    state: State | None = join(a, b)
    for index, one in enumerate(stream):
        decision = decide(state, replace(one, media="a", received_at=RECEIVED + 100 + index))
        state = decision.state
        assert state is not None
        if decision.verdict not in ("duplicate", "rejected"):
            assert len(state.sessions) <= max(8, 1)


def state_of(*stream: Report, media: str) -> State:
    return told(media, list(stream))


def test_newer_state_gives_position_phase_epoch_and_current() -> None:
    old = state_of(progress(3000, at=0, event_id="1"), media="a")
    new = state_of(progress(600, at=60, run="phone", event_id="2"), media="b")
    joined = join(old, new)
    assert (joined.media, joined.position_ms, joined.session_id) == ("a", 600_000, "phone")
    assert joined.event_time == new.event_time


def test_played_is_or_and_counts_add_up_once() -> None:
    a = state_of(progress(600, at=60, listened_ms=5000), media="a")
    b = state_of(finish(7200, listened_ms=7000), media="b")
    joined = join(a, b)
    assert (joined.played, joined.play_count, joined.listened_ms) == (True, 1, 12_000)
    assert joined.merged_from == (Merged("b", 1, 7000),)
    more = state_of(finish(7200, listened_ms=7000), command("mark_unplayed", at=9), finish(7200, at=20), media="b")
    assert join(joined, more).play_count == 2


def test_ids_and_windows_unite() -> None:
    a = state_of(progress(600, seq=1, event_id="1"), progress(610, at=10, seq=3, event_id="3"), media="a")
    b = state_of(progress(600, seq=2, event_id="2"), media="b")
    story = given().when()
    state = join(a, b)
    for seq, event_id in ((1, "x"), (2, "y"), (3, "z"), (9, "2"), (9, "1")):
        assert decide(state, progress(700, at=90, seq=seq, event_id=event_id)).verdict == "duplicate"
    assert decide(state, progress(700, at=90, seq=4, event_id="4")).verdict == "accepted"
    assert story.state is None


def test_ids_of_the_older_state_leave_one_by_one() -> None:
    a = state_of(progress(600, event_id="old"), media="a")
    b = state_of(progress(600, at=9, event_id="new"), media="b")
    joined = join(a, b)
    assert joined.merged_ids == (event_id_hash("home", "old"),)
    after = decide(joined, progress(610, at=20, event_id="next")).state
    assert after is not None
    assert after.merged_ids == ()
    assert len(after.event_ids) == 2


def test_states_of_two_people_are_never_joined() -> None:
    with pytest.raises(ValueError, match="two people"):
        join(State(user="ana", media="a"), State(user="ben", media="a"))


def test_what_stays_under_the_old_key_tells_only_where_it_went() -> None:
    old = state_of(finish(7200), media="b")
    left = moved_into(old, "a")
    assert left == State(user="ana", media="b", merged_into="a")
    assert join(join(old, State(user="ana", media="a")), left).play_count == 1


@settings(max_examples=60, deadline=None)
@given_any(states, states, states, st.sampled_from(["a", "b", "z"]))
def test_join_into_a_named_survivor_has_the_same_algebra(a: State, b: State, c: State, survivor: str) -> None:
    joined = join(a, b, survivor)
    assert joined == join(b, a, survivor)
    assert join(joined, c, survivor) == join(a, join(b, c, survivor), survivor)
    assert join(joined, a, survivor) == join(joined, joined, survivor) == joined
    assert joined.media == survivor
    assert survivor not in {taken.media for taken in joined.merged_from}


def test_survivor_may_have_the_larger_id_or_no_state_yet() -> None:
    ended = state_of(progress(600, at=60, listened_ms=5000), media="a")
    survivor = state_of(finish(7200, listened_ms=7000), media="b")
    joined = join(ended, survivor, "b")
    assert (joined.media, joined.play_count, joined.listened_ms) == ("b", 1, 12_000)
    assert joined.merged_from == (Merged("a", 0, 5000),)
    alone = join(State(user="ana", media="b"), ended, "b")
    assert (alone.media, alone.position_ms, alone.merged_from) == ("b", 600_000, (Merged("a", 0, 5000),))


def test_what_a_survivor_took_in_follows_it_when_it_ends_itself() -> None:
    a = state_of(finish(7200, listened_ms=1000), media="a")
    b = state_of(progress(600, at=60, listened_ms=2000), media="b")
    c = state_of(finish(7200, at=90, listened_ms=4000), media="c")
    joined = join(c, join(b, a, "b"), "c")
    assert joined.merged_from == (Merged("a", 1, 1000), Merged("b", 0, 2000))
    assert (joined.play_count, joined.listened_ms) == (2, 7000)
