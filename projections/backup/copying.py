"""Schema core to an archive, in one snapshot, and what is in an archive to tables, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from psycopg import sql

from projections.backup.archive import Manifest, Reader, SavedOffset, TableCopy, Writer, written
from projections.base import Connection
from projections.migrate import revision
from streams.runtime.errors import Permanent
from streams.runtime.tables import CORE

LEFT_OUT = frozenset({"alembic_version"})
"""Tables of core that say what the database is, not what is in it."""


def write(connection: Connection, path: Path, key_check: str) -> Manifest:
    """Write a backup of what ``connection`` (the owner's) sees at one moment, and note that it was made.

    Running roles go on meanwhile. Raises Permanent when the file can't be written.
    """
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    made_at = _one(connection, "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')")
    try:
        with written(path) as archive:
            tables = tuple(_dump(connection, archive, name) for name in core_tables(connection))
            manifest = Manifest(
                made_at=str(made_at),
                revision=revision(connection),
                key_check=key_check,
                model_epoch=int(str(_one(connection, "SELECT model_epoch FROM model.epoch"))),
                tables=tables,
                offsets=tuple(offsets(connection)),
            )
            archive.manifest(manifest)
    except OSError as exc:
        raise Permanent(f"{path} can't be written: {exc.strerror}", cause="bad_backup") from exc
    connection.execute("INSERT INTO core.backups (made_at) VALUES (now()) ON CONFLICT DO NOTHING")
    return manifest


def load(connection: Connection, reader: Reader) -> dict[str, int]:
    """Fill the empty tables of core from an archive; rows by table. Columns that came since have their defaults.

    Raises Permanent when the archive has a table or column that this build has not.
    """
    copies = {table.name: table for table in reader.manifest.tables}
    known = core_tables(connection)
    if unknown := sorted(copies.keys() - set(known)):
        raise Permanent(f"the backup has tables this build has not: {', '.join(unknown)}", cause="bad_backup")
    for name in known:
        if name in copies:
            _fill(connection, reader, copies[name])
    # Nobody holds a lease of then.
    for name in ("tasks", "schedules"):
        connection.execute(sql.SQL("UPDATE {} SET lease_token = NULL, lease_until = NULL").format(_table(name)))
    return {name: table.rows for name, table in copies.items()}


def empty(connection: Connection) -> None:
    """Delete everything in core."""
    names = sql.SQL(", ").join(map(_table, core_tables(connection)))
    connection.execute(sql.SQL("TRUNCATE {}").format(names))


def is_empty(connection: Connection) -> bool:
    """Whether core knows nobody and nothing yet."""
    return not any(
        _one(connection, f"SELECT EXISTS (SELECT FROM core.{name})")  # noqa: S608 - of constants
        for name in ("sources", "users", "tokens", "forgotten_people")
    )


def core_tables(connection: Connection) -> list[str]:
    """The tables of core, each after those it refers to."""
    left = {
        str(row[0])
        for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (CORE,)).fetchall()
    } - LEFT_OUT
    refers: dict[str, set[str]] = {name: set() for name in left}
    for name, to in connection.execute(
        "SELECT r.relname, f.relname FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid"
        " JOIN pg_class f ON f.oid = c.confrelid WHERE c.contype = 'f' AND r.relnamespace = %s::regnamespace",
        (CORE,),
    ).fetchall():
        if to != name:
            refers[name].add(to)
    ordered: list[str] = []
    while left:
        ready = sorted(name for name in left if not refers[name] & left)
        assert ready, "tables of core refer to each other in a circle"
        ordered += ready
        left -= set(ready)
    return ordered


def offsets(connection: Connection) -> Iterator[SavedOffset]:
    """model.offsets as it is."""
    for row in connection.execute(
        "SELECT projection, topic, partition, topic_id, log_epoch, next_offset, last_causes FROM model.offsets"
        " ORDER BY projection, topic, partition"
    ).fetchall():
        yield SavedOffset(*row)


def _dump(connection: Connection, archive: Writer, name: str) -> TableCopy:
    columns = _columns(connection, name)
    query = sql.SQL("COPY {} ({}) TO STDOUT").format(_table(name), sql.SQL(", ").join(map(sql.Identifier, columns)))
    with connection.cursor().copy(query) as copy:
        rows, digest = archive.table(name, (bytes(piece) for piece in copy))
    return TableCopy(name, columns, rows, digest)


def _fill(connection: Connection, reader: Reader, table: TableCopy) -> None:
    if unknown := sorted(set(table.columns) - set(_columns(connection, table.name))):
        raise Permanent(
            f"the backup has columns of {table.name} that this build has not: {', '.join(unknown)}", cause="bad_backup"
        )
    names = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    with connection.cursor().copy(sql.SQL("COPY {} ({}) FROM STDIN").format(_table(table.name), names)) as copy:
        for piece in reader.table(table):
            copy.write(piece)
    for column, sequence in connection.execute(
        "SELECT attname, pg_get_serial_sequence(%s, attname) FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 AND attidentity <> ''",
        (f"{CORE}.{table.name}", f"{CORE}.{table.name}"),
    ).fetchall():
        connection.execute(
            sql.SQL("SELECT setval({}, greatest((SELECT max({}) FROM {}), 1))").format(
                sql.Literal(sequence), sql.Identifier(column), _table(table.name)
            )
        )


def _columns(connection: Connection, name: str) -> tuple[str, ...]:
    rows = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
        " AND attgenerated = '' ORDER BY attnum",
        (f"{CORE}.{name}",),
    ).fetchall()
    return tuple(str(row[0]) for row in rows)


def _table(name: str) -> sql.Identifier:
    return sql.Identifier(CORE, name)


def _one(connection: Connection, query: str) -> object:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]
