"""What was looked up lately: bounded, fresh for a while, and usable for longer when the original is away."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from streams.runtime.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memory(Generic[K, V]):
    """At most ``size`` entries, the least recently used fall out. Not thread-safe."""

    def __init__(self, clock: Clock, *, size: int, fresh_s: float, stale_s: float = 0.0) -> None:
        self._clock = clock
        self._size = size
        self._fresh_s = fresh_s
        self._stale_s = max(fresh_s, stale_s)
        self._entries: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def fresh(self, key: K) -> V | None:
        """The value learned less than ``fresh_s`` ago."""
        return self._within(key, self._fresh_s)

    def stale(self, key: K) -> V | None:
        """The value learned less than ``stale_s`` ago: better than nothing while the original is away."""
        return self._within(key, self._stale_s)

    def learn(self, key: K, value: V) -> None:
        self._entries[key] = (value, self._clock.monotonic())
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def forget(self, key: K) -> None:
        self._entries.pop(key, None)

    def _within(self, key: K, seconds: float) -> V | None:
        entry = self._entries.get(key)
        if entry is None or self._clock.monotonic() - entry[1] >= seconds:
            return None
        self._entries.move_to_end(key)
        return entry[0]
