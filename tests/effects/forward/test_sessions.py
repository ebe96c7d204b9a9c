"""Whose turn it is at a server, and as whom it is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streams.effects.forward.sessions import Sessions
from streams.effects.kinds import NotNow
from streams.runtime.clock import FakeClock
from streams.runtime.upstreams import Account, UpstreamEntry
from streams.upstream.errors import NotAllowed


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def sessions(clock: FakeClock) -> Iterator[Sessions]:
    with Sessions(clock, per_s=1.0, at_once=2) as made:
        yield made


def entry(kind: str, *accounts: Account, url: str = "http://127.0.0.1:9") -> UpstreamEntry:
    return UpstreamEntry("home", kind, url, 30, True, accounts)


def test_a_slow_server_does_not_take_the_places_of_others(sessions: Sessions) -> None:
    with sessions.turn("slow"), sessions.turn("slow"):
        with pytest.raises(NotNow), sessions.turn("slow"):
            pass
        with sessions.turn("quick"):
            pass


def test_a_server_is_told_so_much_a_second_and_a_burst(sessions: Sessions, clock: FakeClock) -> None:
    for _ in range(2):
        with sessions.turn("home"):
            pass
    with pytest.raises(NotNow) as refused, sessions.turn("home"):
        pass
    assert refused.value.retry_after_s >= 1
    clock.advance(1_000)
    with sessions.turn("home"):
        pass


def test_a_turn_that_failed_is_over(sessions: Sessions) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="x"), sessions.turn("home"):
            raise ValueError("x")


@pytest.mark.parametrize(
    ("kind", "accounts", "user", "found"),
    [
        ("jellyfin", [""], "anybody", True),
        ("plex", [""], "1", True),
        ("plex", [""], "48211", False),
        ("plex", ["", "48211"], "48211", True),
        ("subsonic", ["ana", "ben"], "ben", True),
        ("subsonic", ["ana"], "ben", False),
        ("listenbrainz", ["ana"], "ben", False),
    ],
)
def test_nobody_is_told_of_with_anothers_account(
    sessions: Sessions, kind: str, accounts: list[str], user: str, found: bool
) -> None:
    known = [Account(name, "token" if kind == "subsonic" else "api_key", "secret") for name in accounts]
    assert (sessions.server_for(entry(kind, *known), user) is not None) == found


def test_a_session_is_kept_until_its_secret_or_address_is_another(sessions: Sessions) -> None:
    first = sessions.server_for(entry("jellyfin", Account("", "api_key", "one")), "ana")
    assert sessions.server_for(entry("jellyfin", Account("", "api_key", "one")), "ana") is first
    assert sessions.server_for(entry("jellyfin", Account("", "api_key", "two")), "ana") is not first
    moved = entry("jellyfin", Account("", "api_key", "one"), url="http://127.0.0.1:10")
    assert sessions.server_for(moved, "ana") is not first


def test_an_address_that_nothing_is_asked_of_is_not_told_either(sessions: Sessions) -> None:
    with pytest.raises(NotAllowed):
        sessions.server_for(entry("jellyfin", Account("", "api_key", "one"), url="http://nobody:pw@x"), "ana")
