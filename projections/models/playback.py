"""The playback projection: decisions to progress, history, plays, listening time and explanations.

A person who is forgotten has no rows, whatever the log says of them: what it says before falls with the rows, and what
it says later, or says again (a replay, an older copy of the log under a higher log_epoch), is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import cast

from projections.base import Connection, Folded, Invalidation, Projection, Record
from projections.models import playback_sql as sql
from projections.models.playback_bulk import PlaybackBulk
from projections.models.playback_rows import (
    LOGGED_AT_MAX,
    VERDICTS,
    changes_state,
    continue_key,
    minute_key,
    progress_key,
)
from projections.models.playback_stage import Key, per_key, stage_row
from schemas.events import Event, PlaybackDecided, SourcePosition, UserForgotten
from schemas.topics import PLAYBACK_DECIDED
from streams.runtime.errors import Permanent
from streams.runtime.misplaced import hold_in_place, hold_person_in_place

Decided = PlaybackDecided | UserForgotten


class PlaybackProjection(Projection[Decided]):
    """playback.decided to model.playback_progress, progress_history, plays, listening_time, processed_events; and
    who was forgotten to model.forgotten_users."""

    name = "playback"
    topic = PLAYBACK_DECIDED
    version = 1
    gather_ms = 20
    tables = (
        "playback_progress",
        "user_versions",
        "progress_history",
        "plays",
        "listening_time",
        "processed_events",
        "forgotten_users",
    )
    reads = ("model.media_merges",)
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

    def bulk(self, tx: Connection, since: date) -> PlaybackBulk:
        return PlaybackBulk({row[0] for row in tx.execute(sql.SELECT_ALL_FORGOTTEN.encode()).fetchall()}, since)

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
        return Folded([*folded.invalidations, *_forget(asked, tx)], stale=folded.stale, untidy=True)

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

    def tidy(self, tx: Connection) -> None:
        # Tables kept for a rollback, and what an ended rebuild left, never come to the word in the log.
        tx.execute(sql.FORGET_IN_COPIES.encode())

    def _decided(self, batch: Sequence[Record[PlaybackDecided]], tx: Connection) -> Folded:
        newest, moved = per_key(batch)
        with tx.cursor().copy(sql.COPY_STAGE.encode()) as copy:
            for record in batch:
                key = (record.event.user_ref, record.event.media_id)
                copy.write_row(stage_row(record, newest.get(key) is record, moved.get(key)))
        with tx.pipeline():
            for statement in (sql.INSERT_PROCESSED, sql.INSERT_HISTORY, sql.INSERT_PLAYS, sql.INSERT_LISTENING):
                tx.execute(statement.encode())
            written = tx.execute(sql.UPSERT_PROGRESS.encode())
            ended = tx.execute(sql.SURVIVORS.encode())
        applied: list[Key] = written.fetchall()
        survivors = dict(ended.fetchall())
        return Folded(_invalidations([newest[key] for key in applied], survivors), stale=len(newest) - len(applied))


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
        found += [Invalidation.by(record, key, "forgotten") for key in keys]
    return found


def _invalidations(written: Sequence[Record[PlaybackDecided]], survivors: Mapping[str, str]) -> list[Invalidation]:
    """One for each progress row written, for what is asked by the media it has taken in or is shown in, and for each
    person's lists, each with its newest version."""
    found: dict[str, Record[PlaybackDecided]] = {}
    for record in sorted(written, key=lambda record: (record.log_epoch, record.offset)):
        event = record.event
        shown_in = survivors.get(event.media_id, event.media_id)
        for media_id in {event.media_id, shown_in, *event.joined}:
            found[progress_key(event.user_ref, media_id)] = record
        found[continue_key(event.user_ref)] = record
    return [
        Invalidation.by(record, key, f"{record.event.kind} {record.event.verdict}")
        for key, record in sorted(found.items())
    ]
