"""Kind ``metadata``: details are read again. Of a whole source, that is a full scan, asked for in its own name.

Of one item it is so as well: a scan reads by its own rules, and an item is never read behind the back of a scan that
is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from streams.effects.kinds import Kind
from streams.effects.requesting import Requests
from streams.runtime.leases import Lease

NAME: Final = "metadata"
AT_ONCE: Final = 1
TARGET_S: Final = 600.0


def metadata_kind(requests: Callable[[], AbstractContextManager[Requests]]) -> Kind:
    def run(lease: Lease) -> None:
        lease.check()
        with requests() as asking:
            asking.scan(lease.task.source_id, "operator", full=True, correlation_id=lease.task.correlation_id)

    return Kind(NAME, run, AT_ONCE, TARGET_S)
