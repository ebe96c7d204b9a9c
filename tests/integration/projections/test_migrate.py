"""Migrations, roles and what each role may do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from projections.migrate import migrate
from projections.migrations import versions
from projections.roles import ROLES, create_roles
from streams.local import PostgresAddress
from streams.runtime.errors import ConfigurationError
from streams.runtime.settings import Role, Settings
from streams.runtime.tables import CORE, metadata
from tests.integration.projections.world import PASSWORDS, settings_for
from tests.stack import Database, drop_database, unique

pytestmark = pytest.mark.services

NEWEST = max(script.stem[1:5] for script in Path(versions.__path__[0]).glob("v*.py"))


def run(settings: Settings, role: Role, query: str) -> None:
    with psycopg.connect(**settings.postgres.conninfo(role)) as connection:
        connection.execute(query.encode())


def test_migrating_again_changes_nothing(model_settings: Settings) -> None:
    again = migrate(model_settings.postgres.conninfo("owner"))
    assert (again.revision, again.replaced) == (NEWEST, ())


def test_processes_that_start_at_once_all_find_the_database_migrated(
    postgres_admin: PostgresAddress, database: Database
) -> None:
    create_roles(postgres_admin.url(), PASSWORDS, database.name)
    owner = settings_for("127.0.0.1:1", postgres_admin, database.name).postgres.conninfo("owner")
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: migrate(owner), range(4)))
    assert {one.revision for one in done} == {NEWEST}
    assert sum(bool(one.replaced) for one in done) == 1


def test_a_changed_view_is_replaced_and_grants_follow(model_settings: Settings) -> None:
    run(model_settings, "owner", "UPDATE model.applied_sql SET sha256 = 'old' WHERE name = 'views/plays.sql'")
    again = migrate(model_settings.postgres.conninfo("owner"))
    assert again.replaced == ("views/plays.sql", "grants.sql")
    run(model_settings, "reader", "SELECT * FROM api.plays")


def test_a_database_of_a_newer_build_is_refused(model_settings: Settings) -> None:
    run(model_settings, "owner", "UPDATE core.alembic_version SET version_num = '9999'")
    with pytest.raises(ConfigurationError, match="newer"):
        migrate(model_settings.postgres.conninfo("owner"))


def test_core_tables_are_those_the_code_declares(database: Database, model_settings: Settings) -> None:
    engine = create_engine(database.sqlalchemy_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "include_schemas": True,
                "include_name": lambda name, kind, _: kind != "schema" or name == CORE,
                "version_table_schema": CORE,
                "compare_server_default": False,
            },
        )
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_callers_connected_to_different_databases_make_roles_and_one_new_database_at_once(
    postgres_admin: PostgresAddress, database: Database
) -> None:
    made = unique("made").replace("-", "_")
    together = Barrier(8)

    def make(number: int) -> None:
        together.wait(30)
        for _ in range(5):
            create_roles(postgres_admin.url() if number % 2 else database.url, PASSWORDS, made)

    try:
        with ThreadPoolExecutor(together.parties) as pool:
            list(pool.map(make, range(together.parties)))
        owner = settings_for("127.0.0.1:1", postgres_admin, made).postgres.conninfo("owner")
        assert migrate(owner).revision == NEWEST
    finally:
        drop_database(postgres_admin, made)


def test_making_roles_needs_every_password(postgres_admin: PostgresAddress, database: Database) -> None:
    with pytest.raises(ConfigurationError, match="reader"):
        create_roles(postgres_admin.url(), {**PASSWORDS, "reader": ""}, database.name)


ALLOWED: dict[Role, tuple[str, ...]] = {
    "door": (
        "SELECT * FROM core.users",
        "DELETE FROM core.tokens",
        "INSERT INTO core.sources VALUES ('s', 'k', 'n')",
        "SELECT secret FROM core.source_accounts",
        "DELETE FROM core.poll_state",
        "DELETE FROM core.forward_sent",
        "SELECT * FROM api.media_facts",
        "SELECT * FROM api.media_names",
    ),
    "projector": (
        "SELECT * FROM model.playback_progress",
        "DELETE FROM model.plays",
        "DELETE FROM model.media_merges",
        "DELETE FROM model.media_items",
        "UPDATE core.media_aliases SET media_id = 'm'",
        "SELECT model.keep_event_days(1, 30)",
        "SELECT model.raise_epoch()",
        "CREATE TEMPORARY TABLE stage (x int)",
    ),
    "relay": (
        "SELECT * FROM model.outbox",
        "DELETE FROM model.outbox",
        "LISTEN playhead_outbox",
        "SELECT cause_class FROM model.dead_letters",
        "SELECT made_at FROM core.backups",
    ),
    "worker": ("SELECT * FROM api.known_files",),
    "reader": tuple(
        f"SELECT * FROM api.{view}"
        for view in (
            "progress",
            "continue_watching",
            "user_versions",
            "history",
            "plays",
            "listening_days",
            "events",
            "media_merges",
            "sources",
            "scans",
            "items",
            "media",
            "collections",
            "collection_items",
            "progress_of('u', '{m}')",
            "media_after('u', 'm', 3)",
        )
    ),
}
DENIED: dict[Role, tuple[str, ...]] = {
    "worker": (
        "SELECT * FROM model.media_items",
        "SELECT * FROM api.progress",
        "SELECT * FROM core.users",
        "SELECT * FROM core.tokens",
        "CREATE TEMPORARY TABLE stage (x int)",
    ),
    "door": (
        "SELECT * FROM model.outbox",
        "SELECT * FROM api.progress",
        "SELECT * FROM api.progress_of('u', '{m}')",
        "SELECT * FROM model.media_items",
        "SELECT * FROM api.known_files",
        "CREATE TABLE core.x (a int)",
    ),
    "projector": (
        "SELECT * FROM core.users",
        "SELECT * FROM core.tokens",
        "SELECT * FROM core.source_accounts",
        "DELETE FROM model.outbox",
        "UPDATE model.epoch SET model_epoch = 2",
        "DROP TABLE model.plays",
        "CREATE TABLE public.x (a int)",
    ),
    "relay": (
        "SELECT * FROM model.playback_progress",
        "INSERT INTO model.outbox DEFAULT VALUES",
        "UPDATE model.outbox SET version = 1",
        "SELECT error_text FROM model.dead_letters",
        "SELECT reason FROM model.breakers",
        "SELECT * FROM core.users",
        "SELECT * FROM core.source_accounts",
        "CREATE TEMPORARY TABLE stage (x int)",
    ),
    "reader": (
        "SELECT * FROM model.playback_progress",
        "SELECT * FROM model.outbox",
        "SELECT * FROM core.users",
        "SELECT * FROM core.tokens",
        "SELECT * FROM core.source_accounts",
        "SET default_transaction_read_only = off; DELETE FROM api.media_merges",
        "CREATE TEMPORARY TABLE stage (x int)",
    ),
}


def test_every_role_may_do_its_work_and_nothing_else(model_settings: Settings) -> None:
    for role, queries in ALLOWED.items():
        for query in queries:
            run(model_settings, role, query)
    for role, queries in DENIED.items():
        for query in queries:
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)):
                run(model_settings, role, query)


def test_no_role_waits_or_holds_a_transaction_without_end(model_settings: Settings) -> None:
    for role in ROLES:
        with psycopg.connect(**model_settings.postgres.conninfo(role)) as connection:
            for setting in ("lock_timeout", "idle_in_transaction_session_timeout"):
                row = connection.execute(f"SHOW {setting}".encode()).fetchone()
                assert row is not None
                assert row[0] != "0", (role, setting)
            assert connection.execute("SHOW search_path").fetchone() == ("pg_catalog",)


def test_a_view_that_no_file_names_any_more_is_dropped(model_settings: Settings) -> None:
    run(model_settings, "owner", "CREATE VIEW api.former AS SELECT 1 AS one")
    run(model_settings, "owner", "INSERT INTO model.applied_sql VALUES ('views/former.sql', 'x')")
    migrate(model_settings.postgres.conninfo("owner"))
    with pytest.raises(psycopg.errors.UndefinedTable):
        run(model_settings, "owner", "SELECT * FROM api.former")
