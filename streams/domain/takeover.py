"""Rule 7: to move the position back, another run must show intent. And how a run becomes current.

Readings:
- Playing is measured from where a stretch of it began (`playing_from_ms`): a step faster than 4 x event time,
  or a step back before it, begins another stretch. So a jump is never counted as playing.
- 30 s really played is proof even where it ends within 30 s of a finished media's position, when it began near
  the start: without this nothing shorter than a minute and a half could ever be heard again.
- A finish before proof is pending like any report but a stop, and counts its play. A stop of a run that was
  never pending leaves the candidate of another run alone.
- A report of the pending run older than its newest one stays pending and changes nothing.
- A run that takes over never lowers the position, not even by a seek within the 30 s.
"""

from __future__ import annotations

from streams.domain.case import ACCEPTED, Case, Outcome, ignored, late
from streams.domain.draft import Draft, SessionDraft
from streams.domain.limits import BEHIND_MS, PROOF_MS, PROOF_SPEED_MAX, TIE_MS
from streams.domain.sessions import say, say_finish
from streams.domain.state import Order, Pending, newer
from streams.domain.words import Kind, Reason, Verdict


def take_over(case: Case, draft: Draft, session: SessionDraft) -> Outcome:
    """Rule 5's takeover: the run is current; the larger of both positions stays for now."""
    _become_current(case, draft, session, max(draft.position_ms, case.target or 0))
    return ACCEPTED


def begin_from(case: Case, draft: Draft, session: SessionDraft) -> Outcome:
    """There was nothing to protect: the run is current and its position is the truth."""
    stays = case.target is None or case.report.failed
    _become_current(case, draft, session, draft.position_ms if stays else case.target or 0)
    return ACCEPTED


def needs_intent(case: Case, draft: Draft, session: SessionDraft) -> Outcome:
    """Judge a report of a run that would move the position back, or begin again after a finish."""
    if case.delta(draft) < -TIE_MS:
        return late(Reason.OLDER_THAN_STATE)
    pending = draft.pending_of(session)
    place = case.target
    if place is None:
        place = pending.position_ms if pending is not None else 0
    if pending is not None and not newer(case.order, pending.last):
        return Outcome(Verdict.PENDING, Reason.NEEDS_INTENT)

    playing_from = place
    if pending is not None and _is_playing(case, pending, place):
        playing_from = min(pending.playing_from_ms, place)
    proven = place - playing_from >= PROOF_MS
    heard_again = (
        draft.is_finished
        and playing_from < place
        and case.near_start(playing_from)
        and pending is not None
        and case.event_time != pending.last.event_time
    )
    if place >= draft.position_ms - BEHIND_MS and not heard_again and (pending is not None or not draft.is_finished):
        return _was_loading(case, draft, session, pending)
    if case.kind is Kind.SEEK:
        return _confirm(case, draft, session, pending, place, began_at=place)
    if proven:
        return _confirm(case, draft, session, pending, place, began_at=playing_from)
    if case.kind is Kind.STOP:
        if pending is not None:
            draft.pending = None
        return ignored(Reason.NO_INTENT)
    draft.pending = Pending(
        session.key,
        session.run,
        case.report.session_id,
        case.report.device_id if case.report.device_id or pending is None else pending.device_id,
        first=case.order if pending is None else pending.first,
        last=case.order,
        from_position_ms=place if pending is None else pending.from_position_ms,
        playing_from_ms=playing_from,
        position_ms=place,
    )
    return Outcome(Verdict.PENDING, Reason.NEEDS_INTENT)


def _is_playing(case: Case, pending: Pending, place: int) -> bool:
    """Whether the step since the run's last report is one that playing makes."""
    if case.kind is Kind.SEEK:
        return False
    step = place - pending.position_ms
    elapsed = case.event_time - pending.last.event_time
    return step <= 0 or elapsed == 0 or step <= PROOF_SPEED_MAX * elapsed


def _was_loading(case: Case, draft: Draft, session: SessionDraft, pending: Pending | None) -> Outcome:
    """The run came to the stored position: a player that loaded, and needs no proof."""
    if pending is not None:
        draft.pending = None
    if draft.is_finished:
        return ignored(Reason.AFTER_FINISH)
    return take_over(case, draft, session)


def _confirm(
    case: Case, draft: Draft, session: SessionDraft, pending: Pending | None, place: int, *, began_at: int
) -> Outcome:
    first: Order = case.order if pending is None else pending.first
    finished_by_another = draft.is_finished and not draft.is_current(session)
    if finished_by_another or case.near_start(began_at):
        draft.open_epoch(first.event_time)
        session.run_from = first
        session.lows = ()
    draft.pending = None
    _become_current(case, draft, session, place)
    return ACCEPTED


def _become_current(case: Case, draft: Draft, session: SessionDraft, position_ms: int) -> None:
    """The run of this session moves the position from now on; its report sets both of its orders."""
    say(case, session)
    session.finishes = ()
    if case.finishes:
        say_finish(session, case.order, position_ms)
    draft.phase = case.phase
    if draft.pending_of(session) is not None:
        draft.pending = None
    draft.position_ms = position_ms
    draft.current_key = session.key
    draft.current_run = session.run
    draft.session_id = case.report.session_id
    draft.device_id = case.report.device_id
    draft.happened(case.event_time)
