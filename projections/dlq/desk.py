"""Letters as an operator sees and marks them: rows of api.dead_letters, marks and audit in core.

A mark and its line in the audit are of one transaction. Who may be marked is asked in the statement that marks, so of
two operators one wins and the other is told which letters were not theirs.
"""
# ruff: noqa: S608 - statements are put together from constants of this module

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

import psycopg
from psycopg.rows import dict_row

from projections.base import Connection, Projection
from streams.runtime.errors import ConfigurationError, Unavailable

LIMIT_MAX: Final = 10_000
_LOCK: Final = "SELECT pg_try_advisory_lock(hashtext('playhead.dlq'))"
_COLUMNS: Final = (
    "letter_id, topic, topic_id, topic_partition, topic_offset, consumer, cause_class, error_class, error_text,"
    " source_id, correlation_id, schema_id, key_bytes, value_bytes, attempts, failed_at, logged_at, partition, version,"
    " status, actor, reason, marked_at, sent_topic, sent_partition, sent_from, sent_offset, failures, last_error"
)


class Status(StrEnum):
    """What became of a letter. REDRIVING: somebody began and has not said that it is done."""

    OPEN = "open"
    PARKED = "parked"
    REDRIVING = "redriving"
    REDRIVEN = "redriven"
    DISCARDED = "discarded"


UNSETTLED: Final = (Status.OPEN, Status.REDRIVING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One row. ``topic`` to ``topic_offset``: where the record lies; ``partition`` and ``version``: where the letter
    does. Times are epoch ms."""

    letter_id: str
    topic: str
    topic_id: str
    topic_partition: int
    topic_offset: int
    consumer: str
    cause_class: str
    error_class: str
    error_text: str
    source_id: str
    correlation_id: str
    schema_id: int | None
    key_bytes: int | None
    value_bytes: int | None
    attempts: int
    failed_at: int
    logged_at: int
    partition: int
    version: int
    status: str
    actor: str | None
    reason: str
    marked_at: Any
    sent_topic: str | None
    sent_partition: int | None
    sent_from: int | None
    sent_offset: int | None
    failures: int
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which letters are meant; what is empty says nothing. Ids may be cut to their beginning. ``older_ms``,
    ``newer_ms``: epoch ms that a letter was logged before, or not before."""

    letters: Sequence[str] = ()
    topic: str | None = None
    cause: str | None = None
    consumer: str | None = None
    source: str | None = None
    older_ms: int | None = None
    newer_ms: int | None = None
    statuses: Sequence[str] = UNSETTLED
    limit: int = 50

    def as_json(self) -> dict[str, Any]:
        """For the audit: what was said, nothing else."""
        named = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in named.items() if value not in (None, (), [])}

    @property
    def everything(self) -> bool:
        """Whether nothing narrows it down."""
        return not (
            self.letters or self.topic or self.cause or self.consumer or self.source or self.older_ms or self.newer_ms
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Letters alike. ``first_at``, ``last_at``: log-append times, epoch ms; ``example``: the newest one's id."""

    consumer: str
    topic: str
    cause_class: str
    status: str
    count: int
    first_at: int
    last_at: int
    example: str


@dataclass(frozen=True, slots=True)
class Sent:
    """Where the record of a letter goes, or went. ``begin``: the end of that partition before."""

    topic: str
    partition: int
    begin: int
    offset: int | None = None


class Desk:
    """One operator's connection, as the role that keeps the list. Use as a context manager; not thread-safe.

    Methods raise Unavailable when PostgreSQL is away.
    """

    def __init__(self, conninfo: Mapping[str, Any], actor: str) -> None:
        self._conninfo = dict(conninfo)
        self.actor = actor
        self._connection: Connection | None = None
        self._prepared: set[str] = set()

    def __enter__(self) -> Self:
        with _judged():
            self._connection = psycopg.connect(**{**self._conninfo, "autocommit": True})
        return self

    def __exit__(self, *exc: object) -> None:
        if self._connection is not None:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Committed at the end, rolled back by any exception."""
        assert self._connection is not None
        with _judged(), self._connection.transaction():
            yield self._connection

    def prepare(self, projection: Projection[Any]) -> None:
        """What a projection needs of the connection it folds in, once."""
        assert self._connection is not None
        if projection.name not in self._prepared:
            with _judged():
                projection.prepare(self._connection)
            self._prepared.add(projection.name)

    def alone(self) -> None:
        """Return when nobody else redrives. Raises Unavailable otherwise. Held until the connection ends."""
        with self.transaction() as tx:
            row = tx.execute(_LOCK.encode()).fetchone()
        if row is None or not row[0]:
            raise Unavailable("somebody else redrives letters at this moment")

    def letters(self, chosen: Chosen) -> list[Letter]:
        """Newest first. Raises ConfigurationError when a beginning of an id is that of several letters."""
        with self.transaction() as tx:
            ids = _whole(tx, chosen.letters) if chosen.letters else None
            where, values = _where(chosen, ids)
            cursor = tx.cursor(row_factory=dict_row)
            cursor.execute(
                f"SELECT {_COLUMNS} FROM api.dead_letters WHERE {where}"
                " ORDER BY logged_at DESC, letter_id LIMIT %(limit)s".encode(),
                values,
            )
            return [Letter(**row) for row in cursor.fetchall()]

    def groups(self, chosen: Chosen) -> list[Group]:
        """All that were chosen, whatever the limit on letters: it is one on groups here. Most letters first."""
        with self.transaction() as tx:
            ids = _whole(tx, chosen.letters) if chosen.letters else None
            where, values = _where(chosen, ids)
            rows = tx.execute(
                "SELECT consumer, topic, cause_class, status, count(*), min(logged_at), max(logged_at),"
                " (array_agg(letter_id ORDER BY logged_at DESC))[1]"
                f" FROM api.dead_letters WHERE {where} GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4"
                " LIMIT %(limit)s".encode(),
                values,
            ).fetchall()
        return [Group(*row) for row in rows]

    def unlisted(self) -> int:
        """How many letters there were that have no row any more: pushed out by their own flood, or expired."""
        with self.transaction() as tx:
            row = tx.execute(
                b"SELECT (SELECT coalesce(sum(letters), 0) FROM model.dead_letter_origins)"
                b" - (SELECT count(*) FROM model.dead_letters)"
            ).fetchone()
        assert row is not None
        return max(0, int(row[0]))

    def mark(
        self, tx: Connection, action: str, letters: Sequence[str], to: Status, *, of: Sequence[Status], reason: str,
        chosen: Chosen,
    ) -> list[str]:  # fmt: skip
        """Mark those of ``letters`` whose status is one ``of``, and audit it. Returns them."""
        rows = tx.execute(
            b"INSERT INTO core.dead_letter_marks AS m (letter_id, status, actor, reason, failed_at)"
            b" SELECT l.letter_id, %(to)s, %(actor)s, %(reason)s, d.failed_at"
            b" FROM unnest(%(letters)s::text[]) AS l (letter_id) LEFT JOIN model.dead_letters d USING (letter_id)"
            b" WHERE %(fresh)s OR EXISTS (SELECT FROM core.dead_letter_marks k WHERE k.letter_id = l.letter_id)"
            b" ORDER BY l.letter_id"
            b" ON CONFLICT (letter_id) DO UPDATE SET status = excluded.status, actor = excluded.actor,"
            b" reason = excluded.reason, marked_at = now(), failed_at = excluded.failed_at"
            b" WHERE model.letter_status(m.status, m.failed_at, excluded.failed_at) = ANY(%(of)s)"
            b" RETURNING letter_id",
            {
                "to": to.value,
                "actor": self.actor,
                "reason": reason,
                "letters": sorted(set(letters)),
                "of": [status.value for status in of],
                "fresh": Status.OPEN in of,
            },
        ).fetchall()
        done = [str(row[0]) for row in rows]
        self.audit(tx, action, done, reason, chosen)
        return done

    def audit(self, tx: Connection, action: str, letters: Sequence[str], reason: str, chosen: Chosen) -> None:
        """Add a line, if it is about any letter."""
        if letters:
            tx.execute(
                b"INSERT INTO core.dlq_audit (actor, action, reason, chosen, letters) VALUES (%s, %s, %s, %s, %s)",
                (self.actor, action, reason, json.dumps(chosen.as_json()), sorted(letters)),
            )

    def sending(self, tx: Connection, places: Mapping[str, Sent]) -> None:
        """Keep where the records of letters that are being redriven will go, or went."""
        tx.cursor().executemany(
            b"UPDATE core.dead_letter_marks SET sent_topic = %s, sent_partition = %s, sent_from = %s, sent_offset = %s"
            b" WHERE letter_id = %s",
            [(one.topic, one.partition, one.begin, one.offset, letter) for letter, one in places.items()],
        )

    def failed(self, tx: Connection, letter: str, error: str) -> None:
        """Back to open: it could not be processed this time either."""
        tx.execute(
            b"INSERT INTO core.dead_letter_marks AS m (letter_id, status, actor, failures, last_error)"
            b" VALUES (%s, 'open', %s, 1, %s)"
            b" ON CONFLICT (letter_id) DO UPDATE SET status = 'open', actor = excluded.actor, marked_at = now(),"
            b" failures = m.failures + 1, last_error = excluded.last_error",
            (letter, self.actor, error),
        )

    def audited(self, limit: int) -> list[dict[str, Any]]:
        """The newest lines of the audit, newest first."""
        with self.transaction() as tx:
            cursor = tx.cursor(row_factory=dict_row)
            cursor.execute(
                b"SELECT at, actor, action, reason, chosen, letters FROM core.dlq_audit ORDER BY id DESC LIMIT %s",
                (limit,),
            )
            return cursor.fetchall()


def _whole(tx: Connection, beginnings: Sequence[str]) -> list[str]:
    """The ids that begin so. Raises ConfigurationError for one that means none or several."""
    found: list[str] = []
    for beginning in beginnings:
        rows = tx.execute(
            b"SELECT letter_id FROM model.dead_letters WHERE starts_with(letter_id, %s) LIMIT 2", (beginning,)
        ).fetchall()
        if len(rows) != 1:
            raise ConfigurationError(
                f"{beginning}: {'several letters begin so' if rows else 'there is no such letter'}"
            )
        found.append(rows[0][0])
    return found


def _where(chosen: Chosen, ids: Sequence[str] | None) -> tuple[str, dict[str, Any]]:
    wanted = {
        "letter_id = ANY(%(ids)s)": ids is not None,
        "topic = %(topic)s": chosen.topic is not None,
        "cause_class = %(cause)s": chosen.cause is not None,
        "consumer = %(consumer)s": chosen.consumer is not None,
        "source_id = %(source)s": chosen.source is not None,
        "logged_at < %(older_ms)s": chosen.older_ms is not None,
        "logged_at >= %(newer_ms)s": chosen.newer_ms is not None,
        "status = ANY(%(statuses)s)": bool(chosen.statuses),
    }
    values = {name: getattr(chosen, name) for name in chosen.__slots__} | {
        "ids": ids,
        "statuses": [str(status) for status in chosen.statuses],
        "limit": min(chosen.limit, LIMIT_MAX),
    }
    return " AND ".join(clause for clause, said in wanted.items() if said) or "true", values


@contextmanager
def _judged() -> Iterator[None]:
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError) as exc:
        raise Unavailable(f"PostgreSQL does not answer: {type(exc).__name__}") from exc
    except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege) as exc:
        raise ConfigurationError("the database lacks what this build needs: run 'playhead migrate'") from exc
