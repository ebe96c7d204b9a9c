"""Kind ``reconcile``: what was asked to be compared is compared. One task a source; each scope that was asked for since
it was done last is done once.

The comparing needs the read models, which are above this package: it is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from streams.effects.kinds import Kind
from streams.effects.retry import RetryPolicy
from streams.runtime.leases import Lease, Task

NAME: Final = "reconcile"
AT_ONCE: Final = 1
TARGET_S: Final = 3_600.0
RETRY: Final = RetryPolicy(attempts=3)
_SCOPE: Final = "scope "

Compare: TypeAlias = Callable[[str, Collection[str], str, Callable[[], None]], None]
"""Source, what to compare, correlation id, and what to call now and then: it raises when the task is not ours any
more."""


def reconcile_kind(compare: Compare) -> Kind:
    def run(lease: Lease) -> None:
        lease.check()
        compare(lease.task.source_id, scopes_of(lease.task), lease.task.correlation_id, lease.check)
        lease.check()

    return Kind(NAME, run, AT_ONCE, TARGET_S, RETRY)


def scopes_of(task: Task) -> list[str]:
    """What was asked for since the task was done last."""
    return sorted(
        name.removeprefix(_SCOPE)
        for name, version in task.payload.items()
        if name.startswith(_SCOPE) and int(version) > task.done_version
    )
