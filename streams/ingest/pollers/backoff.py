"""How long after failures in a row, of polls and of push channels alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

BACKOFF_S_MAX: Final = 1_800.0

Chance: TypeAlias = Callable[[float, float], float]


def back_off_s(
    failures: int, interval_s: float, chance: Chance, *, least_s: float, asked_s: float | None = None
) -> float:
    """Seconds to wait: full jitter below twice the interval for the first of ``failures``, doubled for each other up
    to BACKOFF_S_MAX; never less than ``least_s``, or than ``asked_s`` which the server asked for."""
    most = min(BACKOFF_S_MAX, interval_s * 2 ** min(failures, 16))
    return max(least_s, chance(0, most), asked_s or 0.0)
