"""Kinds of tasks: what is done, by how many at once, how long it may take, how it is tried again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from streams.effects.retry import RetryPolicy
from streams.runtime.errors import Transient
from streams.runtime.leases import Lease


class NotNow(Transient):
    """It is not this task's turn: again in ``retry_after_s``. No failure, and no attempt."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Kind:
    """``run`` does the task of a lease it must check before every write; it returns when the task is done, and raises
    Transient (again later), NotNow, Permanent (never), Cancelled or LeaseLost. ``at_once``: places in one process.
    ``target_s``: from request to done."""

    name: str
    run: Callable[[Lease], None]
    at_once: int
    target_s: float
    retry: RetryPolicy = field(default_factory=RetryPolicy)
