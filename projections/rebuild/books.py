"""What a schema of rebuilt tables says of itself: whose it is, how far it is, and by which build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from psycopg import sql

from projections.base import Connection, Projection
from projections.migrate import revision
from projections.offsets import Position
from projections.rebuild import starts, tables
from projections.rebuild.reading import LogReader
from streams.runtime.errors import ConfigurationError
from streams.runtime.settings import KafkaSettings

_ABOUT: Final = """
CREATE TABLE {} (one boolean PRIMARY KEY DEFAULT true CHECK (one), projection text NOT NULL, version integer NOT NULL,
    revision text NOT NULL, started_from text NOT NULL, indexed boolean NOT NULL DEFAULT false,
    begun_at timestamptz NOT NULL DEFAULT now())"""


def create(
    tx: Connection,
    schema: str,
    projection: Projection[Any],
    kafka: KafkaSettings,
    start: starts.Start,
    live: Mapping[int, Position],
) -> None:
    """``schema`` with its tables, its books, and of the live rows what records from ``start`` on do not make."""
    reader = LogReader(kafka, projection.topic)
    try:
        begin = starts.begin_at(start, projection.topic, live, reader)
    finally:
        reader.close()
    tables.create(tx, schema, projection)
    table = sql.Identifier(schema, "about")
    tx.execute(sql.SQL(_ABOUT).format(table))
    tx.execute(
        sql.SQL("INSERT INTO {} (projection, version, revision, started_from) VALUES (%s, %s, %s, %s)").format(table),
        (projection.name, projection.version, revision(tx), str(start)),
    )
    for partition, position in begin.items():
        tx.execute(
            sql.SQL(
                "INSERT INTO {} (projection, topic, partition, topic_id, log_epoch, next_offset)"
                " VALUES (%s, %s, %s, %s, %s, %s)"
            ).format(sql.Identifier(schema, "offsets")),
            (
                projection.name,
                projection.topic.name,
                partition,
                live[partition].topic_id,
                position.log_epoch,
                position.next_offset,
            ),
        )
    if starts.needs_seed(start, begin):
        starts.seed(tx, schema, projection, begin)


def hold_same(tx: Connection, schema: str, projection: Projection[Any], start: starts.Start | None) -> None:
    """Return when the schema is of this projection and build, and began at ``start`` (None: anywhere).

    Raises ConfigurationError otherwise.
    """
    found = about(tx, schema)
    began = str(start) if start is not None or found is None else found[3]
    if found is None or found[:4] != (projection.name, projection.version, revision(tx), began):
        what = f"of {found[0]} from {found[3]}" if found else "unfinished"
        raise ConfigurationError(
            f"there is another rebuild in schema {schema} ({what}, or by another build): go on with that, or drop it "
            "with 'playhead rebuild discard'"
        )


def about(tx: Connection, schema: str) -> tuple[str, int, str, str, bool] | None:
    """Projection, its version, revision of the tables, where it began, whether all indexes are there; None: unknown."""
    if tx.execute("SELECT to_regclass(%s)", (f"{schema}.about",)).fetchone() == (None,):
        return None
    query = sql.SQL("SELECT projection, version, revision, started_from, indexed FROM {}")
    row = tx.execute(query.format(sql.Identifier(schema, "about"))).fetchone()
    return row and (row[0], row[1], row[2], row[3], row[4])


def keep(tx: Connection, source: str, target: str, projection: Projection[Any]) -> None:
    """Give ``target``, where the former live tables are now, offsets and about of its own, as ``source`` has them."""
    for name in ("about", "offsets"):
        tables.move(tx, name, source, target)
    for table in projection.elsewhere:
        tables.move(tx, table, source, target)
