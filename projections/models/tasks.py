"""The task projection: commands of the library to what is wanted, in core.tasks.

A task's row is of one command topic's log: its versions are offsets there. Only the wanted side is written here;
leases, attempts and what is done are the workers'. A second request while one waits or runs raises the wanted
version and is no second task.
"""
# ruff: noqa: S608 - statements are put together from constants of this module

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

from projections.base import Connection, Folded, Projection, Record
from schemas.events import Event, SourcePosition
from schemas.library import (
    Command,
    ItemStatusRequested,
    MetadataRefreshRequested,
    ReconcileRequested,
    ScanCancelled,
    ScanConfirmed,
    ScanRequested,
)
from schemas.topics import LIBRARY_COMMANDS
from streams.runtime.clock import Clock
from streams.runtime.commands import command_partition, reconcile_requested
from streams.runtime.errors import Permanent

FORWARD: Final = "forward "
"""How the scope of a ReconcileRequested begins that is of one item a server is told of: user_ref:media_id."""
CHANNEL: Final = "playhead_tasks"
"""NOTIFY goes there when something new is wanted."""

# What was given up, is done, or was idle begins anew, at once; what waits after a failure goes on waiting, unless a
# person asks. A worker's own request for its next attempt changes the version alone. A record of an older log, or one
# that was applied before, changes nothing.
_WAITS: Final = (
    "(t.wanted_version > greatest(t.done_version, t.cancelled_version) AND t.dead_at IS NULL"
    " AND t.log_epoch = excluded.log_epoch)"
)
_OTHER_LOG: Final = "t.log_epoch < excluded.log_epoch"
_UPSERT: Final = f"""
INSERT INTO core.tasks AS t (kind, key, source_id, log_epoch, wanted_version, payload, correlation_id, requested_at)
VALUES (%(kind)s, %(key)s, %(source_id)s, %(log_epoch)s, %(version)s, %(payload)s::jsonb, %(correlation_id)s, now())
ON CONFLICT (kind, key) DO UPDATE SET
    payload = CASE WHEN {_OTHER_LOG} THEN excluded.payload ELSE t.payload || excluded.payload END,
    correlation_id = excluded.correlation_id,
    requested_at = CASE WHEN {_WAITS} OR NOT %(anew)s THEN t.requested_at ELSE now() END,
    attempts = CASE WHEN %(urgent)s OR t.dead_at IS NOT NULL AND %(anew)s OR {_OTHER_LOG} THEN 0 ELSE t.attempts END,
    next_attempt_at = CASE WHEN {_WAITS} AND NOT %(urgent)s THEN t.next_attempt_at ELSE now() END,
    done_version = CASE WHEN {_OTHER_LOG} THEN -1 ELSE t.done_version END,
    cancelled_version = CASE WHEN {_OTHER_LOG} THEN -1 ELSE t.cancelled_version END,
    running_version = CASE WHEN {_OTHER_LOG} THEN NULL ELSE t.running_version END,
    dead_at = CASE WHEN %(anew)s OR {_OTHER_LOG} THEN NULL ELSE t.dead_at END,
    log_epoch = excluded.log_epoch, wanted_version = excluded.wanted_version
WHERE (excluded.log_epoch, excluded.wanted_version) > (t.log_epoch, t.wanted_version)
"""
_CANCEL: Final = """
UPDATE core.tasks SET cancelled_version = greatest(cancelled_version, %(generation)s)
WHERE kind = 'scan' AND key = %(source_id)s AND log_epoch = %(log_epoch)s
"""

# Of the newest decision there is; its versions are offsets of another log than the commands', and stay.
_FORWARD: Final = """
INSERT INTO core.tasks AS t (kind, key, source_id, log_epoch, wanted_version, payload, correlation_id, requested_at)
SELECT 'forward', %(key)s, w.source_id, w.log_epoch, w.version, jsonb_build_object(
    'record', w.user_ref || ':' || w.from_media, 'soon', true, 'logged_at', w.logged_at), %(correlation_id)s, now()
FROM core.forward_wanted w
WHERE w.source_id = %(source_id)s AND w.user_ref = split_part(%(key)s, ':', 1)
  AND w.media_id = split_part(%(key)s, ':', 2) AND w.place <> 'none'
ON CONFLICT (kind, key) DO UPDATE SET
    done_version = least(t.done_version, t.wanted_version - 1), correlation_id = excluded.correlation_id,
    requested_at = now(), attempts = 0, next_attempt_at = now(), dead_at = NULL
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a record asks for. ``urgent``: a person does, and shall not wait for an old failure's back-off. ``anew``:
    what was given up is to be tried again; False for a worker's own request for its next attempt."""

    kind: str
    key: str
    payload: dict[str, Any]
    urgent: bool
    anew: bool = True


@dataclass(frozen=True, slots=True)
class CancelScan:
    generation: int


@dataclass(frozen=True, slots=True)
class ForwardAgain:
    """A server may not have what it was told: it is to be asked, and told once more. ``key``: of the task."""

    key: str


@dataclass(frozen=True, slots=True)
class NotATask:
    """For the library agent alone."""


Meaning: TypeAlias = Wanted | CancelScan | ForwardAgain | NotATask


def meaning(command: Command, offset: int) -> Meaning:
    """What the command at ``offset`` means for tasks.

    "full" in a payload is the offset of the last request for a full scan: it holds until that version is done, and
    merging payloads is then taking the newer of each name.
    """
    match command:
        case ScanRequested():
            payload: dict[str, Any] = {"requested_by": command.requested_by}
            if command.full:
                payload["full"] = offset
            by = command.requested_by
            return Wanted("scan", command.source_id, payload, urgent=by == "operator", anew=by != "retry")
        case MetadataRefreshRequested():
            of = command.source_id if command.media_id is None else f"{command.source_id}:{command.media_id}"
            return Wanted("metadata", of, {"media_id": command.media_id}, urgent=True)
        case ReconcileRequested() if command.scope.startswith(FORWARD):
            return ForwardAgain(command.scope.removeprefix(FORWARD))
        case ReconcileRequested():
            # One task a source; each scope holds until its own version is done.
            return Wanted("reconcile", command.source_id, {f"scope {command.scope}": offset}, urgent=True)
        case ScanCancelled():
            # Never what is requested after it.
            return CancelScan(min(command.generation, offset))
        case ScanConfirmed() | ItemStatusRequested():
            return NotATask()
        case _:
            assert_never(command)


def forward_again(source_id: str, user_ref: str, media_id: str, clock: Clock, correlation_id: str) -> Command:
    """The command that has a server asked, and told once more, how a person's playback of its media stands."""
    return reconcile_requested(source_id, clock, f"{FORWARD}{user_ref}:{media_id}", correlation_id=correlation_id)


class TaskProjection(Projection[Command]):
    """library.commands to core.tasks."""

    name = "tasks"
    topic = LIBRARY_COMMANDS
    version = 1

    def accept(self, key: bytes, event: Event, partition: int) -> Command:
        if not isinstance(event, Command):
            raise Permanent(f"a {type(event).__name__} is no command", cause="wrong_event")
        if key != event.source_id.encode():
            raise Permanent("the key is not the source's", cause="key_mismatch")
        if partition != command_partition(event.source_id):
            raise Permanent("commands of this source are in another partition", cause="wrong_partition")
        return event

    def cause(self, event: Command) -> SourcePosition | None:
        del event
        return None

    def fold(self, batch: Sequence[Record[Command]], tx: Connection) -> Folded:
        stale = wanted = 0
        with tx.pipeline():
            done = []
            # By source, so that two projectors lock rows in one order; within a source the log's order holds.
            for record in sorted(batch, key=lambda record: (record.event.source_id, record.log_epoch, record.offset)):
                event = record.event
                means = meaning(event, record.offset)
                match means:
                    case Wanted():
                        named = {
                            "kind": means.kind,
                            "key": means.key,
                            "source_id": event.source_id,
                            "log_epoch": record.log_epoch,
                            "version": record.offset,
                            "payload": json.dumps(means.payload),
                            "correlation_id": event.correlation_id,
                            "urgent": means.urgent,
                            "anew": means.anew,
                        }
                        done.append(tx.execute(_UPSERT.encode(), named))
                    case CancelScan():
                        named = {
                            "generation": means.generation,
                            "source_id": event.source_id,
                            "log_epoch": record.log_epoch,
                        }
                        tx.execute(_CANCEL.encode(), named)
                    case ForwardAgain():
                        named = {
                            "key": means.key,
                            "source_id": event.source_id,
                            "correlation_id": event.correlation_id,
                        }
                        done.append(tx.execute(_FORWARD.encode(), named))
                    case NotATask():
                        continue
                    case _:
                        assert_never(means)
        for cursor in done:
            wanted += cursor.rowcount
            stale += 1 - cursor.rowcount
        if wanted:
            tx.execute(b"NOTIFY playhead_tasks")
        return Folded((), stale=stale)
