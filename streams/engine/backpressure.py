"""When to pause fetching a unit: pure decisions over what buffers hold, in records.

Pausing purges what librdkafka has fetched ahead, so it is a last resort: below half of the total nobody
is paused, and the poll thread simply waits when everything is full.
"""

from __future__ import annotations


def should_pause(buffered: int, paused: bool, units: int, limit: int, *, stuck: bool = False) -> bool:
    """Return whether a unit with ``buffered`` records should be paused, of ``units`` sharing ``limit``.

    One slow unit among several stops at half of the limit, so that it cannot fill the buffer and stop
    the others; it goes on below an eighth. Several slow ones can fill it all the same. Then it is ``stuck``:
    full, and nothing leaves it. Units that hold their share or more stop and the others go on up to theirs,
    so the buffer is bounded by one and a half times the limit and nobody is starved.
    """
    if stuck:
        share = fair_share(units, limit)
        return buffered > share // 2 if paused else buffered >= share
    if units < 2:
        return paused and buffered > limit // 8
    return buffered > limit // 8 if paused else buffered >= limit // 2


def fair_share(units: int, limit: int) -> int:
    """Return how many records each unit may hold though the buffer is stuck."""
    return max(1, limit // (2 * max(1, units)))


def is_full(total: int, limit: int) -> bool:
    """Return whether nothing more may be fetched as long as records leave the buffer."""
    return total >= limit
