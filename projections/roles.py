"""Roles and database, made once by somebody who may: the embedded stack, or an operator with a superuser."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import psycopg
from psycopg import sql

from streams.runtime.errors import ConfigurationError
from streams.runtime.settings import Role

ROLES: tuple[Role, ...] = get_args(Role)
_SQL = Path(__file__).with_name("sql")


def login_of(role: Role) -> str:
    """The PostgreSQL login of a role."""
    return f"playhead_{role}"


def create_roles(superuser: Mapping[str, Any] | str, passwords: Mapping[Role, str], database: str) -> None:
    """Make every role (or set its password and settings again) and the database, owned by ``playhead_owner``.

    ``superuser``: how to connect, to any database of the cluster. Repeating it changes nothing else, and
    sessions that are open stay open. Any number of callers may do it at once. Passwords reach the server
    hashed, so they are in no server log.
    Raises ConfigurationError when a password is missing.
    """
    missing = [role for role in ROLES if not passwords.get(role)]
    if missing:
        raise ConfigurationError(f"no password for database roles {', '.join(missing)}")
    with _connect(superuser) as connection:
        with connection.transaction():
            _lock(connection, "pg_authid", "pg_db_role_setting")
            _make_roles(connection, passwords)
        _make_database(connection, database)
        with connection.transaction():
            _lock(connection, "pg_database")
            _grant_database(connection, database)


def _lock(connection: psycopg.Connection[Any], *catalogs: str) -> None:
    """Keep every other session of the cluster from changing these shared catalogues, until the transaction ends.

    Two sessions that change a role or a database at once fail with "tuple concurrently updated". An advisory lock
    belongs to one database and would not exclude callers that are connected to another; these are the cluster's own.
    Logins go on: they only read.
    """
    for catalog in catalogs:
        name = sql.Identifier("pg_catalog", catalog)
        connection.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(name))


def _make_roles(connection: psycopg.Connection[Any], passwords: Mapping[Role, str]) -> None:
    known = {row[0] for row in connection.execute("SELECT rolname FROM pg_roles").fetchall()}
    for role in ROLES:
        login = login_of(role)
        hashed = connection.pgconn.encrypt_password(passwords[role].encode(), login.encode(), b"scram-sha-256").decode()
        verb = sql.SQL("ALTER" if login in known else "CREATE")
        connection.execute(
            sql.SQL("{} ROLE {} LOGIN PASSWORD {}").format(verb, sql.Identifier(login), sql.Literal(hashed))
        )
    connection.execute((_SQL / "roles.sql").read_text(encoding="utf-8"))


def _make_database(connection: psycopg.Connection[Any], database: str) -> None:
    """Afterwards it exists. Outside a transaction, as CREATE DATABASE must be."""
    if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone() is None:
        # Another caller may make it in between; who made it does not matter.
        with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
            connection.execute(
                sql.SQL("CREATE DATABASE {} OWNER {} ENCODING 'UTF8' TEMPLATE template0").format(
                    sql.Identifier(database), sql.Identifier(login_of("owner"))
                )
            )


def _grant_database(connection: psycopg.Connection[Any], database: str) -> None:
    name, owner = sql.Identifier(database), sql.Identifier(login_of("owner"))
    connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(name, owner))
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name))
    for role in ROLES:
        login = sql.Identifier(login_of(role))
        connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(name, login))
    # Batches are copied into a temporary table first.
    projector = sql.Identifier(login_of("projector"))
    connection.execute(sql.SQL("GRANT TEMPORARY ON DATABASE {} TO {}").format(name, projector))


def _connect(conninfo: Mapping[str, Any] | str) -> psycopg.Connection[Any]:
    if isinstance(conninfo, str):
        return psycopg.connect(conninfo, autocommit=True)
    return psycopg.connect(**{**conninfo, "autocommit": True})
