"""The task projection's fold and a worker's leases on a database of their own, without a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from projections.base import Record
from projections.digest import Digest, digests
from projections.models.tasks import TaskProjection
from schemas.library import Command, ScanCancelled, ScanRequested
from streams.runtime.blocking import BlockingDatabase
from streams.runtime.clock import FakeClock
from streams.runtime.commands import command_partition, scan_cancelled, scan_requested
from streams.runtime.leases import Tasks
from streams.runtime.settings import Role, Settings

CLOCK = FakeClock()


def record(event: Command, offset: int, log_epoch: int = 1) -> Record[Command]:
    return Record(event, command_partition(event.source_id), offset, log_epoch, CLOCK.now_ms(), b"")


def asked(source_id: str = "music", by: str = "operator", **more: Any) -> ScanRequested:
    return scan_requested(source_id, CLOCK, requested_by=by, **more)


def cancelled(generation: int, source_id: str = "music") -> ScanCancelled:
    return scan_cancelled(source_id, CLOCK, generation)


@dataclass
class Bench:
    settings: Settings
    superuser: str
    worker: BlockingDatabase

    def tasks(self, ttl_s: float = 30.0) -> Tasks:
        return Tasks(self.worker, ttl_s=ttl_s)

    def fold(self, *records: Record[Command]) -> int:
        """As the projector does; how many were stale."""
        with psycopg.connect(**self.settings.postgres.conninfo("projector"), autocommit=True) as connection:
            projection = TaskProjection()
            projection.prepare(connection)
            with connection.transaction():
                return projection.fold(records, connection).stale

    def want(self, *offsets: int, source_id: str = "music", by: str = "operator", **more: Any) -> None:
        """Scans of a source are requested at these offsets."""
        self.fold(*(record(asked(source_id, by, **more), offset) for offset in offsets))

    def digest(self) -> Digest:
        """Of what is wanted."""
        with self._connect(None) as connection:
            return digests(connection)["tasks"]

    def query(self, query: str, parameters: Sequence[Any] = (), role: Role | None = None) -> list[dict[str, Any]]:
        """As superuser, or as ``role``."""
        with self._connect(role) as connection:
            cursor = connection.cursor(row_factory=dict_row)
            cursor.execute(query.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def row(self, key: str = "music", kind: str = "scan") -> dict[str, Any]:
        [found] = self.query("SELECT * FROM core.tasks WHERE kind = %s AND key = %s", (kind, key))
        return found

    def expire(self, key: str = "music") -> None:
        """The server's clock passes the end of the lease."""
        self.query("UPDATE core.tasks SET lease_until = now() - interval '1 ms' WHERE key = %s", (key,))

    def due(self, key: str = "music") -> None:
        """What was put off is due."""
        self.query("UPDATE core.tasks SET next_attempt_at = now() WHERE key = %s", (key,))

    def _connect(self, role: Role | None) -> psycopg.Connection[Any]:
        if role is None:
            return psycopg.connect(self.superuser, autocommit=True)
        return psycopg.connect(**self.settings.postgres.conninfo(role), autocommit=True)
