"""Kind ``metadata``: details are read again. Of a whole source, that is a full scan, asked for in its own name.

Of one item it is so as well: a scan reads what is new for one stat of each other file, and by its rules. An item is
therefore never read behind the back of a scan that is under way.
"""

from __future__ import annotations

from typing import Final

from streams.effects.kinds import Kind
from streams.effects.requesting import Requests
from streams.runtime.leases import Lease

NAME: Final = "metadata"
AT_ONCE: Final = 1
TARGET_S: Final = 600.0


def metadata_kind(requests: Requests) -> Kind:
    def run(lease: Lease) -> None:
        lease.check()
        requests.scan(lease.task.source_id, "operator", full=True, correlation_id=lease.task.correlation_id)

    return Kind(NAME, run, AT_ONCE, TARGET_S)
