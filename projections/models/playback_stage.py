"""A decision as a row of the stage, from which all tables of playback are written (playback_sql.py)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from projections.base import Record
from projections.models.playback_rows import changes_state, event_key, in_history, logged_day, minute_key, result_hash
from schemas.events import Conflict, Pending, PlaybackDecided

Key = tuple[str, str]


def per_key(
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


def stage_row(record: Record[PlaybackDecided], newest: bool, moved: PlaybackDecided | None) -> tuple[Any, ...]:
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
