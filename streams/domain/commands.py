"""Rule 2: what a person ordered. Commands compete with commands; only set_position also with progress.

Readings:
- Behind, for set_position, is any lower position; a playthrough is begun anew by going to its start.
- After set_position the phase is `stopped` (`idle` at 0): it never finishes, and no run is current to play.
- A pending takeover is dropped by set_position: the person has chosen.
- mark_played that belongs to an older epoch sets the flag and counts there; the present goes on.
- An old clear_position (by more than 10 s) is accepted, but there is no flag for it to change.
"""

from __future__ import annotations

from streams.domain.case import ACCEPTED, Case, Outcome, late
from streams.domain.draft import Draft
from streams.domain.limits import TIE_MS
from streams.domain.plays import Play, count_play
from streams.domain.words import Kind, Phase, Reason


def obey(case: Case, draft: Draft) -> tuple[Outcome, Play | None]:
    """The outcome of a command, and the play it counted."""
    if draft.command_time is not None and case.event_time < draft.command_time:
        return late(Reason.OLDER_COMMAND), None
    match case.kind:
        case Kind.MARK_PLAYED:
            return _mark_played(case, draft)
        case Kind.MARK_UNPLAYED:
            return _mark_unplayed(case, draft), None
        case Kind.CLEAR_POSITION:
            return _clear_position(case, draft), None
        case Kind.SET_POSITION:
            return _set_position(case, draft), None
        case _:
            raise AssertionError(f"{case.kind} is no command")


def _obeyed(case: Case, draft: Draft) -> Outcome:
    draft.command_time = case.event_time
    draft.happened(case.event_time)
    return ACCEPTED


def _mark_played(case: Case, draft: Draft) -> tuple[Outcome, Play | None]:
    draft.played = True
    started_at = draft.epoch_started_at
    of_this_epoch = started_at is None or case.event_time >= started_at - TIE_MS
    play = count_play(draft, case.event_time, of_this_epoch=of_this_epoch)
    if of_this_epoch:
        draft.phase = Phase.FINISHED
    return _obeyed(case, draft), play


def _mark_unplayed(case: Case, draft: Draft) -> Outcome:
    undone_at = draft.last_played_at if draft.played else None
    if undone_at is not None and case.event_time < undone_at:
        return late(Reason.OLDER_THAN_STATE)
    draft.played = False
    _start_over(case, draft)
    return _obeyed(case, draft)


def _clear_position(case: Case, draft: Draft) -> Outcome:
    _start_over(case, draft)
    return _obeyed(case, draft)


def _start_over(case: Case, draft: Draft) -> None:
    """A new epoch at 0, unless something was played since the command was given."""
    if case.delta(draft) < -TIE_MS:
        return
    draft.open_epoch(case.event_time)
    draft.position_ms = 0
    draft.phase = Phase.IDLE
    draft.nobody_current()


def _set_position(case: Case, draft: Draft) -> Outcome:
    if case.delta(draft) < -TIE_MS:
        return late(Reason.OLDER_THAN_STATE)
    target = case.position_ms or 0
    if draft.is_finished or (case.near_start(target) and target < draft.position_ms):
        draft.open_epoch(case.event_time)
    draft.position_ms = target
    draft.phase = Phase.STOPPED if target else Phase.IDLE
    draft.pending = None
    draft.conflict = None
    draft.nobody_current()
    return _obeyed(case, draft)
