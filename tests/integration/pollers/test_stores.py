"""What polls keep, and the ledger of what was written, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

from streams.runtime.database import Database
from streams.runtime.echoes import Back, PostgresLedger, Value
from streams.runtime.errors import ConfigurationError, Permanent
from streams.runtime.polls import Key, PostgresPolls, list_health
from streams.runtime.settings import Settings
from streams.runtime.tokens import create_source
from streams.runtime.upstreams import (
    Account,
    PostgresUpstreams,
    UpstreamEntry,
    connect_upstream,
    disconnect_upstream,
)

pytestmark = pytest.mark.services
T = TypeVar("T")
ANA, FILM = "a" * 32, "f" * 32


@pytest.fixture
def door(settings: Settings) -> Settings:
    with psycopg.connect(**settings.postgres.conninfo("door")) as connection:
        create_source(connection, "music", "subsonic", "Music")
        create_source(connection, "jelly", "jellyfin", "Jelly")
        create_source(connection, "home", "native", "Home")
    return settings


def asked(settings: Settings, work: Callable[[Database], Awaitable[T]]) -> T:
    async def inside() -> T:
        # What the tables hold is asked here, not how fast a busy machine answers.
        async with Database(settings.postgres.conninfo("door"), timeout_s=60) as database:
            return await work(database)

    return asyncio.run(inside())


def test_what_was_seen_is_kept_changed_and_forgotten_place_by_place(door: Settings) -> None:
    one, two = Key("ana", "bookmarks", "m1"), Key("ana", "playing", "player 'x\"")

    async def work(database: Database) -> None:
        polls = PostgresPolls(database)
        assert await polls.seen("music", [one, two]) == {}
        await polls.keep("music", {one: {"id": "1"}, two: {"at": 5, "media": "ü\\"}})
        assert await polls.seen("music", [one, two]) == {one: {"id": "1"}, two: {"at": 5, "media": "ü\\"}}
        assert await polls.seen("jelly", [one, two]) == {}
        assert await polls.seen_in("music", "playing") == {two: {"at": 5, "media": "ü\\"}}
        await polls.keep("music", {one: {"id": "2"}, two: None})
        assert await polls.seen("music", [one, two, Key("ben", "bookmarks", "m1")]) == {one: {"id": "2"}}
        assert await polls.seen("music", []) == {}
        await polls.keep("music", {})

    asked(door, work)


def test_health_counts_failures_in_a_row_and_remembers_the_last_sweep(door: Settings) -> None:
    async def work(database: Database) -> None:
        polls = PostgresPolls(database)
        assert await polls.sweep_is_due("music", 3_600)
        assert await polls.fared("music", cause=None, swept=True, next_in_s=30) == 0
        assert not await polls.sweep_is_due("music", 3_600)
        assert await polls.sweep_is_due("music", 0)
        assert await polls.fared("music", cause="away", swept=False, next_in_s=30) == 1
        assert await polls.fared("music", cause="away", swept=False, next_in_s=None) == 2
        assert not await polls.sweep_is_due("music", 3_600)
        await polls.put_off("music", 600)

    asked(door, work)
    with psycopg.connect(**door.postgres.conninfo("door")) as connection:
        (health,) = list_health(connection)
    assert (health.source_id, health.cause, health.failures) == ("music", "away", 2)
    assert health.succeeded_at is not None
    assert health.next_at is not None
    assert health.next_at > health.attempted_at
    assert health.channel is None

    async def listened(database: Database) -> int:
        return await PostgresPolls(database).fared("music", cause=None, swept=False, next_in_s=1, channel="open")

    assert asked(door, listened) == 0
    with psycopg.connect(**door.postgres.conninfo("door")) as connection:
        assert [health.channel for health in list_health(connection)] == ["open"]


def test_a_server_and_its_accounts_are_kept_replaced_and_forgotten(door: Settings) -> None:
    with psycopg.connect(**door.postgres.conninfo("door"), autocommit=True) as connection:
        for name, secret in (("ana", "one secret"), ("ben", "another"), ("ana", "changed")):
            account = Account(name, "token", secret)
            connect_upstream(connection, "music", "http://nas.lan:4533", account, interval_s=30, verify_tls=True)
        key = Account("", "api_key", "abcdef0123")
        connect_upstream(connection, "jelly", "https://jelly.lan:443", key, interval_s=60, verify_tls=False)

        def pollable(*names: str) -> list[UpstreamEntry]:
            return asked(door, lambda database: PostgresUpstreams(database).pollable(names))

        ana, ben = Account("ana", "token", "changed"), Account("ben", "token", "another")
        music = UpstreamEntry("music", "subsonic", "http://nas.lan:4533", 30, True, (ana, ben))
        jelly = UpstreamEntry("jelly", "jellyfin", "https://jelly.lan:443", 60, False, (key,))
        assert pollable() == [jelly, music]
        assert pollable("music", "none such") == [music]
        assert "changed" not in repr(music)
        assert disconnect_upstream(connection, "music", "ana") == 1
        assert pollable("music") == [UpstreamEntry("music", "subsonic", "http://nas.lan:4533", 30, True, (ben,))]
        assert disconnect_upstream(connection, "music", None) == 1
        assert pollable() == [jelly]
        assert disconnect_upstream(connection, "music", None) == 0


@pytest.mark.parametrize(
    ("source", "account"),
    [
        ("nowhere", Account("ana", "token", "secret")),
        ("home", Account("ana", "token", "secret")),
        ("music", Account("", "token", "secret")),
        ("music", Account("a\0", "token", "secret")),
        ("music", Account("a" * 257, "token", "secret")),
        ("music", Account("ana", "basic", "secret")),
        ("music", Account("ana", "token", "")),
        ("music", Account("ana", "token", "line\r\nbreak")),
        ("jelly", Account("", "api_key", 'quote"d')),
        ("jelly", Account("", "api_key", "ümlaut")),
        ("jelly", Account("", "token", "secret")),
    ],
)
def test_what_can_not_be_polled_is_refused_and_its_secret_not_repeated(
    door: Settings, source: str, account: Account
) -> None:
    with psycopg.connect(**door.postgres.conninfo("door")) as connection:
        with pytest.raises(Permanent) as refused:
            connect_upstream(connection, source, "http://nas.lan:80", account, interval_s=30, verify_tls=True)
        assert not account.secret or account.secret not in str(refused.value)


def test_the_ledger_knows_what_was_sent_until_it_came_back_both_ways(door: Settings) -> None:
    async def work(database: Database) -> None:
        ledger = PostgresLedger(database)
        back = [Back(ANA, FILM, Value(position_ms=at)) for at in (60_000, 30_400, 90_000)]
        assert await ledger.returning("jelly", "hook", back) == {}
        await ledger.sent("jelly", ANA, FILM, Value(position_ms=30_000))
        await ledger.sent("jelly", ANA, FILM, Value(position_ms=30_000))
        await ledger.sent("music", ANA, FILM, Value(position_ms=60_000))
        await ledger.sent("jelly", ANA, FILM, Value(played=True), expiry_s=-1)
        (first,) = (await ledger.returning("jelly", "hook", back)).values()
        assert await ledger.returning("jelly", "hook", back) == {1: first}, "until it is said to have returned"
        twice = [Back(ANA, FILM, Value(position_ms=30_000)), Back(ANA, FILM, Value(position_ms=31_000))]
        assert len(set((await ledger.returning("jelly", "hook", twice)).values())) == 2
        await ledger.returned("hook", [first])
        (second,) = (await ledger.returning("jelly", "hook", back)).values()
        assert second != first
        assert await ledger.returning("jelly", "poll", back) == {1: first}
        await ledger.returned("poll", [first])
        await ledger.returned("poll", [first])
        assert await ledger.returning("jelly", "poll", back) == {1: second}
        assert await ledger.returning("jelly", "hook", [Back(ANA, FILM, Value(played=True))]) == {}, "it expired"
        assert await ledger.returning("jelly", "hook", [Back("b" * 32, FILM, Value(position_ms=30_000))]) == {}

    asked(door, work)
    with psycopg.connect(**door.postgres.conninfo("door")) as connection:
        # Returned both ways, and expired: gone.
        assert connection.execute("SELECT count(*) FROM core.forward_sent").fetchone() == (2,)


def test_a_secret_file_is_read_when_it_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "key"
    account = Account("", "api_key", secret_file=str(file))
    with pytest.raises(ConfigurationError):
        account.reveal()
    file.write_text("abc123\n")
    assert account.reveal() == "abc123"
    file.write_text("two\nlines")
    with pytest.raises(ConfigurationError):
        account.reveal()
