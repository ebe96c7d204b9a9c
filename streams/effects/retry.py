"""What becomes of a failed attempt: pure, by the type of its error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from streams.runtime.errors import ConfigurationError, Permanent, PlayheadError, Transient, Unavailable

FIRST_S: Final = 2.0
LONGEST_S: Final = 300.0
ATTEMPTS: Final = 8

Chance: TypeAlias = Callable[[float, float], float]
"""A number between two others, each equally likely: random.uniform."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Pauses double from ``first_s`` to ``longest_s``; of each, a random part is waited (full jitter), so that what
    failed together does not come back together. ``attempts``: then it is given up."""

    first_s: float = FIRST_S
    longest_s: float = LONGEST_S
    attempts: int = ATTEMPTS

    def longest_pause_s(self, attempt: int) -> float:
        """After the failure of attempt 1, 2, …"""
        return min(self.longest_s, self.first_s * 2.0 ** min(attempt - 1, 32))


@dataclass(frozen=True, slots=True)
class Again:
    """Try again in so many seconds."""

    in_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """A dead letter, until it is requested again."""


@dataclass(frozen=True, slots=True)
class Crash:
    """Not foreseen: this process must end by it."""


After: TypeAlias = Again | GiveUp | Crash


def after(error: BaseException, attempt: int, policy: RetryPolicy, chance: Chance) -> After:
    """What follows from attempt number ``attempt`` (from 1) ending with ``error``."""
    match error:
        case Transient():
            if attempt >= policy.attempts:
                return GiveUp()
            pause_s = chance(0.0, policy.longest_pause_s(attempt))
            # A media server that says when it may be asked again is not asked before.
            asked_s = None if isinstance(error, Unavailable) else getattr(error, "retry_after_s", None)
            return Again(max(pause_s, min(float(asked_s), policy.longest_s)) if asked_s else pause_s)
        case Permanent() | ConfigurationError():
            return GiveUp()
        case PlayheadError() if hasattr(error, "cause"):
            # What a media server or a file tree refuses for good (streams/upstream/errors.py).
            return GiveUp()
        case _:
            return Crash()
