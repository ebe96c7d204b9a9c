"""Rule 9: two states of one person, for two media that were found to be the same, become one.

`join` is commutative, associative and idempotent, so it does not matter in which order, or how often, keys are
touched. It rests on three kinds of parts, each with that property:

- what the newer state gives whole: position, phase, epoch, current, pending, conflict, its ring of event ids.
  Newer is the larger event_time, then the larger of all that it gives, so that a tie has one answer too.
- what unites: sessions (each by the same two means), windows, ids, `played`, latest times.
- what counts: every state holds the totals of its own media and, in `merged_from`, those of the media it took
  in; totals only grow, so of each media the larger is the newer, and the sum counts each media once.

The survivor is the smallest media id unless it is named: of two media that became one, the library names the one
that stays (an established media outlives the id that was computed for its renewed upstream id). With one survivor
named throughout the algebra is the same. A join may keep more than 8 sessions and 64 ids; the next decision evicts.
"""

from __future__ import annotations

from streams.domain.draft import SessionDraft
from streams.domain.limits import SEQUENCES_BELOW_MAX
from streams.domain.state import Conflict, Merged, Pending, Session, State

_BELOW_MASK = (1 << SEQUENCES_BELOW_MAX) - 1

_Rank = tuple[object, ...]


def join(a: State, b: State, survivor: str | None = None) -> State:
    """One state for both, of media ``survivor``. They are of one user; ValueError otherwise."""
    if a.user != b.user:
        raise ValueError("states of two people are never joined")
    media = min(a.media, b.media) if survivor is None else survivor
    if a == b and a.media == media:
        return a
    newest = max(a, b, key=_rank)
    ordered = max(a, b, key=_command_rank)
    totals = _totals(a)
    for name, (plays, listened) in _totals(b).items():
        known = totals.get(name, (0, 0))
        totals[name] = (max(known[0], plays), max(known[1], listened))
    ids = frozenset(a.event_ids + a.merged_ids + b.event_ids + b.merged_ids)
    return State(
        user=a.user,
        media=media,
        media_kind=newest.media_kind,
        duration_ms=newest.duration_ms,
        epoch=newest.epoch,
        epoch_started_at=newest.epoch_started_at,
        previous_epoch=newest.previous_epoch,
        phase=newest.phase,
        position_ms=newest.position_ms,
        played=a.played or b.played,
        play_count=sum(plays for plays, _ in totals.values()),
        counted=newest.counted,
        last_played_at=_latest(a.last_played_at, b.last_played_at),
        event_time=newest.event_time,
        command_time=ordered.command_time,
        command_id=ordered.command_id,
        current_key=newest.current_key,
        current_run=newest.current_run,
        session_id=newest.session_id,
        device_id=newest.device_id,
        listened_ms=sum(listened for _, listened in totals.values()),
        sessions=_sessions(a.sessions, b.sessions),
        evicted_before=_latest(a.evicted_before, b.evicted_before),
        event_ids=newest.event_ids,
        merged_ids=tuple(sorted(ids.difference(newest.event_ids))),
        pending=newest.pending,
        conflict=newest.conflict,
        merged_from=tuple(Merged(name, *totals[name]) for name in sorted(totals) if name != media),
    )


def moved_into(state: State, survivor: str) -> State:
    """What stays under the old key: only where its state went. Reports that still come are the survivor's."""
    return State(user=state.user, media=state.media, merged_into=survivor)


def _totals(state: State) -> dict[str, tuple[int, int]]:
    """(play_count, listened_ms) by media: its own share is what the totals hold beyond merged_from."""
    totals = {merged.media: (merged.play_count, merged.listened_ms) for merged in state.merged_from}
    totals[state.media] = (
        state.play_count - sum(plays for plays, _ in totals.values()),
        state.listened_ms - sum(listened for _, listened in totals.values()),
    )
    return totals


def _rank(state: State) -> _Rank:
    """Total order over all that the newer state gives."""
    return _ordered(
        state.event_time,
        state.epoch,
        state.epoch_started_at,
        state.previous_epoch,
        state.phase,
        state.position_ms,
        state.counted,
        state.media_kind,
        state.duration_ms,
        state.current_key,
        state.current_run,
        state.session_id,
        state.device_id,
        None if state.pending is None else _pending_rank(state.pending),
        None if state.conflict is None else _conflict_rank(state.conflict),
        state.event_ids,
    )


def _command_rank(state: State) -> _Rank:
    return _ordered(state.command_time, state.command_id)


def _sessions(a: tuple[Session, ...], b: tuple[Session, ...]) -> tuple[Session, ...]:
    """All sessions of both, those of both joined; ordered by what cannot depend on who came first."""
    by_key = {session.key: session for session in a}
    for session in b:
        known = by_key.get(session.key)
        by_key[session.key] = session if known is None else _session(known, session)
    return tuple(sorted(by_key.values(), key=lambda session: (session.event_time, session.key)))


def _session(a: Session, b: Session) -> Session:
    """The newer one's run; the larger listening maximum; both windows."""
    joined = SessionDraft.thaw(max(a, b, key=_session_rank))
    joined.listened_max_ms = max(a.listened_max_ms, b.listened_max_ms)
    high = _latest(a.seen_high, b.seen_high)
    if high is not None:
        joined.seen_high = high
        joined.seen_below = _seen_below(a, high) | _seen_below(b, high)
    return joined.freeze()


def _session_rank(session: Session) -> _Rank:
    return _ordered(
        session.event_time,
        session.run,
        session.run_from,
        session.position_order,
        session.position_ms,
        session.phase_order,
        session.phase,
        session.phase_place_ms,
        session.progressed,
        session.ended,
        session.finishes,
        session.lows,
    )


def _seen_below(session: Session, high: int) -> int:
    """The session's window as bits below `high`, which is at least its own highest."""
    if session.seen_high is None:
        return 0
    shift = high - session.seen_high
    if shift == 0:
        return session.seen_below
    if shift > SEQUENCES_BELOW_MAX:
        return 0
    return (session.seen_below << shift | 1 << (shift - 1)) & _BELOW_MASK


def _pending_rank(pending: Pending) -> _Rank:
    return (
        pending.last,
        pending.first,
        pending.key,
        pending.run,
        pending.session_id,
        pending.device_id,
        pending.from_position_ms,
        pending.playing_from_ms,
        pending.position_ms,
    )


def _conflict_rank(conflict: Conflict) -> _Rank:
    return (
        conflict.position_ms,
        conflict.event_time,
        conflict.key,
        conflict.device_id,
        conflict.session_id,
    )


def _ordered(*parts: object) -> _Rank:
    """Parts as values that always compare: None is below everything."""
    return tuple(() if part is None else (_ordered(*part),) if isinstance(part, tuple) else (part,) for part in parts)


def _latest(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return max(a, b)
