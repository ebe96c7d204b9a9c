"""Tokens: one path for all that do not count, a short memory, and what happens without the database."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from streams.runtime.clock import FakeClock
from streams.runtime.database import DatabaseAway
from streams.runtime.tokens import STALE_S, TTL_S, Authenticator, Principal, Scope, Unauthenticated, hash_of
from tests.ingest.fakes import FakeTokens, token

GOOD = token("g")
HOLDER = Principal("t-1", "home", frozenset({Scope.REPORT}))


def house() -> tuple[FakeTokens, FakeClock, Authenticator]:
    store, clock = FakeTokens(rows={hash_of(GOOD): HOLDER}), FakeClock()
    return store, clock, Authenticator(store, clock)


def ask(authenticator: Authenticator, text: str | None) -> Principal | None:
    try:
        return asyncio.run(authenticator.authenticate(text))
    except Unauthenticated:
        return None


def test_what_is_stored_is_a_sha_256_and_never_the_token() -> None:
    assert hash_of(GOOD) == hashlib.sha256(GOOD.encode()).digest()


def test_a_good_token_is_its_holder_and_asked_for_once() -> None:
    store, _, authenticator = house()
    assert ask(authenticator, GOOD) == HOLDER
    assert ask(authenticator, GOOD) == HOLDER
    assert store.asked == [hash_of(GOOD)]


@pytest.mark.parametrize(
    "text", [None, "", "ph_", "ph_short", "Bearer", "ph_" + "x" * 44, "ph_" + "ü" * 43, "\0", "ph_\ud800" + "x" * 42]
)
def test_missing_and_malformed_tokens_take_the_path_of_unknown_ones(text: str | None) -> None:
    store, _, authenticator = house()
    assert ask(authenticator, text) is None
    assert store.asked == [hashlib.sha256(b"").digest()]
    store.database.away = True
    unknown, missing = token("u"), text
    for one in (unknown, missing):
        with pytest.raises(DatabaseAway):
            asyncio.run(Authenticator(store, FakeClock()).authenticate(one))


def test_a_revoked_token_stops_within_the_time_to_live() -> None:
    store, clock, authenticator = house()
    assert ask(authenticator, GOOD) == HOLDER
    store.rows.clear()
    clock.advance(int(TTL_S * 1000))
    assert ask(authenticator, GOOD) is None
    assert TTL_S <= 30
    store.database.away = True
    clock.advance(6_000)
    with pytest.raises(DatabaseAway):
        ask(authenticator, GOOD)


def test_a_new_token_works_soon_after_it_was_tried_too_early() -> None:
    store, clock, authenticator = house()
    assert ask(authenticator, token("n")) is None
    store.rows[hash_of(token("n"))] = HOLDER
    clock.advance(5_000)
    assert ask(authenticator, token("n")) == HOLDER


def test_with_the_database_away_a_known_token_goes_on_for_a_while() -> None:
    store, clock, authenticator = house()
    assert ask(authenticator, GOOD) == HOLDER
    store.database.away = True
    clock.advance(int(STALE_S * 1000) - 1)
    assert ask(authenticator, GOOD) == HOLDER
    clock.advance(1)
    with pytest.raises(DatabaseAway):
        ask(authenticator, GOOD)


def test_a_flood_of_unknown_tokens_does_not_push_out_the_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.runtime.tokens.CACHED_MAX", 10)
    store, _, authenticator = house()

    async def flood() -> None:
        await authenticator.authenticate(GOOD)
        for index in range(100):
            with pytest.raises(Unauthenticated):
                await authenticator.authenticate(f"ph_{index:043d}")
        store.asked.clear()
        await authenticator.authenticate(GOOD)

    asyncio.run(flood())
    assert store.asked == []


@pytest.mark.parametrize(
    ("held", "may"),
    [
        ({Scope.REPORT}, {Scope.REPORT}),
        ({Scope.READ}, {Scope.READ}),
        ({Scope.REPORT, Scope.READ}, {Scope.REPORT, Scope.READ}),
        ({Scope.OPERATE}, set(Scope)),
        (set[Scope](), set[Scope]()),
    ],
)
def test_a_scope_allows_itself_and_operate_allows_all(held: set[Scope], may: set[Scope]) -> None:
    principal = Principal("t", None, frozenset(held))
    assert {scope for scope in Scope if principal.may(scope)} == may
