"""Reports for the playback agent as the door would write them: the household of the fault tests, at any size."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache

from schemas.events import PlaybackReported
from schemas.placement import playback_key, playback_partition
from streams.runtime.contract import Contract
from tests.faults.workload import Workload

BEGIN_MS = 1_750_000_000_000
SEED = 1


def reports(count: int) -> Iterator[PlaybackReported]:
    """About ``count`` reports of ``count / 60`` people: several sessions and media each, 5 % duplicates, 5 % late."""
    for batch in Workload(SEED, count, BEGIN_MS).batches(1_000):
        for report in batch:
            named = dict(report)
            user, media = named.pop("user"), named.pop("media")
            yield PlaybackReported(
                correlation_id="bench", source_id="bench", received_at=named["occurred_at"] + 50,
                user_ref=_hex(user), media_id=_hex(media), upstream_media=media, **named,
            )  # fmt: skip


def placed(count: int, contract: Contract) -> Iterator[tuple[int, bytes, bytes]]:
    """The same as (partition, key, value)."""
    for event in reports(count):
        key = playback_key(event.user_ref, event.media_id)
        yield playback_partition(key), key, contract.encode(event)


@cache
def _hex(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]
