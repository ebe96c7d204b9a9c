"""Kind ``cache``: a heavy list that became stale is read into the cache again, page by page, under its lease
``lock:cache:collection:{id}``; never by who asks for it, and never by who writes it.

Whatever goes wrong, the pages are read when they are asked for: nothing of this is a dead letter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from streams.effects.kinds import Kind
from streams.runtime.errors import Transient
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.leases import CameToNothing, Lease

NAME: Final = "cache"
AT_ONCE: Final = 1
TARGET_S: Final = 30.0
ATTEMPTS_MAX: Final = 5

Warm = Callable[[str], Iterator[int]]
"""Reads the pages of a collection one by one; after each, how many entries it had."""


def cache_kind(warm: Warm | None, failpoint: Failpoint = disarmed) -> Kind:
    """``warm`` None: there is no cache here."""

    def run(lease: Lease) -> None:
        if warm is None:
            raise CameToNothing("there is no cache")
        entries = 0
        try:
            lease.check()
            for count in warm(lease.task.key):
                entries += count
                failpoint("cache.page")
                lease.check()
                lease.say({"entries": entries})
        except Transient as exc:
            if lease.task.attempt >= ATTEMPTS_MAX:
                raise CameToNothing(f"given up: {exc}") from exc
            raise

    return Kind(NAME, run, AT_ONCE, TARGET_S)
