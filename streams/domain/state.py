"""What is kept about one person and one media. Immutable; plain ints, texts, tuples and None throughout.

Times are epoch ms (event times, see timekeeping), positions and durations ms. Field names are stable: others
serialise them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from streams.domain.policy import KIND_RULES, near_start
from streams.domain.words import MEDIA_KINDS, MediaKind, Phase


class Order(NamedTuple):
    """Where a report stands among those of its run. `sequence` is None without a session_id."""

    sequence: int | None
    event_time: int


def newer(order: Order, than: Order | None) -> bool:
    """By sequence when both have one, else by event_time; ties go to what arrives later. None is oldest."""
    if than is None:
        return True
    if order.sequence is not None and than.sequence is not None:
        return order.sequence > than.sequence
    return order.event_time >= than.event_time


def older(order: Order, than: Order | None) -> bool:
    """Strictly before: a tie is neither older nor, for what came first, newer."""
    if than is None:
        return False
    if order.sequence is not None and than.sequence is not None:
        return order.sequence < than.sequence
    return order.event_time < than.event_time


class Placed(NamedTuple):
    """A report of a run by its order and its position: what reports that arrive out of order are held to."""

    order: Order
    position_ms: int


class PreviousEpoch(NamedTuple):
    """The epoch before: when it began (None: the first one) and whether its play was counted."""

    started_at: int | None
    counted: bool


class Merged(NamedTuple):
    """What the totals hold from another media that was found to be this one."""

    media: str
    play_count: int
    listened_ms: int


@dataclass(frozen=True, slots=True)
class Session:
    """What one play session said of itself; all but the memory belongs to its latest `run`.

    - key: `identity.session_key`; event_time: latest of its reports; listened_max_ms: largest total it stated.
    - seen_high, seen_below: the highest sequence seen (None: none yet), and the 63 below it as bits, bit 0 the
      next lower one.
    - run: number of the run, from 1; run_from: order of the report that opened it, None for the first run.
    - position_order with position_ms, phase_order with phase: the report that last set each, and to what.
      phase_place_ms: where a pause or progress set the phase; None when another report did.
    - progressed: a report that is no start, stop, finish or extrapolation showed the run playing.
    - ended: order of its newest stop or finish.
    - finishes: up to 8 finishes of the run that nothing newer lies behind of by more than 30 s, oldest first,
      each further than the one before. None stands: the run is not finished, unless by a command.
    - lows: up to 8 positions it jumped to and went on from, oldest first, each lower than those after it; only
      of runs with sequences.
    """

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


@dataclass(frozen=True, slots=True)
class Pending:
    """A run that has not yet shown intent to move the position back.

    `first` and `last` are the orders of its first and newest report here, `from_position_ms` and
    `position_ms` their positions. `playing_from_ms`: where the stretch of playing began that may become the
    proof.
    """

    key: int
    run: int
    session_id: str | None
    device_id: str | None
    first: Order
    last: Order
    from_position_ms: int
    playing_from_ms: int
    position_ms: int

    @property
    def event_time(self) -> int:
        return self.last.event_time


@dataclass(frozen=True, slots=True)
class Conflict:
    """A late position that is further than the stored one, kept for the person to choose."""

    key: int
    device_id: str | None
    session_id: str | None
    position_ms: int
    event_time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """All that is kept for one user and media.

    - event_time is 0 until something is accepted; until then the state is memory only ("no state yet").
    - epoch counts from 1; epoch_started_at None for the first: no lower bound.
    - counted: a play was counted in this epoch. played: the person's flag, kept over epochs.
    - command_time, command_id: event time and event-id hash of the newest command that was obeyed.
    - current_key, current_run: the run that last moved the position; current_key None: no run is current.
      session_id and device_id are its ids as shown.
    - sessions: at most 8 after a decision, in the order they became known (a join may leave more).
    - evicted_before: newest event_time of an evicted session.
    - event_ids: hashes of the last 64 event ids, oldest first. merged_ids: hashes that came from a join,
      ascending, disjoint from event_ids.
    - play_count and listened_ms are totals that include merged_from (by media, ascending).
    - merged_into: the media this key was joined into; such a state holds nothing else.
    """

    user: str
    media: str
    media_kind: str | None = None
    duration_ms: int | None = None
    epoch: int = 1
    epoch_started_at: int | None = None
    previous_epoch: PreviousEpoch | None = None
    phase: str = Phase.IDLE.value
    position_ms: int = 0
    played: bool = False
    play_count: int = 0
    counted: bool = False
    last_played_at: int | None = None
    event_time: int = 0
    command_time: int | None = None
    command_id: int | None = None
    current_key: int | None = None
    current_run: int = 0
    session_id: str | None = None
    device_id: str | None = None
    listened_ms: int = 0
    sessions: tuple[Session, ...] = ()
    evicted_before: int | None = None
    event_ids: tuple[int, ...] = ()
    merged_ids: tuple[int, ...] = ()
    pending: Pending | None = None
    conflict: Conflict | None = None
    merged_from: tuple[Merged, ...] = ()
    merged_into: str | None = None

    @property
    def effective_kind(self) -> MediaKind:
        """A state that has no media kind counts as video."""
        return MEDIA_KINDS.get(self.media_kind or "", MediaKind.VIDEO)

    @property
    def resume_position_ms(self) -> int | None:
        """Where to resume, or None: finished, near the start, or a kind that does not resume."""
        if self.phase == Phase.FINISHED or near_start(self.position_ms, self.duration_ms):
            return None
        offered = KIND_RULES[self.effective_kind].offers_resume(self.duration_ms)
        return self.position_ms if offered else None


def shown(state: State) -> dict[str, object]:
    """The state as people see it: the fields that `playhead decide` prints, in their order."""
    pending, conflict = state.pending, state.conflict
    return {
        "user": state.user,
        "media": state.media,
        "epoch": state.epoch,
        "phase": state.phase,
        "position_ms": state.position_ms,
        "resume_position_ms": state.resume_position_ms,
        "duration_ms": state.duration_ms,
        "played": state.played,
        "play_count": state.play_count,
        "listened_ms": state.listened_ms,
        "event_time": state.event_time,
        "session_id": state.session_id,
        "device_id": state.device_id,
        "pending": pending
        and {
            "session_id": pending.session_id,
            "device_id": pending.device_id,
            "from_position_ms": pending.from_position_ms,
            "position_ms": pending.position_ms,
            "event_time": pending.event_time,
        },
        "conflict": conflict
        and {
            "device_id": conflict.device_id,
            "session_id": conflict.session_id,
            "position_ms": conflict.position_ms,
            "event_time": conflict.event_time,
        },
    }
