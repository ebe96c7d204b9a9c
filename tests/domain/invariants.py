"""What must hold of every single decision, whatever came before: the listed properties, step by step."""

from __future__ import annotations

from typing import Any

from streams.domain.identity import session_key
from streams.domain.limits import EVENT_IDS_MAX, POSITION_MS_MAX, SESSIONS_MAX
from streams.domain.playback import Decision
from streams.domain.policy import near_start
from streams.domain.report import Report
from streams.domain.state import State, shown
from streams.domain.words import COMMANDS, Note, Phase, Verdict

LATE_MAY_CHANGE = {"listened_ms", "played", "play_count", "conflict"}


def check(before: State | None, report: Report, decision: Decision) -> None:
    """Raise AssertionError when this decision breaks a property."""
    after = decision.state
    if decision.verdict in (Verdict.REJECTED, Verdict.DUPLICATE):
        assert after is before
        return
    assert after is not None
    old = before if before is not None else State(user=report.user, media=report.media)
    changed = _changed(old, after)
    repaired = Note.CLOCK_REPAIRED in decision.notes
    assert after.event_time >= old.event_time or repaired
    assert after.listened_ms - old.listened_ms == decision.listened_added_ms >= 0
    assert after.play_count - old.play_count == int(decision.play_counted)
    assert (decision.play_epoch is not None) == decision.play_counted
    _check_shape(after)
    _check_position(old, report, decision, after)
    if repaired:
        return
    match decision.verdict:
        case Verdict.LATE:
            finished = {"phase"} if after.phase == Phase.FINISHED and report.kind not in COMMANDS else set()
            resume = {"resume_position_ms"} if finished else set()
            assert changed <= LATE_MAY_CHANGE | finished | resume
        case Verdict.PENDING:
            assert changed <= {"pending", "listened_ms", "played", "play_count"}
        case Verdict.IGNORED:
            assert changed <= {"pending", "listened_ms"}
            assert not decision.play_counted
        case _:
            assert decision.verdict is Verdict.ACCEPTED
            assert decision.reason is None


def _changed(old: State, after: State) -> set[str]:
    a, b = shown(old), shown(after)
    return {name for name in a if a[name] != b[name]}


def _check_shape(after: State) -> None:
    assert len(after.sessions) <= SESSIONS_MAX
    assert len({session.key for session in after.sessions}) == len(after.sessions)
    assert len(after.event_ids) <= EVENT_IDS_MAX
    assert len(set(after.event_ids)) == len(after.event_ids)
    assert 0 <= after.position_ms <= POSITION_MS_MAX
    assert after.duration_ms is None or after.duration_ms > 0
    keys = {session.key for session in after.sessions}
    assert after.current_key is None or after.current_key in keys
    assert after.pending is None or after.pending.key in keys
    assert after.conflict is None or after.conflict.position_ms > after.position_ms
    assert (after.current_key is None) <= (after.session_id is None and after.device_id is None)
    resume = after.resume_position_ms
    assert resume is None or resume == after.position_ms > 0


def _check_position(old: State, report: Report, decision: Decision, after: State) -> None:
    """It falls only through the current run itself, a confirmed takeover, or a command; or near the start."""
    if after.position_ms >= old.position_ms or near_start(old.position_ms, old.duration_ms):
        return
    assert decision.verdict is Verdict.ACCEPTED
    key = session_key(report.source, report.session_id, report.device_id)
    by_current = old.current_key == key
    confirmed = after.current_key == key and (
        report.kind == "seek" or (old.pending is not None and old.pending.key == key)
    )
    assert by_current or confirmed or report.kind in COMMANDS


def facts(state: State) -> dict[str, Any]:
    """What a replay must not change even beyond the bounds: position and counts."""
    return {"position_ms": state.position_ms, "play_count": state.play_count, "listened_ms": state.listened_ms}
