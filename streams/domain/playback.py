"""The playback rules: `decide(state, report, policy) -> Decision`. Pure, total, deterministic.

The rules in order, first match wins: 0 valid · echo · 1 seen before · 2 commands · 3 older epoch · 4 the current
run · 5 another run · 6 after a finish · 7 takeover needs intent; then what every verdict but duplicate and
rejected adds: listening, a play, the memory of the report, and 8 the conflict's end. Rule 9 is `join`, rule 10
`sessions.keep`. Each module names its readings of what the contract leaves open; here are those of this one.

Readings:
- Rule 0 comes before rule 1: a repeated report that lies beyond the duration is ignored again, not a duplicate.
- An echo or a `beyond_duration` report opens no run and says nothing of its run; it marks its sequence seen.
- Duration and media kind are taken from accepted reports only: what is late or pending changes neither.
- `clock_implausible` is also noted when occurred_at is missing; `clock_repaired` also when received_at is.
- A command is stored as a session only to remember its sequence or its listening.
"""

from __future__ import annotations

from dataclasses import dataclass

from streams.domain.case import ACCEPTED, Case, Outcome, ignored
from streams.domain.commands import obey
from streams.domain.draft import Draft, SessionDraft
from streams.domain.identity import event_id_hash, session_key
from streams.domain.limits import EVENT_IDS_MAX
from streams.domain.plays import Play, count_play, listened_growth
from streams.domain.policy import PLAYTHROUGH, Policy
from streams.domain.report import Report, event_id_of, problem
from streams.domain.runs import judge
from streams.domain.sessions import find, has_seen, keep, mark_seen, open_run, opens_run
from streams.domain.state import Session, State, newer
from streams.domain.timekeeping import times_of
from streams.domain.words import COMMANDS, Kind, Note, Origin, Reason, Verdict

_SHOWS_PLAYING = frozenset({Kind.PAUSE, Kind.RESUME, Kind.SEEK})


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a report.

    - `state`: the state after it; the very state given when nothing changed (rejected, duplicate). None only
      for a rejected report that met no state.
    - `event_id`: the report's own, else the derived one, else None.
    - `event_time`: when the report counts as having happened (epoch ms); 0 when rejected.
    - `play_counted`, `play_epoch`: this report counted a play, and for which epoch.
    - `position_moved`: the stored position, phase or epoch changed. `listened_added_ms` >= 0.
    """

    verdict: Verdict
    state: State | None
    reason: Reason | None = None
    notes: tuple[Note, ...] = ()
    event_id: str | None = None
    event_time: int = 0
    play_counted: bool = False
    play_epoch: int | None = None
    position_moved: bool = False
    listened_added_ms: int = 0
    detail: str | None = None


def decide(state: State | None, report: Report, policy: Policy = PLAYTHROUGH) -> Decision:
    """Judge one report. Never raises, whatever report and state say; the same input gives the same answer."""
    rejected = problem(report)
    if rejected is not None:
        return Decision(Verdict.REJECTED, state, rejected.reason, detail=rejected.detail)
    before = state if state is not None else State(user=report.user, media=report.media)
    times = times_of(report)
    case = Case.of(report, before, times, policy)
    event_id = event_id_of(report)
    id_hash = None if event_id is None else event_id_hash(report.source, event_id)
    key = session_key(report.source, report.session_id, report.device_id)
    known = find(before.sessions, key)

    is_echo = report.origin == Origin.ECHO
    seen = _seen(case, before, known, id_hash)
    if seen is not None:
        again = Outcome(Verdict.DUPLICATE, seen)
        if case.beyond or is_echo:
            again = ignored(Reason.BEYOND_DURATION if case.beyond else Reason.ECHO)
        return Decision(again.verdict, before, again.reason, tuple(case.notes), event_id, case.event_time)

    draft = Draft.thaw(before)
    if draft.repair_clocks(times):
        case.notes.append(Note.CLOCK_REPAIRED)
        known = find(draft.sessions, key)
    session = SessionDraft.thaw(known) if known is not None else SessionDraft(key, case.event_time)
    play: Play | None = None
    if case.beyond:
        outcome = ignored(Reason.BEYOND_DURATION)
    elif is_echo:
        outcome = ignored(Reason.ECHO)
    elif case.kind in COMMANDS:
        outcome, play = obey(case, draft)
        if outcome is ACCEPTED:
            draft.command_id = id_hash
    else:
        if known is not None and opens_run(session, case.kind, case.order):
            open_run(session, case.order)
        case.meet(session)
        outcome = judge(case, draft, session)
        play = _play(case, draft, session, outcome)
        _show(case, session)
    return _conclude(before, draft, case, session, outcome, play, event_id, id_hash, known=known is not None)


def _seen(case: Case, state: State, known: Session | None, id_hash: int | None) -> Reason | None:
    """Rule 1. The newest command is known beyond the ring: nothing else would make its repetition late."""
    if id_hash is not None and (
        id_hash in state.event_ids or id_hash in state.merged_ids or id_hash == state.command_id
    ):
        return Reason.SAME_EVENT_ID
    if known is not None and case.order.sequence is not None and has_seen(known, case.order.sequence):
        return Reason.SAME_SEQUENCE
    return None


def _play(case: Case, draft: Draft, session: SessionDraft, outcome: Outcome) -> Play | None:
    """Count the report's play in the epoch it belongs to. Ignored reports count none."""
    if outcome.verdict is Verdict.IGNORED or not case.plays:
        return None
    started_at = draft.epoch_started_at
    of_the_current_run = draft.is_current(session) and newer(case.order, session.run_from)
    of_this_epoch = started_at is None or case.event_time >= started_at or of_the_current_run
    return count_play(draft, case.event_time, of_this_epoch=of_this_epoch)


def _show(case: Case, session: SessionDraft) -> None:
    """What a report shows of its run, whatever became of it: that it plays, or that it ended."""
    if case.trusted and (case.kind is Kind.PROGRESS or (case.kind in _SHOWS_PLAYING and case.position_ms)):
        session.progressed = True
    if case.kind in (Kind.STOP, Kind.FINISH) and newer(case.order, session.ended):
        session.ended = case.order


def _conclude(
    before: State,
    draft: Draft,
    case: Case,
    session: SessionDraft,
    outcome: Outcome,
    play: Play | None,
    event_id: str | None,
    id_hash: int | None,
    *,
    known: bool,
) -> Decision:
    """What every verdict but duplicate and rejected merges and remembers."""
    report = case.report
    if outcome is ACCEPTED:
        draft.duration_ms = case.duration_ms
        draft.media_kind = report.media_kind or draft.media_kind
    if id_hash is not None:
        _remember_id(draft, id_hash)
    if draft.conflict is not None and draft.position_ms >= draft.conflict.position_ms:
        draft.conflict = None  # rule 8: the position passed it

    growth = listened_growth(case, draft, session, known=known)
    if case.order.sequence is not None:
        mark_seen(session, case.order.sequence)
    session.event_time = max(session.event_time, case.event_time)
    says_nothing = case.beyond or case.kind in COMMANDS or outcome.reason is Reason.ECHO
    if known or not says_nothing or case.order.sequence is not None or growth:
        placed = keep(draft, session, known=known)
        growth = growth if placed or known else 0
    draft.listened_ms += growth

    after = draft.freeze()
    return Decision(
        verdict=outcome.verdict,
        state=after,
        reason=outcome.reason,
        notes=tuple(dict.fromkeys(case.notes)),
        event_id=event_id,
        event_time=case.event_time,
        play_counted=play is not None,
        play_epoch=None if play is None else play.epoch,
        position_moved=(
            after.position_ms != before.position_ms or after.phase != before.phase or after.epoch != before.epoch
        ),
        listened_added_ms=growth,
    )


def _remember_id(draft: Draft, id_hash: int) -> None:
    """The newest 64; ids that came from a join leave one by one as new ones arrive."""
    if id_hash in draft.event_ids or id_hash in draft.merged_ids:
        return
    draft.event_ids = (*draft.event_ids, id_hash)[-EVENT_IDS_MAX:]
    if draft.merged_ids:
        draft.merged_ids = draft.merged_ids[1:]
