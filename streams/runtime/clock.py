"""Time, handed in. Nothing is ordered by these clocks; they fill in received_at, deadlines and back-offs."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall clock, epoch milliseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, from an arbitrary start."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class FakeClock:
    """A clock that moves only when told to, for tests."""

    def __init__(self, now_ms: int = 1_796_069_700_000) -> None:
        self._now_ms = now_ms

    def advance(self, ms: int) -> None:
        self._now_ms += ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._now_ms / 1000
