"""What a check says: whether something is in order, what it saw, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import psycopg
from confluent_kafka import KafkaException

from streams.runtime.errors import PlayheadError
from streams.runtime.settings import Settings

_AGAIN = "mend that, then run 'playhead doctor' again"


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """``says``: what was seen; ``do``: the next step, empty when there is none to take."""

    check: str
    status: Status
    says: str
    do: str = ""


Check: TypeAlias = Callable[[Settings], Iterable[Finding]]


def ok(check: str, says: str) -> Finding:
    return Finding(check, Status.OK, says)


def warn(check: str, says: str, do: str) -> Finding:
    return Finding(check, Status.WARN, says, do)


def fail(check: str, says: str, do: str) -> Finding:
    return Finding(check, Status.FAIL, says, do)


def graded(check: str, value: float, says: str, do: str, *, warn_at: float, fail_at: float) -> Finding:
    """A finding by how large ``value`` is."""
    status = Status.FAIL if value >= fail_at else Status.WARN if value >= warn_at else Status.OK
    return Finding(check, status, says, "" if status is Status.OK else do)


def found_by(name: str, check: Check, settings: Settings) -> Iterator[Finding]:
    """All that a check finds. One that can't be made is a failure with its reason; the others go on."""
    try:
        yield from check(settings)
    except PlayheadError as exc:
        yield fail(name, str(exc), _AGAIN)
    except psycopg.Error as exc:
        yield fail(name, f"PostgreSQL answers {type(exc).__name__}", "run 'playhead migrate', then this again")
    except KafkaException as exc:
        yield fail(name, f"Kafka answers {exc.args[0].name()}", _AGAIN)
