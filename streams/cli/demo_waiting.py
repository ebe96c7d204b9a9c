"""What the demo waits for, and its end when something does not become what it must."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

SETTLE_S: Final = 120.0
POLL_S: Final = 0.05
T = TypeVar("T")


def until(what: str, look: Callable[[], T | None], within_s: float = SETTLE_S) -> T:
    """What ``look`` returns once it is neither None nor False. Raises RuntimeError when it stays so."""
    deadline = time.monotonic() + within_s
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if time.monotonic() > deadline:
            raise RuntimeError(f"after {within_s:.0f} s still not: {what}")
        time.sleep(POLL_S)


def clock(ms: int) -> str:
    """A place in a media, for people."""
    seconds = ms // 1000
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
