"""A circuit breaker: while a dependency is known to be away, say so at once instead of waiting for it again."""

from __future__ import annotations

import math

from streams.runtime import logs
from streams.runtime.clock import Clock

_log = logs.get(__name__)


class Circuit:
    """Closed: every call may try. Open, after a failure: none may, for ``rest_s`` seconds; then one may try,
    and its outcome closes the circuit or opens it again.

    Not thread-safe: one event loop uses it. Whoever got True from ``enter`` must report one outcome.
    ``name`` is what the log calls the dependency when it goes and comes back.
    """

    def __init__(self, name: str, clock: Clock, *, rest_s: float) -> None:
        self._name = name
        self._clock = clock
        self._rest_s = rest_s
        self._open_until: float | None = None
        self._trial = False

    def enter(self) -> bool:
        """Whether a call may be tried now."""
        if self._open_until is None:
            return True
        if self._trial or self._clock.monotonic() < self._open_until:
            return False
        self._trial = True
        return True

    def succeeded(self) -> None:
        if self._open_until is not None:
            _log.info("dependency is back", dependency=self._name)
        self._open_until = None
        self._trial = False

    def failed(self) -> None:
        if self._open_until is None:
            _log.warning("dependency is away", dependency=self._name)
        self._open_until = self._clock.monotonic() + self._rest_s
        self._trial = False

    def abandoned(self) -> None:
        """The caller went away before there was an outcome: the next one may try."""
        self._trial = False

    @property
    def is_open(self) -> bool:
        return self._open_until is not None

    @property
    def retry_after_s(self) -> int:
        """Whole seconds after which trying again makes sense, at least 1."""
        if self._open_until is None:
            return 1
        return max(1, math.ceil(self._open_until - self._clock.monotonic()))
