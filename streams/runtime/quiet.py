"""Client libraries repeat themselves while a server is away; once a while is enough."""

from __future__ import annotations

import logging
import re
import time

REPEAT_S = 30.0
_REMEMBERED_MAX = 200
# Addresses' ports, connection numbers and durations make equal messages differ.
_NUMBERS = re.compile(r"\d+")


class QuietRepeats(logging.Filter):
    """Lets a message of a logger pass once every ``repeat_s`` seconds, numbers in it not counted."""

    def __init__(self, repeat_s: float = REPEAT_S) -> None:
        super().__init__()
        self._repeat_s = repeat_s
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        message = _NUMBERS.sub("", record.getMessage())
        now = time.monotonic()
        last = self._last.get(message)
        if last is not None and now - last < self._repeat_s:
            return False
        if len(self._last) >= _REMEMBERED_MAX:
            self._last.clear()
        self._last[message] = now
        return True


def quieted(name: str) -> logging.Logger:
    """The logger of that name, repeating itself no more. Calling it again changes nothing."""
    logger = logging.getLogger(name)
    if not any(isinstance(one, QuietRepeats) for one in logger.filters):
        logger.addFilter(QuietRepeats())
    return logger
