"""What was looked up lately."""

from __future__ import annotations

from streams.runtime.clock import FakeClock
from streams.runtime.memory import Memory


def test_a_value_is_fresh_then_stale_then_gone() -> None:
    clock = FakeClock()
    memory = Memory[str, int](clock, size=10, fresh_s=1.0, stale_s=5.0)
    memory.learn("a", 1)
    clock.advance(999)
    assert memory.fresh("a") == 1
    clock.advance(1)
    assert (memory.fresh("a"), memory.stale("a")) == (None, 1)
    clock.advance(4_000)
    assert memory.stale("a") is None


def test_the_least_recently_used_fall_out() -> None:
    memory = Memory[str, int](FakeClock(), size=2, fresh_s=1.0)
    memory.learn("a", 1)
    memory.learn("b", 2)
    assert memory.fresh("a") == 1
    memory.learn("c", 3)
    assert [memory.fresh(key) for key in "abc"] == [1, None, 3]


def test_forgetting_is_at_once_and_forgetting_nothing_is_no_error() -> None:
    memory = Memory[str, int](FakeClock(), size=2, fresh_s=1.0)
    memory.learn("a", 1)
    memory.forget("a")
    memory.forget("a")
    assert memory.fresh("a") is None
