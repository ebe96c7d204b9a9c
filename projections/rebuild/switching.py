"""Put rebuilt tables in the place of the live ones: one transaction, and no reader sees anything but one of the two.

Held meanwhile: every projection, by an EXCLUSIVE lock on model.offsets, in which each takes a row lock before it writes
anything. So both models are at equal offsets, and no outbox row of the former epoch is committed after the switch.

A reader's statement may have its snapshot from before the rows that made the models equal and resolve a table's name
after the switch: it would see the new tables as they were some records ago. So once they are equal, transactions that
are older than that are waited for before any table is touched.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

from projections import outbox
from projections.base import Connection, Projection
from projections.migrate import renew_views
from projections.rebuild import books, tables
from streams.runtime.errors import Unavailable
from streams.runtime.failpoints import Failpoint
from streams.runtime.settings import Settings

HOLD_WAIT_S: Final = 10
READERS_WAIT_S: Final = 15.0
"""Longer than any transaction of Playhead's own roles may last."""
LOCK_WAIT_MS: Final = 300
"""How long readers may queue behind us. Less than PostgreSQL waits before it looks for deadlocks."""
LOCK_TRIES: Final = 40
_POLL_S: Final = 0.02
_SWAP: Final = "model_swap"
_OLDER: Final = """
SELECT l.virtualxid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'virtualxid' AND l.granted AND l.pid <> pg_backend_pid() AND a.datname = current_database()
  AND a.usename IS NOT NULL AND pg_backend_pid() <> ALL (pg_blocking_pids(l.pid))"""
_VIEWS: Final = """
SELECT DISTINCT v.relname FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class
WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
  AND v.relnamespace = 'api'::regnamespace AND d.refobjid = ANY(%s::text[]::regclass[]) AND v.oid <> d.refobjid
ORDER BY 1"""


@dataclass(frozen=True, slots=True)
class Switched:
    """``held_ms``: how long the switch itself held the projections up."""

    model_epoch: int
    held_ms: int


@contextmanager
def holding(settings: Settings) -> Iterator[psycopg.Connection[Any]]:
    """A transaction of the owner in which no projection writes, committed at the end, rolled back by any exception.

    Batches in hand are finished first; the next ones wait for us.
    """
    with psycopg.connect(**settings.postgres.conninfo("owner")) as connection:
        connection.execute(f"SET LOCAL lock_timeout = '{HOLD_WAIT_S}s'".encode())
        connection.execute("LOCK TABLE model.offsets IN EXCLUSIVE MODE")
        yield connection


def switch(tx: psycopg.Connection[Any], source: str, projection: Projection[Any], failpoint: Failpoint) -> Switched:
    """Within ``holding``, at equal offsets: tables of ``source`` to schema model, the live ones to schema model_old.

    Views are made again (they are bound to tables, not to names), the model epoch is raised, and one invalidation says
    that all copies are void. Raises Unavailable when readers do not let go: nothing is changed then, try again.
    """
    began = time.monotonic()
    _hold_equal(tx, source, projection)
    _outlive_readers(tx)
    tx.execute("SELECT pg_advisory_xact_lock(hashtext('playhead.migrate'))")
    _keep_vacuum_off(tx, source, projection)
    views = _take(tx, projection)
    tx.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(_SWAP)))
    for table in projection.tables:
        tables.move(tx, table, tables.LIVE, _SWAP)
    for table in projection.tables:
        tables.move(tx, table, source, tables.LIVE)
    books.keep(tx, source, _SWAP, projection)
    tables.drop(tx, source)
    tables.drop(tx, tables.FORMER)
    tx.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(sql.Identifier(_SWAP), sql.Identifier(tables.FORMER)))
    renew_views(tx, views)
    projection.renew_elsewhere(tx)
    model_epoch = outbox.void(tx, "rebuild", uuid.uuid4().hex)
    failpoint("rebuild.switching")
    return Switched(model_epoch, int((time.monotonic() - began) * 1000))


def _hold_equal(tx: Connection, source: str, projection: Projection[Any]) -> None:
    differ = tx.execute(
        sql.SQL(
            "SELECT a.partition FROM model.offsets a FULL JOIN {} b USING (projection, topic, partition)"
            " WHERE projection = %s AND (a.topic_id, a.log_epoch, a.next_offset)"
            " IS DISTINCT FROM (b.topic_id, b.log_epoch, b.next_offset)"
        ).format(sql.Identifier(source, "offsets")),
        (projection.name,),
    ).fetchall()
    if differ:
        raise Unavailable(f"partitions {[row[0] for row in differ]} are not where the live model is: try again")


def _outlive_readers(tx: Connection) -> None:
    """Return when every transaction of this database that is open now has ended, or waits for us: a projection that
    does has yet to read anything."""
    older = {row[0] for row in tx.execute(_OLDER).fetchall()}
    deadline = time.monotonic() + READERS_WAIT_S
    while older:
        if time.monotonic() > deadline:
            raise Unavailable(f"{len(older)} transactions stay open in the database (a backup?): try again later")
        time.sleep(_POLL_S)
        older &= {row[0] for row in tx.execute(_OLDER).fetchall()}


def _keep_vacuum_off(tx: Connection, source: str, projection: Projection[Any]) -> None:
    """Nothing vacuums or analyzes these tables from here on. A worker at it gives way to who waits for a second, which
    must not happen while readers queue behind us."""
    for table in projection.tables:
        for schema in (source, tables.LIVE):
            for name in (table, *tables.parts(tx, schema, table)):
                tx.execute(
                    sql.SQL("LOCK TABLE ONLY {} IN SHARE UPDATE EXCLUSIVE MODE").format(sql.Identifier(schema, name))
                )


def _take(tx: psycopg.Connection[Any], projection: Projection[Any]) -> list[str]:
    """Lock the live tables against everybody and drop the views on them; returns those.

    Views first, as readers come: whoever has a view gets its tables, and ends.
    """
    names = [f"model.{table}" for table in projection.tables]
    views = [row[0] for row in tx.execute(_VIEWS, (names,)).fetchall()]
    for attempt in range(LOCK_TRIES):
        try:
            with tx.transaction():
                tx.execute(f"SET LOCAL lock_timeout = '{LOCK_WAIT_MS}ms'".encode())
                for view in views:
                    tx.execute(sql.SQL("DROP VIEW {}").format(sql.Identifier("api", view)))
                for table in projection.tables:
                    tx.execute(
                        sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(sql.Identifier(tables.LIVE, table))
                    )
            return views
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            time.sleep(_POLL_S * min(10, 1 + attempt))
    raise Unavailable("readers hold the tables all the time: try again later")
