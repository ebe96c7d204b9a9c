"""Bring the database to this build's tables, functions, views and grants. Run by the owner, any time, by many."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg import sql
from sqlalchemy import Connection, NullPool, create_engine

from streams.runtime.errors import ConfigurationError
from streams.runtime.tables import CORE

_HERE = Path(__file__).parent
_SQL = _HERE / "sql"


@dataclass(frozen=True, slots=True)
class Migrated:
    """``revision`` of the tables now; ``replaced`` are the files of ``sql/`` that were applied."""

    revision: str
    replaced: tuple[str, ...]


def migrate(conninfo: Mapping[str, Any] | str) -> Migrated:
    """Afterwards the database is as this build wants it, or, when anything failed, as it was before.

    One transaction under an advisory lock: processes that start at once wait for the first. Nothing is touched
    when nothing differs. Raises ConfigurationError when the database was migrated by a newer build.
    """
    engine = create_engine("postgresql+psycopg://", creator=lambda: _connect(conninfo), poolclass=NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('playhead.migrate'))")
        if not _has_schema(connection, CORE):
            connection.exec_driver_sql(f"CREATE SCHEMA {CORE}")
        revision = _upgrade(connection)
        return Migrated(revision, _replace(_driver(connection)))


def revision(connection: psycopg.Connection[Any]) -> str:
    """The revision the tables are at."""
    table = sql.Identifier(CORE, "alembic_version")
    row = connection.execute(sql.SQL("SELECT version_num FROM {}").format(table)).fetchone()
    assert row is not None
    return str(row[0])


def newest_revision() -> str:
    """The revision this build wants."""
    config = Config()
    config.set_main_option("script_location", str(_HERE / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    newest = ScriptDirectory.from_config(config).get_current_head()
    assert newest is not None
    return newest


def renew_views(connection: psycopg.Connection[Any], views: Iterable[str]) -> None:
    """Make these views of schema api again, and all grants: the tables they stood on were replaced."""
    names = [f"views/{view}.sql" for view in views]
    connection.execute("DELETE FROM model.applied_sql WHERE name = ANY(%s)", ([*names, "grants.sql"],))
    _replace(connection)


def _connect(conninfo: Mapping[str, Any] | str) -> psycopg.Connection[Any]:
    return psycopg.connect(conninfo) if isinstance(conninfo, str) else psycopg.connect(**dict(conninfo))


def _has_schema(connection: Connection, schema: str) -> bool:
    found = connection.exec_driver_sql("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
    return found.first() is not None


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver


def _upgrade(connection: Connection) -> str:
    config = Config()
    # '%' starts an interpolation in alembic's options.
    config.set_main_option("script_location", str(_HERE / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    scripts = ScriptDirectory.from_config(config)
    newest = scripts.get_current_head()
    context = MigrationContext.configure(connection, opts={"version_table_schema": CORE})
    current = context.get_current_revision()
    if current is not None and current not in {script.revision for script in scripts.walk_revisions()}:
        raise ConfigurationError(
            f"the database is at revision {current}, which this build does not know: it was migrated by a newer "
            "Playhead. Upgrade this one."
        )
    if current != newest:
        command.upgrade(config, "head")
    assert newest is not None
    return newest


def _replace(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Apply the replaceable objects whose text changed: functions, then views, and grants whenever any did."""
    connection.execute("CREATE TABLE IF NOT EXISTS model.applied_sql (name text PRIMARY KEY, sha256 text NOT NULL)")
    applied = dict(connection.execute("SELECT name, sha256 FROM model.applied_sql").fetchall())
    functions = sorted((_SQL / "functions").glob("*.sql"))
    views = sorted((_SQL / "views").glob("*.sql"))
    texts = {f"{p.parent.name}/{p.name}": p.read_text(encoding="utf-8") for p in (*functions, *views)}
    texts["grants.sql"] = (_SQL / "grants.sql").read_text(encoding="utf-8")
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    changed = [name for name in texts if applied.get(name) != digests[name]]
    for gone in sorted(applied.keys() - texts.keys()):
        if gone.startswith("views/"):
            connection.execute(sql.SQL("DROP VIEW IF EXISTS {}").format(_view(gone)))
        connection.execute("DELETE FROM model.applied_sql WHERE name = %s", (gone,))
    if changed and "grants.sql" not in changed:
        changed.append("grants.sql")
    for name in changed:
        if name.startswith("views/"):
            connection.execute(sql.SQL("DROP VIEW IF EXISTS {}").format(_view(name)))
        connection.execute(texts[name].encode())
        connection.execute(
            "INSERT INTO model.applied_sql VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET sha256 = excluded.sha256",
            (name, digests[name]),
        )
    return tuple(changed)


def _view(file: str) -> sql.Identifier:
    return sql.Identifier("api", file.removeprefix("views/").removesuffix(".sql"))
