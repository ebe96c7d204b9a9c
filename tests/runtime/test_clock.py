"""The clocks agree on their units, and the fake one moves only when told to."""

from __future__ import annotations

import time

from streams.runtime.clock import FakeClock, SystemClock


def test_the_system_clock_gives_epoch_milliseconds_and_monotonic_seconds() -> None:
    clock = SystemClock()
    before, now, after = time.time(), clock.now_ms(), time.time()
    assert before * 1000 - 1 <= now <= after * 1000
    assert clock.monotonic() <= clock.monotonic()


def test_the_fake_clock_moves_only_when_told_to() -> None:
    clock = FakeClock(5_000)
    assert (clock.now_ms(), clock.monotonic()) == (5_000, 5.0)
    clock.advance(1_500)
    assert (clock.now_ms(), clock.monotonic()) == (6_500, 6.5)
