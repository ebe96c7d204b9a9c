"""A backup into a database, beside a log that may be older or newer than it, or another one.

One transaction: the tables of core, where projections stand, a higher model_epoch. Rows of read models are no part of
it: a database that has none rebuilds them from the log, one that has some goes on with them, and core follows those
where it repeats what they say.

What servers were told since the backup core does not know. So every play that was reported before the restore counts as
tried: a server is asked first whether it has it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Json

from projections.backup.archive import Reader, SavedOffset
from projections.backup.copying import empty, is_empty, load
from projections.backup.positions import Placing, place
from projections.base import Connection, Projection
from projections.log_guard import Extent, LogGuard
from projections.roles import ROLES, login_of
from schemas.topics import TOPICS
from streams.runtime.clock import SystemClock
from streams.runtime.errors import Permanent
from streams.runtime.settings import KafkaSettings


@dataclass(frozen=True, slots=True)
class Log:
    """What one topic is now."""

    topic_id: str
    extents: Mapping[int, Extent]


@dataclass(frozen=True, slots=True)
class Restored:
    """``rows``: by table of core; ``words``: what was not as the backup had it; ``unwritten``: accounts that the log
    does not know, which doors tell it of when they report next."""

    rows: Mapping[str, int]
    words: tuple[str, ...]
    unwritten: int


def logs_of(kafka: KafkaSettings, saved: Collection[SavedOffset]) -> dict[str, Log]:
    """The topics that projections read, as they are now. Raises Unavailable, ConfigurationError for a missing one."""
    catalogue = {topic.name: topic for topic in TOPICS}
    found: dict[str, Log] = {}
    for name in sorted({one.topic for one in saved}):
        guard = LogGuard(kafka, catalogue[name], "restore", SystemClock())
        found[name] = Log(guard.topic_id(), guard.extents(range(catalogue[name].partitions)))
    return found


def restore(
    connection: Connection,
    reader: Reader,
    logs: Mapping[str, Log],
    projections: Mapping[str, type[Projection[Any]]],
    in_log: Callable[[str, str], bool],
    *,
    replace: bool = False,
) -> Restored:
    """Fill core from the archive and place the projections, in the open transaction of ``connection`` (the owner's).

    ``in_log``: whether identity.users has an account (source, upstream user). ``replace``: delete what core has; else
    it must be empty. Raises Permanent when it is not, and while roles are connected.
    """
    busy = connection.execute(
        "SELECT DISTINCT usename FROM pg_stat_activity WHERE datname = current_database() AND usename = ANY(%s)"
        " AND pid <> pg_backend_pid() ORDER BY 1",
        ([login_of(role) for role in ROLES if role != "owner"],),
    ).fetchall()
    if busy:
        raise Permanent(
            f"Playhead is running ({', '.join(str(row[0]) for row in busy)} connected): stop all roles, then restore",
            cause="busy",
        )
    if not is_empty(connection):
        if not replace:
            raise Permanent("the database has sources and people already: --replace deletes them", cause="not_empty")
        empty(connection)
    rows = load(connection, reader)
    words = _place(connection, reader.manifest.offsets, logs, projections)
    connection.execute(
        "UPDATE model.epoch SET model_epoch = greatest(model_epoch, %s), restored_at = clock_timestamp()",
        (reader.manifest.model_epoch + 1,),
    )
    connection.execute("UPDATE core.forward_plays SET tried = true")
    return Restored(rows, tuple(words), _unpublish(connection, in_log))


def _place(
    connection: Connection,
    saved: Collection[SavedOffset],
    logs: Mapping[str, Log],
    projections: Mapping[str, type[Projection[Any]]],
) -> list[str]:
    groups: dict[tuple[str, str], list[SavedOffset]] = defaultdict(list)
    for one in saved:
        groups[one.projection, one.topic].append(one)
    words: list[str] = []
    for (name, topic), rows in sorted(groups.items()):
        kind = projections.get(name)
        if kind is None:
            words.append(f"{name}: this build has no such projection, its place is left alone")
            continue
        rebuilt = bool(kind.tables)
        standing = connection.execute(
            "SELECT max(log_epoch), coalesce(sum(next_offset), 0) FROM model.offsets WHERE projection = %s", (name,)
        ).fetchone()
        assert standing is not None
        if rebuilt and standing[1]:
            kind().renew_elsewhere(connection)
            words.append(f"{name}: its read models are there, and go on where they stand")
            continue
        placing = place(rows, logs[topic].topic_id, logs[topic].extents, rebuilt=rebuilt, log_epoch=standing[0] or 1)
        _write(connection, name, topic, placing)
        words += placing.words
    return words


def _write(connection: Connection, name: str, topic: str, placing: Placing) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO model.offsets AS o (projection, topic, partition, topic_id, log_epoch, next_offset, adopting,"
            " last_causes) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
            " ON CONFLICT (projection, topic, partition) DO UPDATE SET topic_id = excluded.topic_id,"
            " leader_epoch = NULL, log_epoch = excluded.log_epoch, next_offset = excluded.next_offset,"
            " adopting = excluded.adopting, last_causes = excluded.last_causes, updated_at = now()",
            [
                (
                    name,
                    topic,
                    row.partition,
                    row.topic_id,
                    row.log_epoch,
                    row.next_offset,
                    row.adopting,
                    Json(dict(row.last_causes)),
                )
                for row in placing.rows
            ],
        )


def _unpublish(connection: Connection, in_log: Callable[[str, str], bool]) -> int:
    """What an older log does not say of who is who is to be said again before it counts."""
    people = connection.execute("SELECT source_id, upstream_user FROM core.users WHERE published").fetchall()
    unknown = [(source, user) for source, user in people if not in_log(source, user)]
    connection.execute(
        "UPDATE core.users u SET published = false FROM unnest(%s::text[], %s::text[]) AS k (source_id, upstream_user)"
        " WHERE k.source_id = u.source_id AND k.upstream_user = u.upstream_user",
        ([source for source, _ in unknown], [user for _, user in unknown]),
    )
    return len(unknown)
