"""When to pause fetching a unit: pure decisions over buffer sizes.

Pausing purges what librdkafka has fetched ahead, so it is a last resort: below half of the total nobody
is paused, and the poll thread simply waits when everything is full.
"""

from __future__ import annotations


def should_pause(buffered: int, paused: bool, units: int, limit: int) -> bool:
    """Return whether a unit with ``buffered`` records should be paused, of ``units`` sharing ``limit``.

    One slow unit among several stops at half of the limit, so that it cannot fill the buffer and stop
    the others; it goes on below an eighth.
    """
    if units < 2:
        return paused and buffered > limit // 8
    return buffered > limit // 8 if paused else buffered >= limit // 2


def is_full(total: int, limit: int) -> bool:
    """Return whether nothing more may be fetched at all."""
    return total >= limit
