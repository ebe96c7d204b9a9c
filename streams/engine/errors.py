"""What can go wrong, sorted by what must happen then.

Policy is decided by type, never by message:

    PermanentError    this one record can never be processed: dead letter, go on
    EngineError       the worker ends; ``exit_code`` tells its supervisor what to do
    ├── Crash         1: fenced, unknown outcome, broken invariant, an agent's own bug
    ├── Hung          70: something does not return; start me again
    └── Refused       78: an operator has to decide; starting again changes nothing
        ├── FloodError    too many dead letters, most likely a bug and not the data
        └── Disagreement  group and changelog name different source offsets
    Aborted, Closed   internal: the batch is delivered again, or belongs to another worker
"""

from __future__ import annotations

from typing import ClassVar

EXIT_CLEAN = 0
EXIT_CRASH = 1
EXIT_RESTART = 70
EXIT_REFUSED = 78


class PermanentError(Exception):
    """Raised by agent code inside ``batch.guard``: no retry can make this record processable."""


class EngineError(Exception):
    """The worker cannot go on. Nothing is lost by exiting: what was not committed is read again."""

    exit_code: ClassVar[int] = EXIT_CRASH


class Crash(EngineError):
    """Fenced, transaction outcome unknown, or an invariant does not hold."""


class Hung(EngineError):
    """A call into Kafka, the poll thread or the event loop does not come back."""

    exit_code = EXIT_RESTART


class Refused(EngineError):
    """Going on would need a guess that only an operator may make. The message says what to do."""

    exit_code = EXIT_REFUSED


class FloodError(Refused):
    """Dead letters beyond the limits. Nothing of the batch that tripped it is committed."""


class Disagreement(Refused):
    """The group's offset and the changelog's differ. Only true when the group's is fresh, see the poll thread."""


class Aborted(Exception):
    """The transaction is rolled back at the broker; the same records may be processed again."""


class Closed(Exception):
    """The unit was given away before the batch began to commit; its next owner reads the records."""


def exit_code(error: BaseException | None) -> int:
    """Return the process exit code for what ended the worker; ``None`` is a clean end."""
    if error is None:
        return EXIT_CLEAN
    if isinstance(error, EngineError):
        return error.exit_code
    return EXIT_CRASH
