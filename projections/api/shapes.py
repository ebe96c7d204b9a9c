"""The JSON of the read API. Times are epoch milliseconds, positions and durations milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from projections.api.read_models import Row
from projections.api.versions import Version


class VersionOut(BaseModel):
    """Compare by model_epoch, then log_epoch, then offset; only versions of one key compare."""

    model_epoch: int
    log_epoch: int
    partition: int
    offset: int

    @classmethod
    def of(cls, version: Version | None) -> VersionOut | None:
        if version is None:
            return None
        return cls(
            model_epoch=version.model_epoch,
            log_epoch=version.log_epoch,
            partition=version.partition,
            offset=version.offset,
        )


class ContinueOut(BaseModel):
    """An entry of the list of what to go on with."""

    user: str = Field(description="user_ref")
    media: str = Field(description="media_id")
    upstream_media: str | None = Field(description="what the caller's source calls it; null without a source")
    media_kind: str
    epoch: int
    phase: str
    position_ms: int
    resume_position_ms: int | None = Field(description="where to resume; null: nothing to resume")
    duration_ms: int | None
    played: bool
    play_count: int
    event_time: int
    device_id: str | None
    updated_at: int = Field(description="log-append time of the newest report in it")
    version: VersionOut | None

    @classmethod
    def fields_of(cls, row: Row, upstream: Mapping[str, str]) -> dict[str, Any]:
        """``upstream``: media_id → what the caller's source calls it."""
        version = Version(row["model_epoch"], row["log_epoch"], row["partition"], row["version"])
        named = {name: row[name] for name in cls.model_fields if name in row and name != "version"}
        return named | {
            "user": row["user_ref"],
            "media": row["media_id"],
            "upstream_media": upstream.get(row["media_id"]),
            "updated_at": row["updated_ms"],
            "version": VersionOut.of(version),
        }


class ProgressOut(ContinueOut):
    """One person's playback of one media: the state after the newest decision."""

    epoch_started_at: int | None
    last_played_at: int | None
    listened_ms: int
    session_id: str | None
    pending: dict[str, Any] | None = Field(description="a run that has not yet shown intent to move the position back")
    conflict: dict[str, Any] | None = Field(description="a late position further than the stored one")
    source_event_id: str | None = Field(description="the report that last moved position, phase or epoch")
    source_event_time: int | None
    source_device_id: str | None
    correlation_id: str


class HistoryOut(BaseModel):
    """One turn of playback, or the first progress of a minute."""

    id: str = Field(description="names this entry")
    event_id: str
    source: str
    kind: str
    origin: str
    verdict: str
    reason: str | None
    notes: list[str]
    session_id: str | None
    device_id: str | None
    report_position_ms: int | None
    event_time: int
    occurred_at: int | None
    logged_at: int
    position_moved: bool
    play_counted: bool
    epoch: int
    phase: str
    position_ms: int = Field(description="the position after it")
    correlation_id: str

    @classmethod
    def of(cls, row: Row) -> HistoryOut:
        named = {name: row[name] for name in cls.model_fields if name in row}
        return cls(**named, id=f"{row['log_epoch']}.{row['partition']}.{row['version']}", source=row["source_id"])


class ProgressPage(BaseModel):
    items: list[ProgressOut]
    next: str | None = Field(description="?cursor= of the next page; null: this is the last")
    version: VersionOut | None = Field(description="of the whole list; null: it never had an entry")


class ContinuePage(BaseModel):
    items: list[ContinueOut]
    next: str | None = Field(description="?cursor= of the next page; null: this is the last")
    version: VersionOut | None = Field(description="of the whole list; null: it never had an entry")


class HistoryPage(BaseModel):
    user: str
    media: str
    items: list[HistoryOut]
    next: str | None = Field(description="?cursor= of the next page; null: this is the last")
    version: VersionOut | None


class EventOut(BaseModel):
    """What became of a report, and why."""

    event_id: str
    verdict: str
    reason: str | None
    notes: list[str]
    source: str
    user: str
    media: str
    kind: str
    origin: str
    report_position_ms: int | None = Field(description="what the report said")
    position_ms: int = Field(description="the position after it")
    occurred_at: int | None
    received_at: int
    event_time: int
    logged_at: int
    correlation_id: str
    deliveries: int = Field(description="how often it arrived; all but the first change nothing")
    cause_topic_id: str
    cause_partition: int
    cause_offset: int
    partition: int = Field(description="of the decision in playback.decided")
    offset: int
    log_epoch: int

    @classmethod
    def of(cls, row: Row) -> EventOut:
        named = {name: row[name] for name in cls.model_fields if name in row}
        return cls(**named, source=row["source_id"], user=row["user_ref"], media=row["media_id"], offset=row["version"])
