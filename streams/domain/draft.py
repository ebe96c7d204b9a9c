"""A state while one decision is made: the mutable copy the rules write to.

A draft never leaves `decide`. It is thawed from a State, changed by the rules in plain statements, and frozen
once; that is clearer and faster than building a new State for every change. Fields are those of State and
Session (a test holds them to each other).
"""

from __future__ import annotations

from dataclasses import dataclass

from streams.domain.policy import near_start
from streams.domain.state import Conflict, Merged, Order, Pending, Placed, PreviousEpoch, Session, State
from streams.domain.timekeeping import Times
from streams.domain.words import Phase


@dataclass(slots=True)
class SessionDraft:
    key: int
    event_time: int
    listened_max_ms: int = 0
    seen_high: int | None = None
    seen_below: int = 0
    run: int = 1
    run_from: Order | None = None
    position_order: Order | None = None
    position_ms: int | None = None
    phase_order: Order | None = None
    phase: str | None = None
    phase_place_ms: int | None = None
    progressed: bool = False
    ended: Order | None = None
    finishes: tuple[Placed, ...] = ()
    lows: tuple[Placed, ...] = ()

    @classmethod
    def thaw(cls, s: Session) -> SessionDraft:
        return cls(
            s.key,
            s.event_time,
            s.listened_max_ms,
            s.seen_high,
            s.seen_below,
            s.run,
            s.run_from,
            s.position_order,
            s.position_ms,
            s.phase_order,
            s.phase,
            s.phase_place_ms,
            s.progressed,
            s.ended,
            s.finishes,
            s.lows,
        )

    def freeze(self) -> Session:
        return Session(
            self.key,
            self.event_time,
            self.listened_max_ms,
            self.seen_high,
            self.seen_below,
            self.run,
            self.run_from,
            self.position_order,
            self.position_ms,
            self.phase_order,
            None if self.phase is None else str(self.phase),
            self.phase_place_ms,
            self.progressed,
            self.ended,
            self.finishes,
            self.lows,
        )


@dataclass(slots=True, kw_only=True)
class Draft:
    user: str
    media: str
    media_kind: str | None
    duration_ms: int | None
    epoch: int
    epoch_started_at: int | None
    previous_epoch: PreviousEpoch | None
    phase: str
    position_ms: int
    played: bool
    play_count: int
    counted: bool
    last_played_at: int | None
    event_time: int
    command_time: int | None
    command_id: int | None
    current_key: int | None
    current_run: int
    session_id: str | None
    device_id: str | None
    listened_ms: int
    sessions: tuple[Session, ...]
    evicted_before: int | None
    event_ids: tuple[int, ...]
    merged_ids: tuple[int, ...]
    pending: Pending | None
    conflict: Conflict | None
    merged_from: tuple[Merged, ...]
    merged_into: str | None

    @classmethod
    def thaw(cls, s: State) -> Draft:
        return cls(
            user=s.user,
            media=s.media,
            media_kind=s.media_kind,
            duration_ms=s.duration_ms,
            epoch=s.epoch,
            epoch_started_at=s.epoch_started_at,
            previous_epoch=s.previous_epoch,
            phase=s.phase,
            position_ms=s.position_ms,
            played=s.played,
            play_count=s.play_count,
            counted=s.counted,
            last_played_at=s.last_played_at,
            event_time=s.event_time,
            command_time=s.command_time,
            command_id=s.command_id,
            current_key=s.current_key,
            current_run=s.current_run,
            session_id=s.session_id,
            device_id=s.device_id,
            listened_ms=s.listened_ms,
            sessions=s.sessions,
            evicted_before=s.evicted_before,
            event_ids=s.event_ids,
            merged_ids=s.merged_ids,
            pending=s.pending,
            conflict=s.conflict,
            merged_from=s.merged_from,
            merged_into=s.merged_into,
        )

    def freeze(self) -> State:
        return State(
            user=self.user,
            media=self.media,
            media_kind=self.media_kind,
            duration_ms=self.duration_ms,
            epoch=self.epoch,
            epoch_started_at=self.epoch_started_at,
            previous_epoch=self.previous_epoch,
            phase=str(self.phase),
            position_ms=self.position_ms,
            played=self.played,
            play_count=self.play_count,
            counted=self.counted,
            last_played_at=self.last_played_at,
            event_time=self.event_time,
            command_time=self.command_time,
            command_id=self.command_id,
            current_key=self.current_key,
            current_run=self.current_run,
            session_id=self.session_id,
            device_id=self.device_id,
            listened_ms=self.listened_ms,
            sessions=self.sessions,
            evicted_before=self.evicted_before,
            event_ids=self.event_ids,
            merged_ids=self.merged_ids,
            pending=self.pending,
            conflict=self.conflict,
            merged_from=self.merged_from,
            merged_into=self.merged_into,
        )

    @property
    def is_blank(self) -> bool:
        """Nothing was accepted yet: "no state yet" in the rules."""
        return self.event_time == 0 and self.current_key is None and self.command_time is None

    @property
    def is_finished(self) -> bool:
        return self.phase == Phase.FINISHED

    @property
    def is_near_start(self) -> bool:
        return near_start(self.position_ms, self.duration_ms)

    def is_current(self, session: SessionDraft) -> bool:
        """Whether this session's run is the one that last moved the position."""
        return self.current_key == session.key and self.current_run == session.run

    def pending_of(self, session: SessionDraft) -> Pending | None:
        """The pending takeover, when it is by this session's run."""
        pending = self.pending
        if pending is not None and pending.key == session.key and pending.run == session.run:
            return pending
        return None

    def happened(self, event_time: int) -> None:
        """event_time never falls."""
        self.event_time = max(self.event_time, event_time)

    def open_epoch(self, started_at: int) -> None:
        """Begin another playthrough. Rule 8: a conflict does not outlive its epoch; nor does a candidate."""
        self.previous_epoch = PreviousEpoch(self.epoch_started_at, self.counted)
        self.epoch += 1
        self.epoch_started_at = started_at
        self.counted = False
        self.conflict = None
        self.pending = None

    def nobody_current(self) -> None:
        """After a command of a person: what arrives from the former run counts as another run."""
        self.current_key = None
        self.current_run = 0
        self.session_id = None
        self.device_id = None

    def repair_clocks(self, times: Times) -> bool:
        """Bring every time beyond `times.latest` back; whether there was one.

        A server that once booted in 2036 must not make everything late for ten years.
        """
        if self._newest_time() <= times.latest:
            return False
        mended = times.repaired
        self.event_time = mended(self.event_time)
        self.command_time = _mended(self.command_time, times)
        self.evicted_before = _mended(self.evicted_before, times)
        self.epoch_started_at = _mended(self.epoch_started_at, times)
        self.last_played_at = _mended(self.last_played_at, times)
        if self.previous_epoch is not None:
            started_at, counted = self.previous_epoch
            self.previous_epoch = PreviousEpoch(_mended(started_at, times), counted)
        self.sessions = tuple(_mended_session(session, times) for session in self.sessions)
        if self.pending is not None:
            p = self.pending
            first, last = _mended_order(p.first, times), _mended_order(p.last, times)
            self.pending = Pending(
                p.key, p.run, p.session_id, p.device_id, first or p.first, last or p.last,
                p.from_position_ms, p.playing_from_ms, p.position_ms,
            )  # fmt: skip
        if self.conflict is not None:
            c = self.conflict
            self.conflict = Conflict(c.key, c.device_id, c.session_id, c.position_ms, mended(c.event_time))
        return True

    def _newest_time(self) -> int:
        """No time kept here is newer: all others belong to a report that one of these counts."""
        newest = max(
            self.event_time,
            self.command_time or 0,
            self.evicted_before or 0,
            self.epoch_started_at or 0,
            self.last_played_at or 0,
        )
        for session in self.sessions:
            if session.event_time > newest:
                newest = session.event_time
        if self.pending is not None and self.pending.event_time > newest:
            newest = self.pending.event_time
        if self.conflict is not None and self.conflict.event_time > newest:
            newest = self.conflict.event_time
        return newest


def _mended(time: int | None, times: Times) -> int | None:
    return None if time is None else times.repaired(time)


def _mended_order(order: Order | None, times: Times) -> Order | None:
    return None if order is None else Order(order.sequence, times.repaired(order.event_time))


def _mended_session(session: Session, times: Times) -> Session:
    draft = SessionDraft.thaw(session)
    draft.event_time = times.repaired(draft.event_time)
    draft.run_from = _mended_order(draft.run_from, times)
    draft.position_order = _mended_order(draft.position_order, times)
    draft.phase_order = _mended_order(draft.phase_order, times)
    draft.ended = _mended_order(draft.ended, times)
    draft.finishes = _mended_places(draft.finishes, times)
    draft.lows = _mended_places(draft.lows, times)
    return draft.freeze()


def _mended_places(places: tuple[Placed, ...], times: Times) -> tuple[Placed, ...]:
    return tuple(Placed(_mended_order(order, times) or order, position) for order, position in places)
