"""The playback projection: decisions to progress, history, plays, listening time and explanations.

A person who is forgotten has no rows, whatever the log says of them: what it says before falls with the rows, and what
it says later, or says again (a replay, an older copy of the log under a higher log_epoch), is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from projections.base import Connection, Folded, Invalidation, Projection, Record
from projections.models import playback_sql as sql
from projections.models.playback_rows import (
    LOGGED_AT_MAX,
    VERDICTS,
    changes_state,
    continue_key,
    event_key,
    in_history,
    logged_day,
    minute_key,
    progress_key,
    result_hash,
)
from schemas.events import Conflict, Event, Pending, PlaybackDecided, SourcePosition, UserForgotten
from schemas.topics import PLAYBACK_DECIDED
from streams.runtime.errors import Permanent
from streams.runtime.misplaced import hold_in_place, hold_person_in_place

Key = tuple[str, str]
Decided = PlaybackDecided | UserForgotten


class PlaybackProjection(Projection[Decided]):
    """playback.decided to model.playback_progress, progress_history, plays, listening_time, processed_events; and
    who was forgotten to model.forgotten_users."""

    name = "playback"
    topic = PLAYBACK_DECIDED
    version = 1
    tables = (
        "playback_progress",
        "user_versions",
        "progress_history",
        "plays",
        "listening_time",
        "processed_events",
        "forgotten_users",
    )
    newest_wins = frozenset({"playback_progress", "user_versions"})

    def accept(self, key: bytes, event: Event, partition: int) -> Decided:
        if isinstance(event, UserForgotten):
            hold_person_in_place(event, key, partition, self.topic)
            if event.cause is not None:
                _of_this_place(event.cause, partition)
            return event
        if not isinstance(event, PlaybackDecided):
            raise Permanent(f"a {type(event).__name__} is no decision", cause="wrong_event")
        hold_in_place(event, key, partition, self.topic)
        _of_this_place(event.cause, partition)
        if event.verdict not in VERDICTS or not 0 <= event.logged_at <= LOGGED_AT_MAX:
            raise Permanent("an unknown verdict, or a log-append time outside the calendar", cause="invalid_value")
        return event

    def cause(self, event: Decided) -> SourcePosition | None:
        return event.cause

    def prepare(self, connection: Connection) -> None:
        connection.execute(sql.CREATE_STAGE.encode())

    def fold(self, batch: Sequence[Record[Decided]], tx: Connection) -> Folded:
        asked = _forgets(batch)
        gone = asked.keys() | _forgotten(batch, tx)
        decisions = [
            cast(Record[PlaybackDecided], record)
            for record in batch
            if isinstance(record.event, PlaybackDecided) and record.event.user_ref not in gone
        ]
        folded = self._decided(decisions, tx) if decisions else Folded(())
        if not asked:
            return folded
        return Folded([*folded.invalidations, *_forget(asked, tx)], stale=folded.stale)

    def fold_late(self, record: Record[Decided], tx: Connection) -> Folded:
        event = record.event
        if isinstance(event, PlaybackDecided):
            # Of a minute the first progress is kept, and this one comes before what is there.
            tx.execute(sql.DELETE_LATER_OF_MINUTE.encode(), (minute_key(event), record.log_epoch, record.offset))
        folded = self.fold([record], tx)
        if isinstance(event, PlaybackDecided) and changes_state(event) and event.position_moved:
            tx.execute(
                sql.NAME_LATE_MOVER.encode(),
                {
                    "event_id": event.event_id,
                    "event_time": event.report_event_time,
                    "device_id": event.report_device_id,
                    "user": event.user_ref,
                    "media": event.media_id,
                    "log_epoch": record.log_epoch,
                    "version": record.offset,
                },
            )
        return folded

    def _decided(self, batch: Sequence[Record[PlaybackDecided]], tx: Connection) -> Folded:
        newest, moved = _per_key(batch)
        with tx.cursor().copy(sql.COPY_STAGE.encode()) as copy:
            for record in batch:
                key = (record.event.user_ref, record.event.media_id)
                copy.write_row(_stage_row(record, newest.get(key) is record, moved.get(key)))
        with tx.pipeline():
            for statement in (sql.INSERT_PROCESSED, sql.INSERT_HISTORY, sql.INSERT_PLAYS, sql.INSERT_LISTENING):
                tx.execute(statement.encode())
            written = tx.execute(sql.UPSERT_PROGRESS.encode())
        applied: list[Key] = written.fetchall()
        return Folded(_invalidations([newest[key] for key in applied]), stale=len(newest) - len(applied))


def _of_this_place(cause: SourcePosition, partition: int) -> None:
    """Return when ``cause`` is a position in ``partition``. Raises Permanent."""
    if cause.partition != partition:
        raise Permanent("what it follows from is of another partition", cause="wrong_partition")
    if cause.offset < 0 or cause.index < 0:
        raise Permanent("the cause is no position", cause="invalid_value")


def _forgets(batch: Sequence[Record[Decided]]) -> dict[str, Record[UserForgotten]]:
    """Whom this batch forgets, each with the record that says so first."""
    asked: dict[str, Record[UserForgotten]] = {}
    for record in batch:
        if isinstance(record.event, UserForgotten):
            asked.setdefault(record.event.user_ref, cast(Record[UserForgotten], record))
    return asked


def _forgotten(batch: Sequence[Record[Decided]], tx: Connection) -> set[str]:
    """Who of the people in this batch was forgotten before it."""
    people = sorted({record.event.user_ref for record in batch})
    return {row[0] for row in tx.execute(sql.SELECT_FORGOTTEN.encode(), (people,)).fetchall()}


def _forget(asked: Mapping[str, Record[UserForgotten]], tx: Connection) -> list[Invalidation]:
    """Delete all rows of these people and keep that there were such; what was known of them is stale."""
    found: list[Invalidation] = []
    for user, record in sorted(asked.items()):
        tx.execute(sql.INSERT_FORGOTTEN.encode(), (user, record.partition, record.log_epoch, record.offset))
        media: set[str] = set()
        for statement in sql.DELETE_PERSON:
            media.update(row[0] for row in tx.execute(statement.encode(), (user,)).fetchall())
        keys = [*(progress_key(user, media_id) for media_id in sorted(media)), continue_key(user)]
        found += [_invalidation(key, record, "forgotten") for key in keys]
    return found


def _per_key(
    batch: Sequence[Record[PlaybackDecided]],
) -> tuple[dict[Key, Record[PlaybackDecided]], dict[Key, PlaybackDecided]]:
    """Of each key: its newest record with an effect, and the last report that moved position, phase or epoch."""
    newest: dict[Key, Record[PlaybackDecided]] = {}
    moved: dict[Key, PlaybackDecided] = {}
    for record in batch:
        event = record.event
        if changes_state(event):
            newest[event.user_ref, event.media_id] = record
            if event.position_moved:
                moved[event.user_ref, event.media_id] = event
    return newest, moved


def _invalidations(written: Sequence[Record[PlaybackDecided]]) -> list[Invalidation]:
    """One for each progress row written, for what was asked by the media it has taken in, and for each person's lists,
    each with its newest version."""
    found: dict[str, Record[PlaybackDecided]] = {}
    for record in sorted(written, key=lambda record: (record.log_epoch, record.offset)):
        event = record.event
        for media_id in (event.media_id, *event.joined):
            found[progress_key(event.user_ref, media_id)] = record
        found[continue_key(event.user_ref)] = record
    return [
        _invalidation(key, record, f"{record.event.kind} {record.event.verdict}")
        for key, record in sorted(found.items())
    ]


def _invalidation(key: str, record: Record[Any], reason: str) -> Invalidation:
    return Invalidation(
        cache_key=key,
        log_epoch=record.log_epoch,
        partition=record.partition,
        version=record.offset,
        event_id=record.event.event_id,
        correlation_id=record.event.correlation_id,
        source_id=record.event.source_id,
        reason=reason,
    )


def _stage_row(record: Record[PlaybackDecided], newest: bool, moved: PlaybackDecided | None) -> tuple[Any, ...]:
    """In the order of sql.STAGE_COLUMNS."""
    event, cause = record.event, record.event.cause
    return (
        cause.topic_id,
        cause.partition,
        cause.offset,
        cause.index,
        record.partition,
        record.log_epoch,
        record.offset,
        event.event_id,
        event.correlation_id,
        event.source_id,
        event.user_ref,
        event.media_id,
        event.kind,
        event.origin,
        event.occurred_at,
        event.received_at,
        event.logged_at,
        logged_day(event),
        event.report_session_id,
        event.report_device_id,
        event.report_position_ms,
        event.report_event_time,
        event.verdict,
        event.reason,
        list(event.notes),
        event.position_moved,
        event.play_counted,
        event.play_epoch,
        event.listened_added_ms,
        event_key(event),
        result_hash(record.body),
        in_history(event),
        minute_key(event),
        event.media_kind,
        event.epoch,
        event.epoch_started_at,
        event.phase,
        event.position_ms,
        event.resume_position_ms,
        event.duration_ms,
        event.played,
        event.play_count,
        event.last_played_at,
        event.listened_ms,
        event.event_time,
        event.session_id,
        event.device_id,
        _json(event.pending),
        _json(event.conflict),
        list(event.joined),
        newest,
        moved.event_id if moved and newest else None,
        moved.report_event_time if moved and newest else None,
        moved.report_device_id if moved and newest else None,
    )


def _json(value: Pending | Conflict | None) -> str | None:
    return None if value is None else json.dumps(asdict(value))
