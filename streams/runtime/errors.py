"""Errors decide policy by their type, nowhere else.

    PlayheadError
     ├─ Permanent           will fail every time: a dead letter, the neighbours go on
     ├─ Transient           may work later: retried with backoff and jitter, then a dead letter or a stop
     │   └─ Unavailable     a dependency is away: wait for it, nothing is lost by waiting (a command: exit 69)
     ├─ Fatal               this process must end and be started again (exit 70); nothing is acknowledged
     └─ ConfigurationError  starting again will not help: an operator must act (exit 78)

Anything else is a bug: it crashes the worker and the record is processed again.
"""

from __future__ import annotations

EXIT_DIFFERENCES = 1
EXIT_UNAVAILABLE = 69
EXIT_RESTART = 70
EXIT_CONFIGURATION = 78


class PlayheadError(Exception):
    """Base of the errors Playhead raises on purpose."""


class Permanent(PlayheadError):
    """``cause`` is the dead letter's cause class, from a closed list (streams/runtime/deadletter.py).

    ``correlation_id`` and ``source_id`` are the record's own, when it could be read that far.
    """

    def __init__(
        self, message: str, *, cause: str, correlation_id: str | None = None, source_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.correlation_id = correlation_id
        self.source_id = source_id


class Transient(PlayheadError):
    """The same call may succeed later."""


class Unavailable(Transient):
    """A dependency is away. ``retry_after_s`` is what a caller outside is told to wait, in seconds."""

    def __init__(self, message: str, *, retry_after_s: int = 5) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Fatal(PlayheadError):
    """This process can't go on; its successor can."""


class ConfigurationError(PlayheadError):
    """The message says what to do."""
