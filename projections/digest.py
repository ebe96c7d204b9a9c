"""Digests of what projections write: equal when the rows are, whatever the order they were written in.

Only what follows from the log counts: wall-clock columns, minted ids, expiry, and what others than projections write
stand outside; and where the log's records expire, what counts from its first record on. Of each table there is one
digest for each range of its keys (by hash), so that two models that differ are read row by row only where they do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, Literal

from psycopg import sql

from projections.base import Connection

MODEL: Final = "model"


@dataclass(frozen=True, slots=True)
class Part:
    """What counts of a table: all columns but ``without``, of the rows (as ``t``) that are so (``where``)."""

    schema: str = MODEL
    without: frozenset[str] = field(default=frozenset())
    where: str = "true"


TABLES: Final[dict[str, Part]] = {
    "playback_progress": Part(),
    "user_versions": Part(),
    "progress_history": Part(),
    "plays": Part(),
    "listening_time": Part(),
    "processed_events": Part(without=frozenset({"projected_at"})),
    "forgotten_users": Part(),
    "media_merges": Part(),
    "media_items": Part(),
    "media_locators": Part(),
    "upstream_aliases": Part(),
    "scan_sessions": Part(),
    "source_state": Part(),
    "collections": Part(),
    "collection_items": Part(),
    "dead_letters": Part(without=frozenset({"number"})),
    "dead_letter_origins": Part(without=frozenset({"letters", "first_at"})),
    # What doors computed themselves and no library has told of is of no log.
    "media_aliases": Part(
        "core",
        where="EXISTS (SELECT FROM model.upstream_aliases a"
        " WHERE (a.source_id, a.upstream_id) = (t.source_id, t.upstream_media))",
    ),
    # The wanted side: the rest is the workers', and of their clocks.
    "tasks": Part(
        "core",
        without=frozenset(
            {
                *("done_version", "running_version", "requested_at", "attempts", "next_attempt_at", "lease_token"),
                *("lease_until", "progress", "last_error", "last_error_class", "finished_at", "dead_at"),
            }
        ),
    ),
}
"""The tables that projections write, by name."""

EXPIRING: Final[Mapping[str, str]] = {"processed_events": "logged_day"}
"""Tables whose rows expire, with the day they do so by."""

RANGES: Final = 256
SHOWN_MAX: Final = 20
"""Differing keys told of each table; all are counted."""


@dataclass(frozen=True, slots=True)
class Lasting:
    """What has not expired. ``since``: the day from which on rows of EXPIRING count; ``begins``: of each partition the
    first offset there is, where rows of older records do not count. None: all do."""

    since: date | None = None
    begins: Mapping[int, int] | None = None


EVERYTHING: Final = Lasting()


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
    """The digest of each table, as ``tx`` sees it: those of the read models in ``schema``, others where they are.
    ``tx`` must be able to read both."""
    return {
        table: _whole(_ranges(tx, schema if part.schema == MODEL else part.schema, table, EVERYTHING))
        for table, part in TABLES.items()
        if tables is None or table in tables
    }


def compare(
    tx: Connection, first: str, second: str, tables: Collection[str], lasting: Lasting = EVERYTHING
) -> list[Compared]:
    """The read models of two schemas against each other, as ``tx`` sees them: at one moment when it is REPEATABLE READ.

    What a difference means is by its direction: where the second was folded anew, ``extra`` rows are those that the
    first has lost.
    """
    return [_compare(tx, first, second, table, lasting) for table in TABLES if table in tables]


def _compare(tx: Connection, first: str, second: str, table: str, lasting: Lasting) -> Compared:
    ours, theirs = _ranges(tx, first, table, lasting), _ranges(tx, second, table, lasting)
    nothing = Digest(0, 0)
    differ = [one for one in range(RANGES) if ours.get(one, nothing) != theirs.get(one, nothing)]
    if not differ:
        return Compared(table, _whole(ours), _whole(theirs))
    count, shown = _differing(tx, first, second, table, differ, lasting)
    return Compared(table, _whole(ours), _whole(theirs), len(differ), count, shown)


def _whole(ranges: Mapping[int, Digest]) -> Digest:
    return Digest(sum(one.rows for one in ranges.values()), sum(one.total for one in ranges.values()))


def _ranges(tx: Connection, schema: str, table: str, lasting: Lasting) -> dict[int, Digest]:
    query = sql.SQL("SELECT {}, count(*), sum({}) FROM {} AS t WHERE {} GROUP BY 1").format(
        _range(tx, schema, table), _hash(tx, schema, table), sql.Identifier(schema, table), _counts(table, lasting)
    )
    return {int(row[0]): Digest(int(row[1]), int(row[2])) for row in tx.execute(query).fetchall()}


def _differing(
    tx: Connection, first: str, second: str, table: str, ranges: Sequence[int], lasting: Lasting
) -> tuple[int, list[Difference]]:
    """How many rows of these ranges differ, and the first of them."""
    keys = _key(tx, first, table)
    names = sql.SQL(", ").join(map(sql.Identifier, keys))

    def rows(schema: str) -> sql.Composed:
        return sql.SQL("SELECT {}, {} AS hash, to_jsonb(t) AS whole FROM {} AS t WHERE {} AND {} = ANY({})").format(
            names,
            _hash(tx, first, table),
            sql.Identifier(schema, table),
            _counts(table, lasting),
            _range(tx, first, table),
            sql.Literal(list(ranges)),
        )

    query = sql.SQL(
        "SELECT count(*) OVER (), a.whole, b.whole FROM ({}) a FULL JOIN ({}) b USING ({})"
        " WHERE a.hash IS DISTINCT FROM b.hash ORDER BY {} LIMIT {}"
    ).format(rows(first), rows(second), names, names, sql.Literal(SHOWN_MAX))
    found = tx.execute(query).fetchall()
    without = TABLES[table].without
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


def _counts(table: str, lasting: Lasting) -> sql.Composable:
    """Which rows (as ``t``) do."""
    where: list[sql.Composable] = [sql.SQL(TABLES[table].where)]
    if lasting.since is not None and table in EXPIRING:
        where.append(sql.SQL("{} >= {}").format(sql.Identifier(EXPIRING[table]), sql.Literal(lasting.since)))
    if lasting.begins is not None:
        begins = [lasting.begins[partition] for partition in sorted(lasting.begins)]
        where.append(sql.SQL("t.version >= ({}::bigint[])[t.partition + 1]").format(sql.Literal(begins)))
    return sql.SQL(" AND ").join(where)


def _hash(tx: Connection, schema: str, table: str) -> sql.Composed:
    names = [
        row[0]
        for row in tx.execute(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name = %s ORDER BY column_name",
            (schema, table),
        ).fetchall()
        if row[0] not in TABLES[table].without
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
