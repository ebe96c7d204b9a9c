"""Where a rebuild begins, and what is taken over of the live rows when that is not the first record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, assert_never

from psycopg import sql

from projections.base import Connection, Projection
from projections.offsets import Position
from projections.rebuild import tables
from projections.rebuild.reading import LogReader
from schemas.topics import FOREVER_MS, Topic
from streams.runtime.errors import ConfigurationError

_OFFSET: Final = re.compile(r"\d{1,18}")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first record."""

    def __str__(self) -> str:
        return "0"


@dataclass(frozen=True, slots=True)
class FromOffset:
    """This offset, in every partition that has got so far; the others begin at their end."""

    offset: int

    def __str__(self) -> str:
        return str(self.offset)


@dataclass(frozen=True, slots=True)
class FromTime:
    """The first record of each partition appended at this time or later (ms)."""

    at_ms: int

    def __str__(self) -> str:
        return datetime.fromtimestamp(self.at_ms / 1000, UTC).isoformat()


Start: TypeAlias = Beginning | FromOffset | FromTime


def start_of(text: str) -> Start:
    """An offset, or a time as in RFC 3339; UTC when it names no zone. Raises ConfigurationError for anything else."""
    if _OFFSET.fullmatch(text):
        return FromOffset(int(text)) if int(text) else Beginning()
    try:
        if not _DAY.match(text):
            raise ValueError("a row of digits would do, too")
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"{text!r} is neither an offset nor a time like 2026-11-29T20:15:00Z") from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return FromTime(int(at.timestamp() * 1000))


def begin_at(start: Start, topic: Topic, live: Mapping[int, Position], reader: LogReader) -> dict[int, Position]:
    """Where each partition begins: never beyond what the live model has read. What expires by itself was not lost: of
    such a topic the first record is the first there is."""
    match start:
        case Beginning():
            wanted: Mapping[int, int | None] = first_there_are(topic, live, reader) or dict.fromkeys(live, 0)
        case FromOffset():
            wanted = dict.fromkeys(live, start.offset)
        case FromTime():
            wanted = reader.at(start.at_ms, len(live))
        case _:
            assert_never(start)
    begin: dict[int, Position] = {}
    for partition, position in live.items():
        offset = wanted[partition]
        end = position.next_offset
        begin[partition] = Position(
            partition, None, None, position.log_epoch, end if offset is None else min(offset, end)
        )
    return begin


def first_there_are(topic: Topic, partitions: Iterable[int], reader: LogReader) -> dict[int, int] | None:
    """Of a topic whose records expire the first offset of each partition; None: they do not."""
    if topic.retention_ms == FOREVER_MS:
        return None
    return {partition: first for partition, (first, _) in reader.extents(partitions).items()}


def seed(tx: Connection, schema: str, projection: Projection[Any], begin: Mapping[int, Position]) -> int:
    """Take over of the live rows what the records from ``begin`` on do not say; returns how many rows.

    Rows that never change once written are taken when they are older. Rows that the newest record of their key writes
    are all taken, those that are as new or newer with the version just before ``begin``: the records write them again,
    and leave of them only what those records do not say. What is taken is trusted: only later rows are checked.
    """
    if not projection.from_anywhere:
        raise ConfigurationError(
            f"{projection.name} counts what changes between records: it is rebuilt from the first record of the log it "
            "has always read, and from nowhere else"
        )
    rows = 0
    for partition, position in sorted(begin.items()):
        first = (position.log_epoch, position.next_offset)
        for table in projection.tables:
            names = tables.columns(tx, tables.LIVE, table)
            older = sql.SQL("(log_epoch, version) < ({}, {})").format(*map(sql.Literal, first))
            listed = sql.SQL(", ").join(map(sql.Identifier, names))
            if table in projection.newest_wins:
                capped = {"log_epoch": first[0], "version": first[1] - 1}
                picked = sql.SQL(", ").join(
                    sql.SQL("CASE WHEN {} THEN {} ELSE {} END").format(
                        older, sql.Identifier(name), sql.Literal(capped[name])
                    )
                    if name in capped
                    else sql.Identifier(name)
                    for name in names
                )
                condition = sql.SQL("true").format()
            else:
                picked, condition = listed, older
            done = tx.execute(
                sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE partition = {} AND {}").format(
                    sql.Identifier(schema, table),
                    listed,
                    picked,
                    sql.Identifier(tables.LIVE, table),
                    sql.Literal(partition),
                    condition,
                )
            )
            rows += done.rowcount
    return rows


def needs_seed(start: Start, begin: Mapping[int, Position]) -> bool:
    """Whether there may be live rows that the records from ``begin`` on do not make."""
    if any(position.log_epoch > 1 for position in begin.values()):
        return True
    return not isinstance(start, Beginning) and any(position.next_offset > 0 for position in begin.values())
