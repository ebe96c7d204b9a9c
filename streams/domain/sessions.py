"""What a session remembers: sequences, runs, and what its run said of position and phase (rules 1, 4, 10)."""

from __future__ import annotations

from streams.domain.case import Case
from streams.domain.draft import Draft, SessionDraft
from streams.domain.limits import BEHIND_MS, PLACES_MAX, PLAYING_STEP_MS, RUN_GAP_MS, SEQUENCES_BELOW_MAX, SESSIONS_MAX
from streams.domain.state import Order, Placed, Session, newer
from streams.domain.words import Kind

_BELOW_MASK = (1 << SEQUENCES_BELOW_MAX) - 1
_OPENS_AFTER_GAP = frozenset({Kind.START, Kind.PROGRESS, Kind.RESUME})


def find(sessions: tuple[Session, ...], key: int) -> Session | None:
    for session in sessions:
        if session.key == key:
            return session
    return None


def has_seen(session: Session, sequence: int) -> bool:
    """Whether this sequence lies in the window (the highest seen and the 63 below it) and was seen."""
    if session.seen_high is None:
        return False
    below = session.seen_high - sequence
    if below == 0:
        return True
    return 0 < below <= SEQUENCES_BELOW_MAX and bool(session.seen_below >> (below - 1) & 1)


def mark_seen(session: SessionDraft, sequence: int) -> None:
    """Remember a sequence; one that lies below the window is not remembered."""
    high = session.seen_high
    if high is None:
        session.seen_high = sequence
        return
    above = sequence - high
    if above > SEQUENCES_BELOW_MAX:
        session.seen_below = 0
        session.seen_high = sequence
    elif above > 0:
        session.seen_below = (session.seen_below << above | 1 << (above - 1)) & _BELOW_MASK
        session.seen_high = sequence
    elif 0 < -above <= SEQUENCES_BELOW_MAX:
        session.seen_below |= 1 << (-above - 1)


def opens_run(session: SessionDraft, kind: Kind, order: Order) -> bool:
    """Whether this report begins another playing of a known session.

    A start newer than its stop or finish (and than all else that set its phase) does. So does a start, progress
    or resume more than 30 min after its last report; reports still missing by sequence each fill 30 min more, so
    that arriving out of order does not cut a run in two.
    """
    if (
        kind is Kind.START
        and session.ended is not None
        and newer(order, session.ended)
        and newer(order, session.phase_order)
    ):
        return True
    if kind not in _OPENS_AFTER_GAP:
        return False
    steps = 1
    if order.sequence is not None and session.seen_high is not None:
        steps = order.sequence - session.seen_high
    return steps > 0 and order.event_time - session.event_time > RUN_GAP_MS * steps


def open_run(session: SessionDraft, order: Order) -> None:
    """Begin the next run: of the one before only the memory stays (sequences, listening)."""
    session.run += 1
    session.run_from = order
    session.position_order = None
    session.position_ms = None
    session.phase_order = None
    session.phase = None
    session.phase_place_ms = None
    session.progressed = False
    session.ended = None
    session.finishes = ()
    session.lows = ()


def say(case: Case, session: SessionDraft) -> None:
    """Keep what the report states of its own run's position and phase, each when newer than the one that set it.

    Nobody knows where a failed report was, and an empty start or stop names no place. A heartbeat of a paused
    player does not set the phase.
    """
    if case.target is not None and not case.report.failed and not (case.is_empty and not case.finishes):
        say_position(session, case.order, case.target)
    if not case.pause_heartbeat:
        place = case.position_ms if case.kind in (Kind.PAUSE, Kind.PROGRESS) else None
        say_phase(session, case.order, case.phase, place)


def say_position(session: SessionDraft, order: Order, position_ms: int) -> None:
    """The run's report at `order` carried this position; the newest one counts as its last."""
    if newer(order, session.position_order):
        if order.sequence is not None:
            _land(session, order, position_ms)
        session.position_order = order
        session.position_ms = position_ms
    elif order.sequence is not None:
        _remember_low(session, order, position_ms)


def say_phase(session: SessionDraft, order: Order, phase: str, place_ms: int | None) -> None:
    if newer(order, session.phase_order):
        session.phase_order = order
        session.phase = phase
        session.phase_place_ms = place_ms


def lies_behind_later(session: SessionDraft, order: Order, finish_ms: int) -> bool:
    """Whether a report of the run newer than `order` carries a position more than 30 s behind `finish_ms`."""
    behind = finish_ms - BEHIND_MS
    last = session.position_order
    if last is not None and session.position_ms is not None and newer(last, order) and session.position_ms < behind:
        return True
    return any(newer(low.order, order) and low.position_ms < behind for low in session.lows)


def say_finish(session: SessionDraft, order: Order, position_ms: int) -> bool:
    """The run's report at `order` finishes it at this position; whether that stands.

    It does unless the run went on well behind it. Of two that stand, one that is newer and not further makes
    the other needless: whatever lies behind it lies behind both.
    """
    if lies_behind_later(session, order, position_ms):
        return False
    later = [one for one in session.finishes if newer(one.order, order)]
    if not any(one.position_ms <= position_ms for one in later):
        earlier = [one for one in session.finishes if not newer(one.order, order) and one.position_ms < position_ms]
        session.finishes = _bounded((*earlier, Placed(order, position_ms), *later))
    return True


def finishes_left(session: SessionDraft, order: Order, position_ms: int) -> tuple[Placed, ...]:
    """The finishes that still stand when the run's report at `order` lies at this position."""
    return tuple(
        one for one in session.finishes if position_ms >= one.position_ms - BEHIND_MS or not newer(order, one.order)
    )


def _land(session: SessionDraft, order: Order, position_ms: int) -> None:
    """The run goes on to this position. When that step is no playing, both its ends are kept among its lows."""
    last, last_ms = session.position_order, session.position_ms
    lows = session.lows
    if last is not None and last_ms is not None:
        if last_ms <= position_ms <= last_ms + PLAYING_STEP_MS:
            return
        lows = (*_below(lows, last_ms), Placed(last, last_ms))
    session.lows = _bounded((*_below(lows, position_ms), Placed(order, position_ms)))


def _below(places: tuple[Placed, ...], position_ms: int) -> tuple[Placed, ...]:
    return tuple(place for place in places if place.position_ms < position_ms)


def _remember_low(session: SessionDraft, order: Order, position_ms: int) -> None:
    """A late report's position, when nothing newer is as low."""
    last_ms = session.position_ms
    later = [low for low in session.lows if newer(low.order, order)]
    if (last_ms is not None and last_ms <= position_ms) or any(low.position_ms <= position_ms for low in later):
        return
    earlier = [low for low in session.lows if not newer(low.order, order) and low.position_ms < position_ms]
    session.lows = _bounded((*earlier, Placed(order, position_ms), *later))


def _bounded(places: tuple[Placed, ...]) -> tuple[Placed, ...]:
    """At most 8: the first is the lowest, which most lies ahead of; the last ones are the newest."""
    return places if len(places) <= PLACES_MAX else (places[0], *places[2:])


def keep(draft: Draft, session: SessionDraft, *, known: bool) -> bool:
    """Put the session back among those kept; whether it has a place.

    Rule 10: the 9th evicts the one with the oldest event_time, never the current or the pending one. When
    that is the new one itself, it is not stored.
    """
    frozen = session.freeze()
    if known:
        sessions = tuple([frozen if kept.key == frozen.key else kept for kept in draft.sessions])
    else:
        sessions = (*draft.sessions, frozen)
    placed = True
    while len(sessions) > SESSIONS_MAX:
        victim = _oldest(draft, sessions)
        sessions = tuple([kept for kept in sessions if kept is not victim])
        placed = placed and victim is not frozen
        if victim is not frozen or known:
            draft.evicted_before = max(draft.evicted_before or victim.event_time, victim.event_time)
    draft.sessions = sessions
    return placed


def _oldest(draft: Draft, sessions: tuple[Session, ...]) -> Session:
    """Of more than 8 at most two are protected, so there is one."""
    pending = draft.pending.key if draft.pending is not None else None
    return min(
        (kept for kept in sessions if kept.key not in (draft.current_key, pending)),
        key=lambda kept: kept.event_time,
    )
