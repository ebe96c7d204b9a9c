"""Digests of the read models: equal when the rows are, whatever the order they were written in.

Only columns that follow from the log count: wall-clock columns, minted ids and expiry stand outside. Of each table
there is one digest for each range of its keys (by hash), so that two models that differ are read row by row only where
they do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, Literal

from psycopg import sql

from projections.base import Connection

TABLES: dict[str, frozenset[str]] = {
    "playback_progress": frozenset(),
    "user_versions": frozenset(),
    "progress_history": frozenset(),
    "plays": frozenset(),
    "listening_time": frozenset(),
    "processed_events": frozenset({"projected_at"}),
    "forgotten_users": frozenset(),
    "media_merges": frozenset(),
    "media_items": frozenset(),
    "media_locators": frozenset(),
    "upstream_aliases": frozenset(),
    "scan_sessions": frozenset(),
    "source_state": frozenset(),
    "collections": frozenset(),
    "collection_items": frozenset(),
    "dead_letters": frozenset(),
    "dead_letter_origins": frozenset(),
}
"""Tables of schema model with the columns a digest leaves out."""

EXPIRING: Final[Mapping[str, str]] = {"processed_events": "logged_day"}
"""Tables whose rows expire, with the day they do so by."""

RANGES: Final = 256
SHOWN_MAX: Final = 20
"""Differing keys told of each table; all are counted."""


@dataclass(frozen=True, slots=True)
class Digest:
    """``total`` is the sum of 64-bit hashes of the rows, as PostgreSQL computes them (hashtextextended)."""

    rows: int
    total: int


@dataclass(frozen=True, slots=True)
class Difference:
    """One row that is not the same in both. ``how``: missing (only in the first), extra (only in the second), differs;
    ``values``: of each column that differs what the first and what the second has."""

    table: str
    key: Mapping[str, Any]
    how: Literal["missing", "extra", "differs"]
    values: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class Compared:
    """One table. ``ranges``: how many ranges of its keys differ; ``differing``: how many rows; ``shown``: the first."""

    table: str
    first: Digest
    second: Digest
    ranges: int = 0
    differing: int = 0
    shown: Sequence[Difference] = field(default_factory=tuple)

    @property
    def equal(self) -> bool:
        return self.first == self.second and not self.ranges


def digests(tx: Connection, schema: str = "model", tables: Collection[str] | None = None) -> dict[str, Digest]:
    """The digest of each table, as ``tx`` sees it. ``tx`` must be able to read the schema."""
    return {table: _whole(_ranges(tx, schema, table, None)) for table in TABLES if tables is None or table in tables}


def compare(
    tx: Connection, first: str, second: str, tables: Collection[str], *, since: date | None = None
) -> list[Compared]:
    """The tables of two schemas against each other, as ``tx`` sees them: at one moment when it is REPEATABLE READ.

    ``since``: rows of tables that expire count from this day on. What a difference means is by its direction: where the
    second was folded anew, ``extra`` rows are those that the first has lost.
    """
    return [_compare(tx, first, second, table, since) for table in TABLES if table in tables]


def _compare(tx: Connection, first: str, second: str, table: str, since: date | None) -> Compared:
    ours, theirs = _ranges(tx, first, table, since), _ranges(tx, second, table, since)
    nothing = Digest(0, 0)
    differ = [one for one in range(RANGES) if ours.get(one, nothing) != theirs.get(one, nothing)]
    if not differ:
        return Compared(table, _whole(ours), _whole(theirs))
    count, shown = _differing(tx, first, second, table, differ, since)
    return Compared(table, _whole(ours), _whole(theirs), len(differ), count, shown)


def _whole(ranges: Mapping[int, Digest]) -> Digest:
    return Digest(sum(one.rows for one in ranges.values()), sum(one.total for one in ranges.values()))


def _ranges(tx: Connection, schema: str, table: str, since: date | None) -> dict[int, Digest]:
    query = sql.SQL("SELECT {}, count(*), sum({}) FROM {} AS row {} GROUP BY 1").format(
        _range(tx, schema, table), _hash(tx, schema, table), sql.Identifier(schema, table), _kept(table, since)
    )
    return {int(row[0]): Digest(int(row[1]), int(row[2])) for row in tx.execute(query).fetchall()}


def _differing(
    tx: Connection, first: str, second: str, table: str, ranges: Sequence[int], since: date | None
) -> tuple[int, list[Difference]]:
    """How many rows of these ranges differ, and the first of them."""
    keys = _key(tx, first, table)
    names = sql.SQL(", ").join(map(sql.Identifier, keys))

    def rows(schema: str) -> sql.Composed:
        return sql.SQL("SELECT {}, {} AS hash, to_jsonb(row) AS whole FROM {} AS row {} {} {} = ANY({})").format(
            names,
            _hash(tx, first, table),
            sql.Identifier(schema, table),
            _kept(table, since),
            sql.SQL("AND" if _kept(table, since).as_string() else "WHERE"),
            _range(tx, first, table),
            sql.Literal(list(ranges)),
        )

    query = sql.SQL(
        "SELECT count(*) OVER (), a.whole, b.whole FROM ({}) a FULL JOIN ({}) b USING ({})"
        " WHERE a.hash IS DISTINCT FROM b.hash ORDER BY {} LIMIT {}"
    ).format(rows(first), rows(second), names, names, sql.Literal(SHOWN_MAX))
    found = tx.execute(query).fetchall()
    without = TABLES[table]
    return (int(found[0][0]) if found else 0), [_difference(table, keys, without, a, b) for _, a, b in found]


def _difference(
    table: str, keys: Sequence[str], without: Collection[str], a: dict[str, Any] | None, b: dict[str, Any] | None
) -> Difference:
    some = a or b
    assert some is not None
    key = {name: some[name] for name in keys}
    if a is None or b is None:
        return Difference(table, key, "extra" if a is None else "missing", {})
    values = {name: (a[name], b.get(name)) for name in a if name not in without and a[name] != b.get(name)}
    return Difference(table, key, "differs", values)


def _kept(table: str, since: date | None) -> sql.Composed:
    if since is None or table not in EXPIRING:
        return sql.Composed([])
    return sql.SQL("WHERE {} >= {}").format(sql.Identifier(EXPIRING[table]), sql.Literal(since))


def _hash(tx: Connection, schema: str, table: str) -> sql.Composed:
    names = [
        row[0]
        for row in tx.execute(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name = %s ORDER BY column_name",
            (schema, table),
        ).fetchall()
        if row[0] not in TABLES[table]
    ]
    return sql.SQL("hashtextextended(ROW({})::text, 0)").format(sql.SQL(", ").join(map(sql.Identifier, names)))


def _range(tx: Connection, schema: str, table: str) -> sql.Composed:
    names = sql.SQL(", ").join(map(sql.Identifier, _key(tx, schema, table)))
    return sql.SQL("((hashtextextended(ROW({})::text, 0) >> 32) & {})").format(names, sql.Literal(RANGES - 1))


def _key(tx: Connection, schema: str, table: str) -> list[str]:
    rows = tx.execute(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)"
        " WHERE i.indisprimary AND i.indrelid = %s::regclass ORDER BY array_position(i.indkey, a.attnum)",
        (f"{schema}.{table}",),
    )
    return [row[0] for row in rows.fetchall()]
