"""People, aliases, sources and tokens on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import psycopg
import pytest

from streams.ingest.media import Facts, LibraryFacts
from streams.runtime.clock import FakeClock, SystemClock
from streams.runtime.database import Database as DoorDatabase
from streams.runtime.errors import Permanent
from streams.runtime.people import AliasStore, PeopleStore, PostgresAliases, PostgresPeople, PostgresSources
from streams.runtime.tokens import (
    Authenticator,
    PostgresTokens,
    Scope,
    Unauthenticated,
    create_source,
    create_token,
    list_sources,
    list_tokens,
    revoke_token,
    rotate_token,
)
from tests.ingest.people_contract import AliasStoreContract, PeopleStoreContract
from tests.integration.ingest.house import conninfo_of
from tests.stack import Database

pytestmark = pytest.mark.services
T = TypeVar("T")
ANSWER_S = 60.0


class _OnPostgres:
    @pytest.fixture(autouse=True)
    def _tables(self, core: Database) -> None:
        self.conninfo = conninfo_of(core)

    def with_two(self, scene: Callable[[DoorDatabase, DoorDatabase], Awaitable[T]]) -> T:
        async def inside() -> T:
            # What the tables hold is asked here, not how fast a busy machine answers.
            one, two = (DoorDatabase(self.conninfo, timeout_s=ANSWER_S) for _ in range(2))
            async with one, two:
                return await scene(one, two)

        return asyncio.run(inside())


class TestPostgresPeople(_OnPostgres, PeopleStoreContract):
    def run(self, test: Callable[[PeopleStore, PeopleStore], Awaitable[T]]) -> T:
        return self.with_two(lambda one, two: test(PostgresPeople(one), PostgresPeople(two)))


class TestPostgresAliases(_OnPostgres, AliasStoreContract):
    def run(self, test: Callable[[AliasStore, AliasStore], Awaitable[T]]) -> T:
        return self.with_two(lambda one, two: test(PostgresAliases(one), PostgresAliases(two)))

    def test_a_media_is_shown_by_the_name_it_is_listed_under_now(self, connection: psycopg.Connection[Any]) -> None:
        async def scene(aliases: AliasStore, _: AliasStore) -> None:
            await aliases.add("home", {"b": "1" * 32, "a": "1" * 32, "c": "2" * 32})
            asked = ["1" * 32, "2" * 32, "3" * 32, "4" * 32]
            assert await aliases.upstream("home", asked) == {"1" * 32: "a", "2" * 32: "c"}
            connection.execute("INSERT INTO api.media_names VALUES (%s, 'home', 'z')", ("1" * 32,))
            connection.execute("INSERT INTO api.media_names VALUES (%s, 'home', 'new')", ("3" * 32,))
            connection.execute("INSERT INTO api.media_names VALUES (%s, 'jelly', 'theirs')", ("4" * 32,))
            assert await aliases.upstream("home", asked) == {"1" * 32: "z", "2" * 32: "c", "3" * 32: "new"}

        self.run(scene)

    def test_an_id_of_a_file_that_a_scan_found_is_ours_unless_the_source_calls_another_media_so(
        self, connection: psycopg.Connection[Any]
    ) -> None:
        ours, taken, theirs = ("1" * 32, "2" * 32, "3" * 32)
        for its_id, source in ((ours, "home"), (taken, "home"), (theirs, "jelly")):
            connection.execute("INSERT INTO api.media_facts (media_id, source_id) VALUES (%s, %s)", (its_id, source))

        async def scene(aliases: AliasStore, _: AliasStore) -> None:
            await aliases.add("home", {taken: "4" * 32})
            found = await aliases.find("home", [ours, taken, theirs])
            assert (found[ours], found[taken], theirs in found) == (ours, "4" * 32, False)

        self.run(scene)


class TestLibraryFacts(_OnPostgres):
    def test_what_a_scan_found_is_known_at_the_door(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("INSERT INTO api.media_facts VALUES ('m', 'audiobook', 3600000)")

        async def scene(database: DoorDatabase, _: DoorDatabase) -> None:
            known = await LibraryFacts(database, SystemClock()).of("home", {"m", "n"})
            assert known == {"m": Facts("audiobook", 3_600_000)}

        self.with_two(scene)


class TestTokens(_OnPostgres):
    def ask(self, token: str) -> Any:
        async def scene(database: DoorDatabase, _: DoorDatabase) -> Any:
            return await Authenticator(PostgresTokens(database), SystemClock()).authenticate(token)

        return self.with_two(scene)

    def test_a_created_token_is_its_holder_and_a_revoked_one_nobody(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(
            "INSERT INTO core.users (source_id, upstream_user, user_ref) VALUES ('home', 'ana', %s)", ("u" * 32,)
        )
        connection.commit()
        token = create_token(connection, "home", ["report", "read"], "u" * 32, "phone")
        found = self.ask(token)
        assert (found.source_id, found.scopes, found.user_ref) == ("home", {Scope.REPORT, Scope.READ}, "u" * 32)
        assert revoke_token(connection, found.token_id)
        assert not revoke_token(connection, found.token_id)
        with pytest.raises(Unauthenticated):
            self.ask(token)

    def test_a_door_that_knows_a_token_stops_taking_it_within_half_a_minute_of_its_revocation(
        self, connection: psycopg.Connection[Any]
    ) -> None:
        token = create_token(connection, "home", ["report"])
        clock = FakeClock()

        async def scene(database: DoorDatabase, _: DoorDatabase) -> None:
            authenticator = Authenticator(PostgresTokens(database), clock)
            revoke_token(connection, (await authenticator.authenticate(token)).token_id)
            clock.advance(30_000)
            with pytest.raises(Unauthenticated):
                await authenticator.authenticate(token)

        self.with_two(scene)

    def test_a_rotated_token_goes_on_for_its_grace_beside_the_new_one_and_then_is_nobody(
        self, connection: psycopg.Connection[Any]
    ) -> None:
        connection.execute(
            "INSERT INTO core.users (source_id, upstream_user, user_ref) VALUES ('home', 'ana', %s)", ("u" * 32,)
        )
        old = create_token(connection, "home", ["report"], "u" * 32, "phone")
        holder = self.ask(old)
        new = rotate_token(connection, holder.token_id, 3_600)
        fresh = self.ask(new)
        assert self.ask(old) == holder
        assert (fresh.source_id, fresh.scopes, fresh.user_ref) == (holder.source_id, holder.scopes, holder.user_ref)
        assert fresh.token_id != holder.token_id
        with pytest.raises(Permanent):
            rotate_token(connection, holder.token_id, 60)
        # An operator need not wait for the end of the grace.
        assert revoke_token(connection, holder.token_id)
        with pytest.raises(Unauthenticated):
            self.ask(old)
        newest = rotate_token(connection, fresh.token_id, 0)
        with pytest.raises(Unauthenticated):
            self.ask(new)
        assert self.ask(newest).source_id == "home"
        for token_id, grace_s in (("nobody", 60), (self.ask(newest).token_id, -1), (self.ask(newest).token_id, 2**40)):
            with pytest.raises(Permanent):
                rotate_token(connection, token_id, grace_s)
        assert self.ask(newest).source_id == "home"

    def test_the_table_holds_no_token(self, connection: psycopg.Connection[Any]) -> None:
        token = create_token(connection, "home", ["report"])
        rows = connection.execute("SELECT t::text FROM core.tokens AS t").fetchall()
        assert len(rows) == 1
        assert token not in rows[0][0]
        assert token.encode().hex() not in rows[0][0]
        assert len(token) == 46

    def test_lists_show_everything_but_the_secret(self, connection: psycopg.Connection[Any]) -> None:
        token = create_token(connection, None, ["operate"], label="desk")
        [entry] = list_tokens(connection)
        assert (entry.source_id, entry.scopes, entry.label, entry.revoked_at) == (None, ("operate",), "desk", None)
        assert token not in repr(entry)
        assert list_sources(connection) == [("home", "native", "Home"), ("jelly", "jellyfin", "Jelly")]

    @pytest.mark.parametrize(
        ("source", "scopes"), [("home", []), ("home", ["root"]), (None, ["report"]), ("attic", ["report"])]
    )
    def test_a_token_that_makes_no_sense_is_not_made(
        self, connection: psycopg.Connection[Any], source: str | None, scopes: list[str]
    ) -> None:
        with pytest.raises(Permanent):
            create_token(connection, source, scopes)
        assert list_tokens(connection) == []

    @pytest.mark.parametrize("user", ["zebulon.quux", "f" * 32])
    def test_a_token_is_bound_to_a_known_user_ref_only_so_that_no_name_gets_into_the_log(
        self, connection: psycopg.Connection[Any], user: str
    ) -> None:
        connection.execute(
            "INSERT INTO core.users (source_id, upstream_user, user_ref) VALUES ('jelly', 'ana', %s)", ("f" * 32,)
        )
        with pytest.raises(Permanent, match="no such person"):
            create_token(connection, "home", ["report"], user)

    def test_a_source_is_made_once_and_needs_a_plain_name(self, connection: psycopg.Connection[Any]) -> None:
        assert create_source(connection, "attic", "plex", "Attic")
        assert not create_source(connection, "attic", "plex", "Other")
        for other in ("emby", "bogus"):
            with pytest.raises(Permanent):
                create_source(connection, "attic", other, "Other")
        for bad in ("", "Attic", "a b", "a\0b", "../x", "x" * 65):
            with pytest.raises(Permanent):
                create_source(connection, bad, "plex", "x")

    def test_a_source_exists_when_it_was_made(self) -> None:
        async def scene(database: DoorDatabase, _: DoorDatabase) -> tuple[bool, bool]:
            sources = PostgresSources(database)
            return await sources.exists("home"), await sources.exists("attic")

        assert self.with_two(scene) == (True, False)
