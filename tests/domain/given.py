"""given(reports).when(report).then(...): one household, one key, times in seconds from noon, positions too.

    given(progress(600), progress(700, at=60)).when(seek(10, at=70)).then("accepted", position_ms=10_000)

A report names its session by `run` (default "tv"); `at` is when it happened. All are received ten days later, so
that any order of arrival is a plain one. Nothing is numbered: pass `seq` for a sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streams.domain.playback import Decision, decide
from streams.domain.policy import PLAYTHROUGH, Policy
from streams.domain.report import Report
from streams.domain.state import State, shown

NOON = 1_772_366_400_000
RECEIVED = NOON + 10 * 24 * 3600 * 1000
MOVIE = 7200


def report(
    kind: str,
    at_position: float | None = None,
    *,
    at: float = 0,
    run: str | None = "tv",
    seq: int | None = None,
    duration: float | None = MOVIE,
    media_kind: str | None = "video",
    device: str | None = None,
    **more: Any,
) -> Report:
    fields: dict[str, Any] = {
        "kind": kind,
        "user": "ana",
        "media": "m",
        "source": "home",
        "session_id": run,
        "device_id": device if device is not None else f"{run}-device",
        "sequence": seq,
        "position_ms": None if at_position is None else round(at_position * 1000),
        "duration_ms": None if duration is None else round(duration * 1000),
        "media_kind": media_kind,
        "occurred_at": NOON + round(at * 1000),
        "received_at": RECEIVED,
        **more,
    }
    return Report(**fields)


def start(position: float | None = None, **more: Any) -> Report:
    return report("start", position, **more)


def progress(position: float, **more: Any) -> Report:
    return report("progress", position, **more)


def pause(position: float | None = None, **more: Any) -> Report:
    return report("pause", position, **more)


def resume(position: float | None = None, **more: Any) -> Report:
    return report("resume", position, **more)


def seek(position: float, **more: Any) -> Report:
    return report("seek", position, **more)


def stop(position: float | None = None, **more: Any) -> Report:
    return report("stop", position, **more)


def finish(position: float | None = None, **more: Any) -> Report:
    return report("finish", position, **more)


def command(kind: str, position: float | None = None, **more: Any) -> Report:
    return report(kind, position, run=None, device="web", **more)


@dataclass(frozen=True)
class Story:
    """Reports so far, and the decision about each."""

    policy: Policy
    state: State | None
    decisions: tuple[Decision, ...]

    def when(self, *reports: Report) -> Story:
        state, decisions = self.state, self.decisions
        for one in reports:
            decision = decide(state, one, self.policy)
            state = decision.state
            decisions = (*decisions, decision)
        return Story(self.policy, state, decisions)

    @property
    def last(self) -> Decision:
        return self.decisions[-1]

    @property
    def shown(self) -> dict[str, Any]:
        assert self.state is not None
        return shown(self.state)

    @property
    def verdicts(self) -> list[str]:
        return [decision.verdict.value for decision in self.decisions]

    def then(self, verdict: str, reason: str | None = None, *, note: str | None = None, **expected: Any) -> Story:
        """The last verdict, its reason and one of its notes, and fields of the state as shown after it."""
        assert self.last.verdict == verdict, self.last
        if reason is not None:
            assert self.last.reason == reason, self.last
        if note is not None:
            assert note in self.last.notes, self.last
        state = self.shown
        assert {name: state[name] for name in expected} == expected
        return self


def given(*reports: Report, policy: Policy = PLAYTHROUGH) -> Story:
    return Story(policy, None, ()).when(*reports)
