"""Digests of the read models: equal when the rows are, whatever the order they were written in.

Only columns that follow from the log count: wall-clock columns, minted ids and expiry stand outside.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from projections.base import Connection

TABLES: dict[str, frozenset[str]] = {
    "playback_progress": frozenset(),
    "user_versions": frozenset(),
    "progress_history": frozenset(),
    "plays": frozenset(),
    "listening_time": frozenset(),
    "processed_events": frozenset({"projected_at"}),
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


@dataclass(frozen=True, slots=True)
class Digest:
    """``total`` is the sum of 64-bit hashes of the rows, as PostgreSQL computes them (hashtextextended)."""

    rows: int
    total: int


def digests(tx: Connection) -> dict[str, Digest]:
    """The digest of each table, as ``tx`` sees it. ``tx`` must be able to read schema model."""
    found: dict[str, Digest] = {}
    for table, without in TABLES.items():
        columns = [
            row[0]
            for row in tx.execute(
                "SELECT column_name FROM information_schema.columns"
                " WHERE table_schema = 'model' AND table_name = %s ORDER BY column_name",
                (table,),
            ).fetchall()
            if row[0] not in without
        ]
        query = sql.SQL("SELECT count(*), coalesce(sum(hashtextextended(ROW({})::text, 0)), 0) FROM {}").format(
            sql.SQL(", ").join(map(sql.Identifier, columns)), sql.Identifier("model", table)
        )
        row = tx.execute(query).fetchone()
        assert row is not None
        found[table] = Digest(int(row[0]), int(row[1]))
    return found
