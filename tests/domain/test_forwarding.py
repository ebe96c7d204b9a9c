"""What is written to a server, by what it has: the rules alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.domain.forwarding import (
    PLAYED,
    SENT_MAX,
    SLACK_MS,
    UNPLAYED,
    Change,
    Has,
    Place,
    Play,
    Step,
    Wanted,
    after,
    is_kept,
    lasting,
    sent_mark,
    step,
)

T = 1_796_000_000_000
MINUTE = 60_000


def at(position_ms: int, event_time: int = T, **more: object) -> Wanted:
    return replace(Wanted("at", position_ms, event_time), **more)  # type: ignore[arg-type]


def test_a_server_that_has_nothing_is_told() -> None:
    assert step(at(10 * MINUTE), Has()) == Step("written", Change(T, 10 * MINUTE))


def test_a_server_that_has_it_is_not_told_again() -> None:
    assert step(at(10 * MINUTE), Has(position_ms=10 * MINUTE + 999, at=T - 1)) == Step("same")


@pytest.mark.parametrize("there", [5 * MINUTE, 20 * MINUTE])
def test_what_is_newer_there_is_kept_further_or_not(there: int) -> None:
    assert step(at(10 * MINUTE), Has(position_ms=there, at=T + 1)).outcome == "kept"
    assert step(at(10 * MINUTE), Has(position_ms=there, at=T - 1)).change == Change(T, 10 * MINUTE)


def test_without_a_time_a_position_only_goes_forward() -> None:
    assert step(at(10 * MINUTE), Has(position_ms=20 * MINUTE)).outcome == "kept"
    assert step(at(10 * MINUTE), Has(position_ms=5 * MINUTE)).outcome == "written"


def test_what_was_written_by_us_gives_way_whatever_time_the_server_gave_it() -> None:
    has = Has(position_ms=20 * MINUTE, at=T + MINUTE)
    assert step(at(10 * MINUTE), has).outcome == "kept"
    assert step(at(10 * MINUTE, sent=(20 * MINUTE,)), has).outcome == "written"
    assert step(at(10 * MINUTE, sent=(PLAYED,)), has).outcome == "kept"
    finished = Has(played=True, at=T + MINUTE)
    assert step(at(10 * MINUTE, sent=(PLAYED,)), finished).change == Change(T, 10 * MINUTE, played=False)


def test_what_the_server_itself_moved_since_is_not_of_us() -> None:
    assert step(Wanted("none", 0, T, sent=(20 * MINUTE,)), Has(position_ms=30 * MINUTE)) == Step("nothing")


def test_finished_there_is_finished_and_in_progress_there_is_ended() -> None:
    finished = Wanted("finished", 0, T)
    assert step(finished, Has(played=True, at=T - 1)).outcome == "same"
    assert step(finished, Has(position_ms=MINUTE * 9, at=T - 1)).change == Change(T, played=True)
    assert step(finished, Has(position_ms=MINUTE * 9, at=T + 1)).outcome == "kept"
    # A server that knows no such thing loses its place to resume.
    assert step(finished, Has(position_ms=MINUTE * 9, at=T - 1, keeps_played=False)).change == Change(T, 0)


def test_a_place_in_another_cut_is_no_place_but_its_end_is_the_end() -> None:
    other = Has(duration_ms=150 * MINUTE)
    assert step(at(10 * MINUTE, duration_ms=120 * MINUTE), other).outcome == "nothing"
    assert step(at(10 * MINUTE, duration_ms=149 * MINUTE), other).outcome == "written"
    assert step(Wanted("finished", 0, T, 120 * MINUTE), other).outcome == "written"


def test_a_play_is_told_unless_the_server_shows_it() -> None:
    play = Play(T)
    wanted = Wanted("none", 0, T, plays=(play,))
    assert step(wanted, Has(play_count=3, last_play_at=T - MINUTE)).change == Change(T, plays=(play,))
    assert step(wanted, Has(play_count=3, last_play_at=T + MINUTE)).change == Change(T, plays=(play,)), "an older one"
    assert step(wanted, Has(play_count=3, last_play_at=T // 1000 * 1000)) == Step("nothing", told=(play,))
    assert step(wanted, Has(play_count=None)) == Step("nothing", told=(play,)), "it counts none"


def test_a_play_that_was_tried_is_told_when_the_server_shows_one_at_or_after_it() -> None:
    play = Play(T, tried=True)
    wanted = Wanted("none", 0, T, plays=(play,))
    assert step(wanted, Has(play_count=1, last_play_at=T + MINUTE)).change is None
    assert step(wanted, Has(play_count=1, last_play_at=T - MINUTE)).change == Change(T, plays=(play,))
    assert step(wanted, Has(play_count=0)).change == Change(T, plays=(play,))
    assert step(wanted, Has(play_count=0, counted_s=frozenset({T // 1000}))).change is None


positions = st.integers(0, 120 * MINUTE)
times = st.integers(T - 10 * MINUTE, T + 10 * MINUTE)


def possible(has: Has) -> Has:
    """What is finished has no place to resume, and who keeps nothing of it says nothing."""
    has = replace(has, played=has.played and has.keeps_played)
    return replace(has, position_ms=0) if has.played else has


servers = st.builds(
    Has, position_ms=positions, played=st.booleans(), at=st.none() | times, keeps_played=st.booleans()
).map(possible)
places: st.SearchStrategy[Place] = st.sampled_from(["at", "finished", "unplayed", "none"])
wishes = st.builds(
    Wanted,
    place=places,
    position_ms=positions,
    event_time=times,
    sent=st.lists(st.sampled_from([PLAYED, UNPLAYED]) | positions, max_size=3).map(tuple),
)


@given(wishes, servers)
def test_what_was_written_once_is_not_written_again(wanted: Wanted, has: Has) -> None:
    change = step(wanted, has).change
    if change is None:
        return
    kept = after(has, change)
    again = step(replace(wanted, sent=tuple(lasting(wanted.sent, sent_mark(change)))), kept)
    assert again.outcome == "same", (change, kept)
    assert is_kept(kept, kept)


@given(wishes, servers)
def test_nothing_of_a_servers_own_that_is_newer_is_ever_written_over(wanted: Wanted, has: Has) -> None:
    if has.at is not None and has.at >= wanted.event_time and not wanted.sent:
        change = step(wanted, has).change
        assert change is None, change


@given(wishes.map(lambda wanted: replace(wanted, sent=())), servers.map(lambda has: replace(has, at=None)))
def test_without_times_nothing_goes_back(wanted: Wanted, has: Has) -> None:
    change = step(wanted, has).change
    if change is not None and wanted.place == "at" and change.position_ms is not None:
        assert change.position_ms > has.position_ms
        assert not has.played


def test_what_was_sent_is_kept_newest_first_and_bounded() -> None:
    sent: list[int] = []
    for number in range(20):
        sent = lasting(sent, number * MINUTE)
    assert sent[0] == 19 * MINUTE
    assert len(sent) == SENT_MAX
    assert lasting(sent, None) == sent
    assert lasting([3, 2, 1], 1) == [1, 3, 2]
    assert SLACK_MS < MINUTE
