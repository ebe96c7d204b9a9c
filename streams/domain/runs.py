"""Rules 3 to 6: a playback report against the playthrough it meets.

Readings:
- A finish without a position moves the position to the duration, where it "stands".
- A seek says that the run is playing. A progress at the very place where the run was paused says nothing of
  the phase (the heartbeat of a paused player), unless a report between them is missing by sequence; and the
  pause right before it is believed when it comes late.
- A failed report of any kind keeps the position, plays nothing and finishes nothing. Its phase is `stopped`.
- Rule 5 "without moving anything": a failed, empty or extrapolated report of another run is accepted for its
  own session only. It never becomes a conflict. The same holds for a pause or resume that has no place at all.
- After a finish, what a run says is still kept in its own two orders, so that what came between and arrives
  later is judged as in order: it reopens when it is newer than the finish and behind it.
- An out-of-order finish that ends the epoch is `late` and leaves the position; a rewind of the same run that
  arrives after it and lies between both is accepted.
- A report of a session's earlier run is late: it is older than what the session says now.
"""

from __future__ import annotations

from streams.domain.case import ACCEPTED, Case, Outcome, ignored, late
from streams.domain.draft import Draft, SessionDraft
from streams.domain.limits import BEHIND_MS, CONFLICT_AHEAD_MS, TIE_MS
from streams.domain.sessions import finishes_left, say, say_finish, say_position
from streams.domain.state import Conflict, newer, older
from streams.domain.takeover import begin_from, needs_intent, take_over
from streams.domain.words import Kind, Note, Phase, Reason

_HEARTBEATS = frozenset({Kind.PROGRESS, Kind.PAUSE})
_NOT_BELIEVED = (Reason.AUTOMATED_BEHIND, Reason.EMPTY_STOP, Reason.UNCHANGED)
_REPEATABLE = frozenset({Kind.PROGRESS, Kind.PAUSE, Kind.RESUME, Kind.STOP})


def judge(case: Case, draft: Draft, session: SessionDraft) -> Outcome:
    """Rules 3 to 7 for a playback report; afterwards `session` knows what the report said."""
    former = older(case.order, session.run_from)
    current = draft.is_current(session) and not former
    if _is_of_older_epoch(case, draft, session, current=current):
        return late(Reason.OLDER_EPOCH)
    if former:
        if not draft.is_finished and case.delta(draft) < -TIE_MS:
            return _late_from_another_run(case, draft, session)
        return late(Reason.OUT_OF_ORDER)
    if current and not draft.is_finished:
        return _current_run(case, draft, session)
    if current:
        outcome = _same_run_after_finish(case, draft, session)
    elif draft.is_finished:
        outcome = _another_run_after_finish(case, draft, session)
    else:
        outcome = _another_run(case, draft, session)
    if outcome.reason not in _NOT_BELIEVED:
        say(case, session)
    return outcome


def _is_of_older_epoch(case: Case, draft: Draft, session: SessionDraft, *, current: bool) -> bool:
    """Rule 3."""
    started_at = draft.epoch_started_at
    if started_at is None or case.event_time >= started_at - TIE_MS:
        return False
    known = session.position_order or session.phase_order
    by_sequence = case.order.sequence is not None and known is not None and known.sequence is not None
    return not (current and by_sequence)


# -- Rule 4 ----------------------------------------------------------------------------------------------------


def _current_run(case: Case, draft: Draft, session: SessionDraft) -> Outcome:
    moves_position = case.target is not None and newer(case.order, session.position_order)
    moves_phase = newer(case.order, session.phase_order)
    if case.finishes and not moves_position and not (case.target is None and moves_phase):
        return _late_finish(case, draft, session)
    if not moves_position and not moves_phase:
        return _out_of_order(case, draft, session)
    if case.report.automated and case.position_ms is not None and case.position_ms < draft.position_ms:
        return ignored(Reason.AUTOMATED_BEHIND)

    if (case.report.failed or case.is_empty) and not case.finishes:
        if case.kind is Kind.STOP and not session.progressed:
            return ignored(Reason.EMPTY_STOP)
        nothing_to_protect = session.position_ms is not None and case.near_start(session.position_ms)
        moves_position = moves_position and nothing_to_protect

    before = (session.position_ms, draft.phase)
    if moves_position and case.target is not None:
        _move(case, draft, session, case.target)
    if moves_phase:
        draft.phase = case.phase
    say(case, session)
    if case.finishes:
        say_finish(session, case.order, draft.position_ms)
        draft.phase = Phase.FINISHED
    draft.session_id = case.report.session_id
    draft.device_id = case.report.device_id or draft.device_id
    if case.kind not in _HEARTBEATS or before != (session.position_ms, draft.phase):
        draft.happened(case.event_time)
    return ACCEPTED


def _move(case: Case, draft: Draft, session: SessionDraft, target: int) -> None:
    """The position follows its run either way.

    But a run that took over from a position ahead of it leaves that one until it passes it, seeks, or goes
    back itself: its own last position tells, being behind the stored one only then.
    """
    own = session.position_ms
    waits = own is not None and own < draft.position_ms
    if not waits or own is None or target >= draft.position_ms or target < own or case.kind is Kind.SEEK:
        draft.position_ms = target
    say_position(session, case.order, target)


def _late_finish(case: Case, draft: Draft, session: SessionDraft) -> Outcome:
    """A finish out of order ends the epoch, unless the run went on well behind it. Its play counts anyway."""
    place = case.target if case.target is not None else draft.position_ms
    if say_finish(session, case.order, place):
        draft.phase = Phase.FINISHED
        say(case, session)
    elif case.target is not None:
        say_position(session, case.order, case.target)
    return late(Reason.OUT_OF_ORDER)


def _out_of_order(case: Case, draft: Draft, session: SessionDraft) -> Outcome:
    """Late. But a pause right before the newest progress, at its place, makes that one a heartbeat."""
    say(case, session)
    if case.kind is Kind.PAUSE and case.trusted and _comes_right_before_its_heartbeat(case, session):
        session.phase_order, session.phase = case.order, Phase.PAUSED.value
        draft.phase = Phase.PAUSED
        return ACCEPTED
    return late(Reason.OUT_OF_ORDER)


def _comes_right_before_its_heartbeat(case: Case, session: SessionDraft) -> bool:
    if session.phase != Phase.PLAYING or case.position_ms is None or case.position_ms != session.phase_place_ms:
        return False
    newest = session.phase_order.sequence if session.phase_order is not None else None
    return newest is not None and case.order.sequence is not None and case.order.sequence + 1 == newest


# -- Rule 5 ----------------------------------------------------------------------------------------------------


def _another_run(case: Case, draft: Draft, session: SessionDraft) -> Outcome:
    delta = case.delta(draft)
    if not case.finishes and (case.report.failed or (case.kind is Kind.STOP and case.is_empty)):
        return _says_nothing_of_place(case, draft, session)
    if _repeats_itself(case, session):
        return ignored(Reason.UNCHANGED)
    if draft.is_blank or (draft.is_near_start and delta > TIE_MS):
        return begin_from(case, draft, session)
    if delta < -TIE_MS:
        return _late_from_another_run(case, draft, session)
    place = 0 if case.is_empty_start else case.target if case.target is not None else session.position_ms
    if case.report.automated:
        behind = place is not None and place < draft.position_ms
        return ignored(Reason.AUTOMATED_BEHIND) if behind else ACCEPTED
    if place is None:
        return ACCEPTED
    if delta <= TIE_MS:
        if place >= draft.position_ms:
            return take_over(case, draft, session)
        if case.kind is Kind.SEEK:
            return needs_intent(case, draft, session)
        case.notes.append(Note.TIE)
        return late(Reason.TIE_SMALLER)
    if case.is_empty_start or place < draft.position_ms - BEHIND_MS:
        return needs_intent(case, draft, session)
    return take_over(case, draft, session)


def _says_nothing_of_place(case: Case, draft: Draft, session: SessionDraft) -> Outcome:
    """A failed report or an empty stop of another run: for its own session only."""
    pending = draft.pending_of(session)
    if case.kind is Kind.STOP and pending is not None:
        draft.pending = None
    if case.kind is Kind.STOP and not session.progressed:
        return ignored(Reason.EMPTY_STOP)
    if case.kind is Kind.STOP and pending is not None:
        return ignored(Reason.NO_INTENT)
    if draft.is_blank:
        return begin_from(case, draft, session)
    if case.delta(draft) < -TIE_MS:
        return late(Reason.OLDER_THAN_STATE)
    return ACCEPTED


def _repeats_itself(case: Case, session: SessionDraft) -> bool:
    """The heartbeat of a paused player: the last position and phase of its own run again."""
    return (
        case.kind in _REPEATABLE
        and session.position_ms is not None
        and case.position_ms == session.position_ms
        and case.phase == session.phase
    )


def _late_from_another_run(case: Case, draft: Draft, session: SessionDraft) -> Outcome:
    """Late; but a position further by more than a minute is kept for the person, or taken by `furthest`."""
    place = case.target
    if place is None or not case.trusted or place <= draft.position_ms + CONFLICT_AHEAD_MS:
        return late(Reason.OLDER_THAN_STATE)
    if case.policy.furthest_wins:
        return take_over(case, draft, session)
    kept = draft.conflict
    if kept is None or place >= kept.position_ms or (kept.key == session.key and case.event_time >= kept.event_time):
        draft.conflict = Conflict(session.key, case.report.device_id, case.report.session_id, place, case.event_time)
    return late(Reason.OLDER_THAN_STATE)


# -- Rule 6 ----------------------------------------------------------------------------------------------------


def _same_run_after_finish(case: Case, draft: Draft, session: SessionDraft) -> Outcome:
    in_order = newer(case.order, session.phase_order) or (
        case.target is not None and newer(case.order, session.position_order)
    )
    unmoved = ignored(Reason.AFTER_FINISH) if in_order else late(Reason.OUT_OF_ORDER)
    if not case.trusted:
        return _untrusted_after_finish(case, draft) if in_order else unmoved
    is_pending = draft.pending_of(session) is not None
    if in_order and (is_pending or case.is_near_start):
        return needs_intent(case, draft, session)
    if is_pending or case.is_near_start:
        return unmoved
    undone = _undoes_the_finish(case, draft, session, in_order=in_order)
    if undone and case.order.sequence is None:  # where a seek is proof enough
        return needs_intent(case, draft, session)
    if undone:
        return _reopen(case, draft, session)
    if case.finishes:
        say_finish(session, case.order, case.target if case.target is not None else draft.position_ms)
    return unmoved


def _undoes_the_finish(case: Case, draft: Draft, session: SessionDraft, *, in_order: bool) -> bool:
    """Whether the report lies behind, by more than 30 s, every finish that stood until now and is older.

    In order there is one, at the stored position. Those out of order are needed to find the same end.
    """
    if case.target is None:
        return False
    if not session.finishes:  # finished by a command
        return in_order and case.target < draft.position_ms - BEHIND_MS
    left = finishes_left(session, case.order, case.target)
    if case.order.sequence is None:  # nothing is proven yet
        return in_order and not left
    session.finishes = left
    return not left


def _reopen(case: Case, draft: Draft, session: SessionDraft) -> Outcome:
    """The run went back behind its own finish: the same epoch goes on, by the run's two orders."""
    say(case, session)
    if session.position_ms is not None:
        draft.position_ms = session.position_ms
    session.finishes = ()
    if case.finishes:
        say_finish(session, case.order, draft.position_ms if case.target is None else case.target)
    else:
        draft.phase = Phase(session.phase) if session.phase not in (None, Phase.FINISHED) else Phase.PLAYING
    draft.happened(case.event_time)
    return ACCEPTED


def _untrusted_after_finish(case: Case, draft: Draft) -> Outcome:
    behind = case.position_ms is not None and case.position_ms < draft.position_ms
    return ignored(Reason.AUTOMATED_BEHIND if case.report.automated and behind else Reason.AFTER_FINISH)


def _another_run_after_finish(case: Case, draft: Draft, session: SessionDraft) -> Outcome:
    if case.delta(draft) < -TIE_MS:
        return late(Reason.OLDER_THAN_STATE)
    if not case.trusted:
        return _untrusted_after_finish(case, draft)
    behind = case.target is not None and case.target < draft.position_ms - BEHIND_MS
    if draft.pending_of(session) is not None or behind or case.is_near_start:
        return needs_intent(case, draft, session)
    return ignored(Reason.AFTER_FINISH)
