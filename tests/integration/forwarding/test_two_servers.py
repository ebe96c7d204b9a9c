"""Watched on one server, it goes on on the other: two Jellyfins, polled."""

from __future__ import annotations

import pytest

from streams.runtime.upstreams import Account
from tests.ingest.pollers.servers.jellyfin import ANA, BEN, TICKS, TOKEN, FakeJellyfin
from tests.integration.forwarding.household import Home, Household

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("forwarding")]

FILM, SAME_FILM = "a" * 32, "b" * 32
LENGTH_MS = 6_000_000
IMDB = {"imdb": "tt1"}


class Two:
    """``den`` and ``attic`` have the same film under other ids, and one person another account on each."""

    def __init__(self, household: Household) -> None:
        self.household = household
        clock = household.clock
        key = Account("", "api_key", TOKEN)
        self.den = household.add("den", "jellyfin", FakeJellyfin(clock, {FILM: LENGTH_MS}), ANA, key)
        self.attic = household.add("attic", "jellyfin", FakeJellyfin(clock, {SAME_FILM: LENGTH_MS}), BEN, key)
        household.item(self.den, FILM, LENGTH_MS, IMDB)
        household.item(self.attic, SAME_FILM, LENGTH_MS, IMDB | {"tmdb": "5"})

    def watch(self, position_ms: int, *, stop: bool = True) -> None:
        """On the den's server, up to here."""
        fake = self.den.fake
        if not fake.playing:
            fake.start(ANA, FILM)
        self.household.pass_time(20)
        fake.progress(ANA, position_ms)
        if stop:
            fake.stop(ANA, position_ms)
        self.household.poll(self.den)

    def at(self, home: Home) -> tuple[int, bool, int]:
        """Position in ms, played, play count."""
        [data] = home.fake.data.values()
        return data["PlaybackPositionTicks"] // TICKS, data["Played"], data["PlayCount"]


@pytest.fixture
def two(household: Household) -> Two:
    return Two(household)


def test_watched_on_one_it_goes_on_on_the_other_and_comes_back_as_an_echo(two: Two) -> None:
    two.watch(1_800_000)
    two.household.work()
    assert two.at(two.attic) == (1_800_000, False, 0)
    reports = two.household.poll(two.attic)
    assert [(report.origin, report.position_ms) for report in reports] == [("echo", 1_800_000)]
    assert two.household.decided()[-1].reason == "echo"
    assert two.household.go_round() == 0
    assert two.household.letters.written == []
