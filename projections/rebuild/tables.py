"""Copies of a projection's tables in another schema: made like the live ones, filled, moved, dropped.

Indexes and constraints keep their names, so that tables that went live are as the migrations made them. Those that
rows are checked against (primary keys, unique indexes) are there from the start; the others come when the bulk is in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from psycopg import sql

from projections.base import Connection, Projection
from projections.rebuild.aimed import plain

LIVE: Final = "model"
NEXT: Final = "model_next"
FORMER: Final = "model_old"
CHECK: Final = "model_check"
"""Of reconcile alone: a rebuild that an operator has begun is not touched."""
COPIES: Final = (NEXT, FORMER, CHECK)

_INDEXES: Final = """
SELECT pg_get_indexdef(i.indexrelid), i.indisunique, k.conname, pg_get_constraintdef(k.oid)
FROM pg_index i LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x')
WHERE i.indrelid = %s::regclass ORDER BY i.indisprimary DESC, i.indexrelid"""
_TABLE: Final = """
SELECT c.reloptions, pg_get_partkeydef(c.oid), obj_description(c.oid) FROM pg_class c WHERE c.oid = %s::regclass"""
_PARTITIONS: Final = """
SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = %s::regclass ORDER BY c.relname"""


def create(tx: Connection, schema: str, projection: Projection[Any]) -> None:
    """``schema`` with empty copies of the projection's tables, of the core tables it writes, and offsets of its own."""
    tx.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(plain(schema))))
    for table in projection.tables:
        _like(tx, schema, LIVE, table)
        index(tx, schema, table, unique=True)
    for table in projection.elsewhere:
        _like(tx, schema, "core", table)
        index(tx, schema, table, unique=True, live="core")
    _like(tx, schema, LIVE, "offsets")
    index(tx, schema, "offsets", unique=True)


def drop(tx: Connection, schema: str) -> None:
    """Afterwards there is no such schema."""
    tx.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(plain(schema))))


def exists(tx: Connection, schema: str) -> bool:
    return tx.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone() is not None


def index(tx: Connection, schema: str, table: str, *, unique: bool, live: str = LIVE) -> None:
    """Make the indexes of ``live.table`` on ``schema.table``: those that rows are unique by, or the others."""
    target = f"{plain(schema)}.{plain(table)}"
    for definition, is_unique, constraint, text in tx.execute(_INDEXES, (f"{live}.{table}",)).fetchall():
        if is_unique != unique:
            continue
        if constraint is not None:
            made = sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} {}").format(
                sql.Identifier(schema, table), sql.Identifier(constraint), sql.SQL(text)
            )
            tx.execute(made)
        else:
            tx.execute(re.sub(r" ON (?:ONLY )?\S+ ", f" ON {target} ", definition, count=1).encode())


def parts(tx: Connection, schema: str, table: str) -> list[str]:
    """The names of a partitioned table's partitions; none of another."""
    return [row[0] for row in tx.execute(_PARTITIONS, (f"{schema}.{table}",)).fetchall()]


def move(tx: Connection, table: str, source: str, target: str) -> None:
    """Move a table with its partitions and indexes to another schema."""
    for name in (*parts(tx, source, table), table):
        tx.execute(sql.SQL("ALTER TABLE {} SET SCHEMA {}").format(sql.Identifier(source, name), sql.Identifier(target)))


def columns(tx: Connection, schema: str, table: str) -> Sequence[str]:
    """Names of the columns that are written, in order; generated ones are not."""
    rows = tx.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
        " AND attgenerated = '' ORDER BY attnum",
        (f"{schema}.{table}",),
    )
    return [row[0] for row in rows.fetchall()]


def _like(tx: Connection, schema: str, live: str, table: str) -> None:
    row = tx.execute(_TABLE, (f"{live}.{table}",)).fetchone()
    assert row is not None
    options, partitioned, comment = row
    made, origin = sql.Identifier(schema, table), sql.Identifier(live, table)
    tx.execute(
        sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL EXCLUDING INDEXES) {} {}").format(
            made,
            origin,
            sql.SQL(f"PARTITION BY {partitioned}" if partitioned else ""),
            sql.SQL(f"WITH ({', '.join(options)})" if options else ""),
        )
    )
    if comment:
        tx.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(made, sql.Literal(comment)))
    for name, bound in tx.execute(_PARTITIONS, (f"{live}.{table}",)).fetchall():
        tx.execute(
            sql.SQL("CREATE TABLE {} PARTITION OF {} {}").format(sql.Identifier(schema, name), made, sql.SQL(bound))
        )
