"""The state's shape: what is shown, and that drafts are true copies."""

from __future__ import annotations

from dataclasses import fields

from streams.domain.draft import Draft, SessionDraft
from streams.domain.state import Pending, Session, State, shown
from tests.domain.given import given, progress, start


def names(kind: type) -> list[str]:
    return [field.name for field in fields(kind)]


def test_drafts_have_the_fields_of_what_they_are_thawed_from() -> None:
    assert names(Draft) == names(State)
    assert names(SessionDraft) == names(Session)


def test_thaw_and_freeze_lose_nothing() -> None:
    story = given(progress(2400, seq=1, listened_ms=5), progress(4000, at=-60, run="web"), start(0, at=60, run="phone"))
    state = story.state
    assert state is not None
    assert state.pending is not None
    assert state.conflict is not None
    assert Draft.thaw(state).freeze() == state
    assert all(SessionDraft.thaw(session).freeze() == session for session in state.sessions)


def test_shown_fields_are_those_of_the_command_in_their_order() -> None:
    assert " ".join(shown(State(user="ana", media="m"))) == (
        "user media epoch phase position_ms resume_position_ms duration_ms played play_count listened_ms event_time "
        "session_id device_id pending conflict"
    )
    story = given(progress(2400), progress(4000, at=-60, run="web"), start(0, at=60, run="phone"))
    assert " ".join(story.shown["pending"]) == "session_id device_id from_position_ms position_ms event_time"
    assert set(story.shown["conflict"]) == {"device_id", "session_id", "position_ms", "event_time"}


def test_state_holds_plain_values_for_others_to_serialise() -> None:
    state = given(progress(2400, media_kind="video"), start(0, at=60, run="phone")).state
    assert state is not None
    values = [getattr(part, name) for part in (state, *state.sessions) for name in names(type(part))]
    assert {type(value) for value in values if not isinstance(value, tuple)} <= {int, str, bool, type(None), Pending}
