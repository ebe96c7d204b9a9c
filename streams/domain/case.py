"""One valid report beside the state it meets: everything the rules ask about it, worked out once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from streams.domain.draft import Draft, SessionDraft
from streams.domain.limits import OVERRUN_MS, OVERRUN_PERCENT
from streams.domain.policy import Policy, near_start
from streams.domain.report import Report
from streams.domain.state import Order, State
from streams.domain.timekeeping import Times
from streams.domain.words import KINDS, MEDIA_KINDS, Kind, Note, Phase, Reason, Verdict

_PHASES: dict[Kind, Phase] = {
    Kind.START: Phase.PLAYING,
    Kind.PROGRESS: Phase.PLAYING,
    Kind.PAUSE: Phase.PAUSED,
    Kind.RESUME: Phase.PLAYING,
    Kind.SEEK: Phase.PLAYING,
    Kind.STOP: Phase.STOPPED,
}


class Outcome(NamedTuple):
    """What a rule answered."""

    verdict: Verdict
    reason: Reason | None = None


ACCEPTED = Outcome(Verdict.ACCEPTED)


def ignored(reason: Reason) -> Outcome:
    return Outcome(Verdict.IGNORED, reason)


def late(reason: Reason) -> Outcome:
    return Outcome(Verdict.LATE, reason)


@dataclass(slots=True)
class Case:
    """The report with what the state adds: effective duration, thresholds, clamped position, order, notes.

    `position_ms` is None without one; `beyond` says that it lies too far beyond the duration. After `meet`
    (playback reports only) `finishes`, `target` and `phase` are what it means for its own run, and
    `pause_heartbeat` that it is a progress at the very place where that run was paused.
    """

    report: Report
    policy: Policy
    kind: Kind
    event_time: int
    order: Order
    position_ms: int | None
    duration_ms: int | None
    played_at: int | None
    finish_at: int | None
    beyond: bool
    notes: list[Note] = field(default_factory=list)
    finishes: bool = False
    target: int | None = None
    phase: Phase = Phase.IDLE
    pause_heartbeat: bool = False

    @classmethod
    def of(cls, report: Report, state: State, times: Times, policy: Policy) -> Case:
        duration = report.duration_ms if report.duration_ms and report.duration_ms > 0 else state.duration_ms
        media_kind = MEDIA_KINDS[report.media_kind] if report.media_kind else state.effective_kind
        rule = policy.kinds[media_kind]
        notes = list(times.notes)
        position, beyond = report.position_ms, False
        if position is not None and duration is not None and position > duration:
            beyond = position - duration > max(duration * OVERRUN_PERCENT // 100, OVERRUN_MS)
            if not beyond:
                position = duration
                notes.append(Note.CLAMPED)
        return cls(
            report,
            policy,
            KINDS[report.kind],
            times.event_time,
            Order(report.sequence if report.session_id is not None else None, times.event_time),
            position,
            duration,
            rule.played_at.place(duration),
            rule.finish_at.place(duration),
            beyond,
            notes,
        )

    @property
    def trusted(self) -> bool:
        """Said by a player that played: neither extrapolated nor failed. Only such a report finishes or plays."""
        return not (self.report.automated or self.report.failed)

    @property
    def is_empty(self) -> bool:
        """A start or stop that names no place: players send 0 before they have loaded and after they unload."""
        return self.kind in (Kind.START, Kind.STOP) and not self.position_ms

    @property
    def is_empty_start(self) -> bool:
        return self.kind is Kind.START and not self.position_ms

    @property
    def is_near_start(self) -> bool:
        """The report itself says that it is near the start; an empty start does."""
        if self.target is None:
            return self.is_empty_start
        return near_start(self.target, self.duration_ms)

    def near_start(self, position_ms: int) -> bool:
        return near_start(position_ms, self.duration_ms)

    def delta(self, draft: Draft) -> int:
        """d of rule 5: how much later than the state's event_time."""
        return self.event_time - draft.event_time

    def meet(self, session: SessionDraft) -> None:
        """Work out what the report says beside its own run: `finishes`, `target` and `phase`."""
        self.finishes = self.trusted and (
            self.kind is Kind.FINISH
            or (self.finish_at is not None and self.position_ms is not None and self.position_ms >= self.finish_at)
            or self._believes_played(session)
        )
        self.target = self._target(session)
        self.pause_heartbeat = (
            self.kind is Kind.PROGRESS
            and not self.finishes
            and session.phase == Phase.PAUSED
            and self.position_ms == session.phase_place_ms
            and self._follows_directly(session)
        )
        self.phase = self._phase()

    @property
    def plays(self) -> bool:
        """It is a finish, or reaches played_at; never of a server's or a failed player's word."""
        if self.finishes:
            return True
        return (
            self.played_at is not None
            and self.position_ms is not None
            and self.trusted
            and self.position_ms >= self.played_at
        )

    def _follows_directly(self, session: SessionDraft) -> bool:
        """No report of the session is known to be missing right before this one."""
        sequence = self.order.sequence
        return sequence is None or session.seen_high is None or sequence == session.seen_high + 1

    def _believes_played(self, session: SessionDraft) -> bool:
        """Whether a stop's claim of completion is believed.

        It is when the position it reports, else the last one of its run, is past half of the duration, or
        when the duration is unknown and the run has progressed.
        """
        if self.kind is not Kind.STOP or not self.report.played:
            return False
        if self.duration_ms is None:
            return session.progressed
        claimed = self.position_ms or session.position_ms
        return claimed is not None and claimed * 2 > self.duration_ms

    def _target(self, session: SessionDraft) -> int | None:
        """The position this report would set, None when it carries none.

        A finish without a position stands at the duration, else at the last position of its run, and so does
        one at 0 (players unload before they report); a stop that is believed and names no place stands at
        that last position.
        """
        if not self.finishes or self.position_ms:
            return self.position_ms
        if self.kind is Kind.FINISH and self.duration_ms is not None:
            return self.duration_ms
        return session.position_ms

    def _phase(self) -> Phase:
        if self.finishes:
            return Phase.FINISHED
        if self.report.failed or self.kind is Kind.FINISH:  # a finish that is not believed ends nothing
            return Phase.STOPPED
        return Phase.PAUSED if self.pause_heartbeat else _PHASES[self.kind]
