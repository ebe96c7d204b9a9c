"""PostgreSQL as Playhead needs it: roles, revision, durability, its clock, transactions that hold others up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

import psycopg

from streams.cli.admin import answering
from streams.cli.checks.finding import Finding, fail, graded, ok, warn
from streams.cli.checks.kafka import skew
from streams.runtime.errors import ConfigurationError
from streams.runtime.settings import Role, Settings

VERSION_MIN = 18
OPEN_WARN_S = 60.0
OPEN_FAIL_S = 900.0


@contextmanager
def connected(settings: Settings, role: Role = "owner") -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection that can't write. Raises Unavailable, ConfigurationError."""
    with answering(settings), psycopg.connect(**settings.postgres.conninfo(role)) as connection:
        connection.read_only = True
        yield connection


def roles(settings: Settings) -> Iterator[Finding]:
    failed = False
    for role in get_args(Role):
        try:
            with connected(settings, role):
                pass
        except ConfigurationError as exc:
            failed = True
            yield fail("postgres", str(exc), "set it, or run this command where all roles' passwords are set")
    if not failed:
        yield ok("postgres", f"all {len(get_args(Role))} roles can log in")


def revision(settings: Settings) -> Iterator[Finding]:
    from projections.migrate import newest_revision
    from projections.migrate import revision as current

    with connected(settings) as connection:
        version = connection.info.server_version // 10_000
        if version < VERSION_MIN:
            yield warn("postgres", f"version {version}; made for {VERSION_MIN}", "upgrade PostgreSQL")
        try:
            found = current(connection)
        except psycopg.errors.UndefinedTable:
            yield fail("migrations", "the database is empty", "run 'playhead migrate'")
            return
    wanted = newest_revision()
    if found == wanted:
        yield ok("migrations", f"at revision {found}, as this build wants it")
    elif found > wanted:
        yield fail("migrations", f"at revision {found}, this build knows {wanted}", "upgrade this Playhead")
    else:
        yield fail("migrations", f"at revision {found}, this build wants {wanted}", "run 'playhead migrate'")


def durability(settings: Settings) -> Iterator[Finding]:
    """What is answered as done must be on disk: an answer that is lost in a crash is a report that is lost."""
    with connected(settings, "projector") as connection:
        said = {name: _show(connection, name) for name in ("fsync", "full_page_writes", "synchronous_commit")}
        standbys = _show(connection, "synchronous_standby_names")
    for name in ("fsync", "full_page_writes"):
        if said[name] != "on":
            yield fail("durability", f"{name} is {said[name]}: a crash can lose or damage what was committed", _SET_ON)
    if said["synchronous_commit"] == "off":
        yield fail("durability", "synchronous_commit is off: a crash loses what was committed last", _SET_ON)
    elif said["synchronous_commit"] == "local" and standbys:
        yield warn("durability", "synchronous_commit is local: standbys may lack what was committed last", _SET_ON)
    elif said["fsync"] == said["full_page_writes"] == "on":
        yield ok("durability", f"fsync and full_page_writes on, synchronous_commit {said['synchronous_commit']}")


def clock(settings: Settings) -> Iterator[Finding]:
    with connected(settings) as connection:
        before = time.time()
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        after = time.time()
    assert row is not None
    yield skew("clock of postgres", row[0], before, after)


def transactions(settings: Settings) -> Iterator[Finding]:
    """Transactions open for long keep rows from being cleaned up and locks from others."""
    with connected(settings) as connection:
        row = connection.execute(
            "SELECT coalesce(extract(epoch FROM max(clock_timestamp() - xact_start)), 0)::float8,"
            " count(*) FILTER (WHERE xact_start < clock_timestamp() - make_interval(secs => %s))"
            " FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
            (OPEN_WARN_S,),
        ).fetchone()
        prepared = connection.execute(
            "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()"
        ).fetchone()
    assert row is not None
    assert prepared is not None
    yield graded(
        "open transactions",
        row[0],
        f"{row[1]} open for over {OPEN_WARN_S:.0f} s, the oldest for {row[0]:.0f} s"
        if row[1]
        else "none is open for long",
        "look at pg_stat_activity; end them with pg_terminate_backend",
        warn_at=OPEN_WARN_S,
        fail_at=OPEN_FAIL_S,
    )
    if prepared[0]:
        yield warn(
            "open transactions",
            f"{prepared[0]} prepared transactions: Playhead makes none, and they hold locks for ever",
            "see pg_prepared_xacts; COMMIT PREPARED or ROLLBACK PREPARED",
        )


_SET_ON = "set it to on"


def _show(connection: psycopg.Connection[tuple[Any, ...]], name: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return str(row[0])
