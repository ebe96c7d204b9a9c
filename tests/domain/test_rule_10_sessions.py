"""Rule 10: at most 8 sessions, and what happens to the 9th."""

from __future__ import annotations

from streams.domain.identity import session_key
from streams.domain.state import State
from tests.domain.given import NOON, Story, given, progress, start


def eight(**more: int) -> Story:
    """Sessions s0 to s7, one a minute, each further; s7 is current."""
    return given(*(progress(600 + 60 * i, at=60 * i, run=f"s{i}", **more) for i in range(8)))


def kept(state: State | None) -> set[str]:
    assert state is not None
    names = {session_key("home", f"s{i}", None): f"s{i}" for i in range(-1, 20)}
    return {names[session.key] for session in state.sessions}


def test_9th_session_evicts_the_one_with_the_oldest_event_time() -> None:
    story = eight().when(progress(1200, at=600, run="s8")).then("accepted")
    assert kept(story.state) == {f"s{i}" for i in range(1, 9)}
    assert story.state is not None
    assert story.state.evicted_before == NOON


def test_current_session_is_never_evicted() -> None:
    story = given(progress(6000, at=1000, run="s0"))
    story = story.when(*(progress(60, at=1001 + i, run=f"s{i}") for i in range(1, 12)))
    assert "s0" in kept(story.state)
    assert story.shown["session_id"] == "s0"


def test_pending_session_is_never_evicted() -> None:
    story = eight().when(start(0, at=900, run="s9")).then("pending")
    story = story.when(*(progress(1100, at=800 + i, run=f"s{10 + i}", automated=True) for i in range(9)))
    assert "s9" in kept(story.state)


def test_late_report_of_an_unknown_session_older_than_all_kept_is_not_stored() -> None:
    story = eight().when(progress(500, at=-60, run="s9", listened_ms=9000)).then("late", listened_ms=0)
    assert kept(story.state) == {f"s{i}" for i in range(8)}
    assert story.state is not None
    assert story.state.evicted_before is None


def test_late_report_of_an_unknown_session_is_stored_while_there_is_room() -> None:
    story = given(progress(600), progress(500, at=-60, run="s9", listened_ms=9000)).then("late", listened_ms=9000)
    story.when(progress(510, at=-50, run="s9", listened_ms=10_000)).then("late", listened_ms=10_000)


def test_unknown_session_that_may_have_been_evicted_adds_no_listening() -> None:
    story = eight(listened_ms=1000).when(progress(1200, at=600, run="s8")).then("accepted", listened_ms=8000)
    story = story.when(progress(1300, at=700, run="s9")).then("accepted", listened_ms=8000)
    story.when(progress(600, at=60, run="s1", event_id="again", listened_ms=1000)).then("late", listened_ms=8000)


def test_known_session_goes_on_adding_whatever_was_evicted() -> None:
    story = eight(listened_ms=1000).when(progress(1200, at=600, run="s8")).then("accepted", listened_ms=8000)
    story.when(progress(500, at=-5, run="s1", listened_ms=3000)).then("late", listened_ms=10_000)
