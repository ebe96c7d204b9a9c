"""The limit on dead letters: one bad record is data, a flood of them is most likely our own bug."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from .errors import FloodError


class FloodGuard:
    """Counts guarded records of one worker in the order their batches commit.

    Two limits: so many dead letters in a row, and a share of the last so many records (of that full
    number, so that a bad start of a quiet topic is not a flood).
    """

    def __init__(self, run: int, share: float, window: int) -> None:
        self._run = run
        self._window = window
        self._most = max(1, int(share * window))
        self._total = 0
        self._streak = 0
        self._recent: deque[int] = deque()

    def check(self, dead: Sequence[int], last: str = "") -> None:
        """Raise FloodError when a batch with these outcomes must not commit. Counts nothing.

        ``dead`` are the places, from 0, of the dead letters among the batch's guarded records; ``last`` says
        where the last of them lies and what was wrong with it.
        """
        if not dead:
            return
        recent = deque(self._recent)
        streak, before = self._streak, -1
        for place in dead:
            streak = streak + 1 if place == before + 1 else 1
            before = place
            at = self._total + place
            recent.append(at)
            while recent[0] <= at - self._window:
                recent.popleft()
            if streak >= self._run:
                raise _flood(f"{streak} dead letters in a row", last)
            if len(recent) >= self._most:
                raise _flood(f"{len(recent)} dead letters in the last {self._window:,} records", last)

    def count(self, guarded: int, dead: Sequence[int]) -> None:
        """Take the outcomes of a committed batch into account."""
        for place in dead:
            self._recent.append(self._total + place)
        self._streak = _streak_after(self._streak, guarded, dead)
        self._total += guarded
        while self._recent and self._recent[0] < self._total - self._window:
            self._recent.popleft()


def _flood(many: str, last: str) -> FloodError:
    return FloodError(
        f"{many}: their batch is not committed. "
        + (f"One of the last is {last}. " if last else "")
        + "Most likely it is a schema or a bug of this version, not the data: find the cause before starting again."
    )


def _streak_after(before: int, guarded: int, dead: Sequence[int]) -> int:
    """Return how many dead letters in a row end the batch."""
    streak, expected = 0, guarded - 1
    for place in reversed(dead):
        if place != expected:
            break
        streak += 1
        expected -= 1
    return before + guarded if streak == guarded else streak
