"""Buckets: a burst, then the rate; each sender its own; bounded memory."""

from __future__ import annotations

import pytest

from streams.runtime import rates as module
from streams.runtime.clock import FakeClock
from streams.runtime.rates import BURST_S, Rates, network_of


def test_a_burst_passes_then_the_rate_and_a_refusal_says_how_long_and_costs_nothing() -> None:
    clock = FakeClock()
    rates = Rates(clock, 10)
    burst = int(10 * BURST_S)
    assert [rates.take("a") for _ in range(burst)] == [0] * burst
    assert [rates.take("a") for _ in range(100)] == [1] * 100
    clock.advance(100)
    assert [rates.take("a"), rates.take("a")] == [0, 1]
    clock.advance(3_600_000)
    assert [rates.take("a") for _ in range(burst + 1)] == [0] * burst + [1]


def test_each_sender_has_its_own() -> None:
    rates = Rates(FakeClock(), 0.1)
    assert (rates.take("a"), rates.take("a"), rates.take("b")) == (0, 10, 0)


def test_a_rate_of_nought_is_no_limit() -> None:
    rates = Rates(FakeClock(), 0)
    assert {rates.take("a") for _ in range(10_000)} == {0}


def test_a_flood_of_senders_takes_bounded_memory_and_leaves_the_busy_one_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "KEPT_MAX", 10)
    rates = Rates(FakeClock(), 0.5)
    assert rates.take("busy") == 0
    for number in range(1_000):
        rates.take(str(number))
        assert rates.take("busy") > 0
    assert len(rates._buckets) == 10


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::1", "::/64"),
        ("not:an:address", "not:an:address"),
    ],
)
def test_one_sender_is_an_ipv4_address_or_an_ipv6_network(address: str, network: str) -> None:
    assert network_of(address) == network
