"""How much one sender may send: a bucket that fills at a rate and holds a burst, for each of bounded many."""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from streams.runtime.clock import Clock

KEPT_MAX: Final = 10_000
BURST_S: Final = 2.0
"""A bucket holds what its rate gives in this time."""
_PREFIX: Final = 64
_ROUNDING: Final = 1e-6


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Rates:
    """``per_s``: requests a second for each key, 0 for no limit. Not thread-safe: one event loop uses it.

    At most KEPT_MAX keys are remembered; one that falls out, the longest unseen, begins anew with a full bucket.
    """

    def __init__(self, clock: Clock, per_s: float) -> None:
        self._clock = clock
        self._per_s = per_s
        self._burst = max(1.0, per_s * BURST_S)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, key: str) -> int:
        """0 when ``key`` may go on; else the whole seconds, 1 or more, until it may. Being refused costs nothing."""
        if not self._per_s:
            return 0
        now = self._clock.monotonic()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(self._burst, now)
            if len(self._buckets) > KEPT_MAX:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
            bucket.left = min(self._burst, bucket.left + (now - bucket.at) * self._per_s)
            bucket.at = now
        if bucket.left < 1 - _ROUNDING:
            return max(1, math.ceil((1 - bucket.left) / self._per_s))
        bucket.left = max(0.0, bucket.left - 1)
        return 0


def network_of(address: str) -> str:
    """What counts as one sender: an IPv4 address; of IPv6 the network of 64 bits that one household has."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed) >> _PREFIX << _PREFIX, _PREFIX)))
