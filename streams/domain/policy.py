"""Where a playthrough counts, where it ends and when it can be resumed: data, one row for each media kind.

A `Mark` names places of a media; the first of them counts. `Policy` adds what happens to a late report that
went further: `playthrough` keeps it as a conflict, `furthest` takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from streams.domain.limits import MINUTE_MS, NEAR_START_MS, NEAR_START_PERCENT, SECOND_MS
from streams.domain.words import MediaKind


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a media, as the first of up to three. A mark of nothing is never reached.

    ``percent`` of the duration and ``before_end_ms`` need a known duration and never lie below half of it;
    ``after_ms`` needs none and may.
    """

    percent: int | None = None
    before_end_ms: int | None = None
    after_ms: int | None = None

    def place(self, duration_ms: int | None) -> int | None:
        """The position (ms) at and above which the mark is reached; None when it cannot be."""
        place = self.after_ms
        if duration_ms is None:
            return place
        half = _rounded_up(duration_ms, 50)
        if self.percent is not None:
            place = _first(place, max(half, _rounded_up(duration_ms, self.percent)))
        if self.before_end_ms is not None:
            place = _first(place, max(half, duration_ms - self.before_end_ms))
        return place


@dataclass(frozen=True, slots=True)
class KindRule:
    """``resume_from_ms``: duration from which resuming is offered; 0 always, also unknown; None never."""

    played_at: Mark
    finish_at: Mark
    resume_from_ms: int | None

    def offers_resume(self, duration_ms: int | None) -> bool:
        if self.resume_from_ms is None:
            return False
        return (duration_ms or 0) >= self.resume_from_ms


@dataclass(frozen=True, slots=True)
class Policy:
    name: str
    furthest_wins: bool
    kinds: Mapping[MediaKind, KindRule]


_TO_THE_END: Final = Mark(before_end_ms=10 * SECOND_MS)
_SPOKEN: Final = KindRule(played_at=_TO_THE_END, finish_at=_TO_THE_END, resume_from_ms=0)

KIND_RULES: Final[Mapping[MediaKind, KindRule]] = MappingProxyType(
    {
        MediaKind.VIDEO: KindRule(played_at=Mark(percent=90), finish_at=Mark(percent=90), resume_from_ms=0),
        MediaKind.MUSIC: KindRule(
            played_at=Mark(percent=50, after_ms=240 * SECOND_MS),
            finish_at=_TO_THE_END,
            resume_from_ms=10 * MINUTE_MS,
        ),
        MediaKind.AUDIOBOOK: _SPOKEN,
        MediaKind.PODCAST: _SPOKEN,
        MediaKind.LIVE: KindRule(played_at=Mark(), finish_at=Mark(), resume_from_ms=None),
    }
)

PLAYTHROUGH: Final = Policy(name="playthrough", furthest_wins=False, kinds=KIND_RULES)
FURTHEST: Final = Policy(name="furthest", furthest_wins=True, kinds=KIND_RULES)
POLICIES: Final[Mapping[str, Policy]] = MappingProxyType({p.name: p for p in (PLAYTHROUGH, FURTHEST)})


def near_start(position_ms: int, duration_ms: int | None) -> bool:
    """Whether so little lies before this position that nothing is lost by losing it."""
    if position_ms > NEAR_START_MS:
        return False
    return duration_ms is None or position_ms * 100 <= duration_ms * NEAR_START_PERCENT


def _rounded_up(duration_ms: int, percent: int) -> int:
    """``percent`` of the duration, rounded up: a whole position reaches it exactly when it is >= the share."""
    return -(-duration_ms * percent // 100)


def _first(a: int | None, b: int) -> int:
    return b if a is None else min(a, b)
