"""Digests of what projections write: equal when the rows are, whatever the order they were written in.

Only what follows from the log counts: wall-clock columns, minted ids, expiry, and what others than projections write
stand outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from psycopg import sql

from projections.base import Connection


@dataclass(frozen=True, slots=True)
class Part:
    """What counts of a table: all columns but ``without``, of the rows (as ``t``) that are so (``where``)."""

    schema: str = "model"
    without: frozenset[str] = field(default=frozenset())
    where: str = "true"


TABLES: Final[dict[str, Part]] = {
    "playback_progress": Part(),
    "user_versions": Part(),
    "progress_history": Part(),
    "plays": Part(),
    "listening_time": Part(),
    "processed_events": Part(without=frozenset({"projected_at"})),
    "media_merges": Part(),
    "media_items": Part(),
    "media_locators": Part(),
    "upstream_aliases": Part(),
    "scan_sessions": Part(),
    "source_state": Part(),
    "collections": Part(),
    "collection_items": Part(),
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


@dataclass(frozen=True, slots=True)
class Digest:
    """``total`` is the sum of 64-bit hashes of the rows, as PostgreSQL computes them (hashtextextended)."""

    rows: int
    total: int


def digests(tx: Connection) -> dict[str, Digest]:
    """The digest of each table, as ``tx`` sees it. ``tx`` must be able to read schemas model and core."""
    found: dict[str, Digest] = {}
    for table, part in TABLES.items():
        columns = [
            row[0]
            for row in tx.execute(
                "SELECT column_name FROM information_schema.columns"
                " WHERE table_schema = %s AND table_name = %s ORDER BY column_name",
                (part.schema, table),
            ).fetchall()
            if row[0] not in part.without
        ]
        query = sql.SQL(
            "SELECT count(*), coalesce(sum(hashtextextended(ROW({})::text, 0)), 0) FROM {} AS t WHERE {}"
        ).format(
            sql.SQL(", ").join(map(sql.Identifier, columns)),
            sql.Identifier(part.schema, table),
            sql.SQL(part.where),
        )
        row = tx.execute(query).fetchone()
        assert row is not None
        found[table] = Digest(int(row[0]), int(row[1]))
    return found
