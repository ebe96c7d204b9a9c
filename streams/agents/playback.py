"""The playback agent: a report and what is known of its key become a decision and a new row.

Outputs, tables and offset commit together (streams/engine), so every report has exactly one decision. What no
decision can be made of is a dead letter with its bytes: garbage, a report in another partition than its
person's, a key that contradicts its payload, and what the rules reject.

Media that turn out to be one are told by media.merged; a report under one that ended is decided, and its decision
sent, under the one that stays (merges.py). A merge itself makes no decision: nothing was played.

A person who is forgotten leaves no row, and what is still said of them is nothing (forgetting.py).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache
from typing import Any

from confluent_kafka import Message
from prometheus_client import Counter

from schemas.events import (
    Conflict,
    Event,
    Pending,
    PlaybackDecided,
    PlaybackReported,
    SourcePosition,
    UserForgotten,
)
from schemas.library import MediaMerged
from schemas.placement import partition_of, playback_key, playback_partition
from schemas.topics import MEDIA_MERGED, PLAYBACK_DECIDED, PLAYBACK_REPORTED
from streams.agents import aliases as alias_rows
from streams.agents import forgotten as forgotten_rows
from streams.agents import state as rows
from streams.agents.agent import Agent, AgentTable
from streams.agents.forgetting import Scanned, forget, is_forgotten
from streams.agents.merges import Rows, keep, touch
from streams.domain.playback import Decision, decide
from streams.domain.policy import POLICIES, Policy
from streams.domain.report import Report
from streams.domain.state import State
from streams.domain.words import Reason, Verdict
from streams.engine import App, Batch, Refused
from streams.runtime import logs, metrics
from streams.runtime.contract import Contract
from streams.runtime.errors import ConfigurationError, Permanent, Unavailable
from streams.runtime.misplaced import hold_in_place, hold_person_in_place
from streams.runtime.settings import Settings

TABLE = "progress"
ALIASES = "aliases"
FORGOTTEN = "forgotten"
OUTPUTS = (PLAYBACK_DECIDED.name,)
REGISTRY_WAIT_S = 2.0

_log = logs.get(__name__)


def declare(app: App, settings: Settings, contract: Contract) -> None:
    """Declare the tables and the agents of both topics on ``app``. Nothing connects here."""
    policy = POLICIES[settings.playback.policy]
    progress = app.Table(TABLE, help="state of one person and one media, by user_ref:media_id")
    aliases = app.Table(ALIASES, prefetch=media_of, help="what became of a media, by media_id")
    forgotten = app.Table(FORGOTTEN, prefetch=user_of, help="who was forgotten, by user_ref")

    @app.agent(app.source(PLAYBACK_REPORTED.name), outputs=OUTPUTS)
    async def playback(stream: Any) -> None:
        async for batch in stream:
            for record in batch.records:
                while not process(batch, record, progress, aliases, forgotten, contract, policy):
                    # Only an absent registry can tell what this record is. Waiting is no hang.
                    batch.keep_alive()
                    await asyncio.sleep(REGISTRY_WAIT_S)

    @app.agent(app.source(MEDIA_MERGED.name))
    async def media_merges(stream: Any) -> None:
        async for batch in stream:
            for record in batch.records:
                while not merge(batch, record, aliases, contract):
                    batch.keep_alive()
                    await asyncio.sleep(REGISTRY_WAIT_S)


def process(
    batch: Batch,
    record: Message,
    progress: Scanned,
    aliases: Rows,
    forgotten: Rows,
    contract: Contract,
    policy: Policy,
) -> bool:
    """Decide one report, or forget one person, inside the batch's transaction. False: it must be tried again later.

    Raises Refused when this build is too old for the record or the row; anything else unexpected passes
    through and ends the worker.
    """
    report: PlaybackReported | None = None
    try:
        with batch.guard(record):
            event = reported(record, contract)
            if isinstance(event, UserForgotten):
                _forget(batch, record, event, progress, forgotten, contract)
                return True
            report = event
            touched = touch(aliases, progress, report.user_ref, report.media_id)
            if touched.state is None and is_forgotten(forgotten, report.user_ref):
                metrics.FORGOTTEN_REFUSED.labels("agent").inc()
                return True
            logged_at = record.timestamp()[1]
            decision = decide(touched.state, as_report(report, logged_at, touched.media), policy)
            if decision.verdict is Verdict.REJECTED or decision.state is None:
                raise Permanent(
                    f"rejected: {decision.reason}",
                    cause="rejected",
                    correlation_id=report.correlation_id,
                    source_id=report.source_id,
                )
            key = playback_key(report.user_ref, touched.media)
            if decision.state != touched.kept:
                progress[key] = rows.encode(decision.state)
            cause = SourcePosition(batch.topic_id, batch.partition, _offset(record), 0)
            batch.send(
                PLAYBACK_DECIDED.name,
                contract.encode(as_decided(report, decision, decision.state, cause, logged_at)),
                key=key,
                partition=batch.partition,
            )
            _count(decision)
    except Unavailable as exc:
        return _wait(batch, record, exc)
    except ConfigurationError as exc:
        raise Refused(str(exc)) from exc
    except Exception as exc:
        if report is not None:
            exc.add_note(f"correlation id {report.correlation_id}")
        raise
    return True


def merge(batch: Batch, record: Message, aliases: Rows, contract: Contract) -> bool:
    """Keep one merge inside the batch's transaction. False and errors as those of ``process``."""
    try:
        with batch.guard(record):
            event = merged(record, contract)
            keep(aliases, event.media_id, event.survivor)
    except Unavailable as exc:
        return _wait(batch, record, exc)
    except ConfigurationError as exc:
        raise Refused(str(exc)) from exc
    return True


def _forget(
    batch: Batch, record: Message, asked: UserForgotten, progress: Scanned, forgotten: Rows, contract: Contract
) -> None:
    rows_deleted = forget(progress, forgotten, asked.user_ref, record.timestamp()[1])
    batch.send(
        PLAYBACK_DECIDED.name,
        contract.encode(replace(asked, cause=SourcePosition(batch.topic_id, batch.partition, _offset(record), 0))),
        key=asked.user_ref.encode(),
        partition=batch.partition,
    )
    _log.info("forgotten", correlation_id=asked.correlation_id, partition=batch.partition, rows_deleted=rows_deleted)


def _wait(batch: Batch, record: Message, exc: Unavailable) -> bool:
    _log.warning("waiting", reason=str(exc), partition=batch.partition, offset=record.offset())
    return False


def media_of(record: Message) -> bytes | None:
    """The alias a record will need: that of the media in its key, ``user_ref:media_id`` or ``media_id``."""
    key = record.key()
    if key is None or record.topic() == MEDIA_MERGED.name:
        return key
    return key.partition(b":")[2] or None


def user_of(record: Message) -> bytes | None:
    """The person a record is about, by its key."""
    key = record.key()
    return None if key is None or record.topic() == MEDIA_MERGED.name else key.partition(b":")[0] or None


def reported(record: Message, contract: Contract) -> PlaybackReported | UserForgotten:
    """The report in ``record``, or whom to forget. Raises Permanent when there is neither, or not where it belongs."""
    key, value = record.key(), record.value()
    if key is None:
        raise Permanent("a report needs a key", cause="null_key")
    if value is None:
        raise Permanent("a report needs a value: history has no tombstones", cause="null_value")
    event: Event = contract.decode(value)
    if isinstance(event, UserForgotten):
        hold_person_in_place(event, key, record.partition(), PLAYBACK_REPORTED)
        return event
    if not isinstance(event, PlaybackReported):
        raise Permanent(f"a {type(event).__name__} is no report", cause="wrong_event")
    hold_in_place(event, key, record.partition(), PLAYBACK_REPORTED)
    return event


def merged(record: Message, contract: Contract) -> MediaMerged:
    """The merge in ``record``. Raises Permanent when there is none. Its place says nothing: every partition has one."""
    key, value = record.key(), record.value()
    if key is None:
        raise Permanent("a merge needs a key", cause="null_key")
    if value is None:
        raise Permanent("a merge needs a value: what was merged stays so", cause="null_value")
    event: Event = contract.decode(value)
    if not isinstance(event, MediaMerged):
        raise Permanent(f"a {type(event).__name__} is no merge", cause="wrong_event")
    if key != event.media_id.encode():
        raise Permanent("the key is not the media that ends", cause="key_mismatch")
    if not event.media_id or not event.survivor:
        raise Permanent("a media has an id", cause="invalid_value")
    return event


def as_report(event: PlaybackReported, logged_at: int, media: str | None = None) -> Report:
    """The event as the rules take it, about ``media`` when that is what its media is now. Inside the log a person is
    a user_ref, and times are epoch ms."""
    return Report(
        kind=event.kind,
        user=event.user_ref,
        media=media or event.media_id,
        received_at=event.received_at,
        source=event.source_id,
        event_id=event.event_id,
        media_kind=event.media_kind,
        session_id=event.session_id,
        device_id=event.device_id,
        sequence=event.sequence,
        position_ms=event.position_ms,
        duration_ms=event.duration_ms,
        occurred_at=event.occurred_at,
        automated=event.automated,
        failed=event.failed,
        played=event.played,
        listened_ms=event.listened_ms,
        origin=event.origin,
        logged_at=logged_at,
    )


def as_decided(
    report: PlaybackReported, decision: Decision, after: State, cause: SourcePosition, logged_at: int
) -> PlaybackDecided:
    """The decision as an event: verdict, side facts, and the whole shown state after it, of the media that stays."""
    pending, conflict = after.pending, after.conflict
    return PlaybackDecided(
        event_id=report.event_id,
        correlation_id=report.correlation_id,
        source_id=report.source_id,
        occurred_at=report.occurred_at,
        received_at=report.received_at,
        user_ref=report.user_ref,
        media_id=after.media,
        cause=cause,
        verdict=decision.verdict.value,
        reason=None if decision.reason is None else decision.reason.value,
        notes=tuple(note.value for note in decision.notes),
        kind=report.kind,
        origin=report.origin,
        report_session_id=report.session_id,
        report_device_id=report.device_id,
        report_position_ms=report.position_ms,
        report_event_time=decision.event_time,
        logged_at=logged_at,
        position_moved=decision.position_moved,
        play_counted=decision.play_counted,
        play_epoch=decision.play_epoch,
        listened_added_ms=decision.listened_added_ms,
        media_kind=after.effective_kind.value,
        epoch=after.epoch,
        epoch_started_at=after.epoch_started_at,
        phase=after.phase,
        position_ms=after.position_ms,
        resume_position_ms=after.resume_position_ms,
        duration_ms=after.duration_ms,
        played=after.played,
        play_count=after.play_count,
        last_played_at=after.last_played_at,
        listened_ms=after.listened_ms,
        event_time=after.event_time,
        session_id=after.session_id,
        device_id=after.device_id,
        pending=None
        if pending is None
        else Pending(
            session_id=pending.session_id,
            device_id=pending.device_id,
            from_position_ms=pending.from_position_ms,
            position_ms=pending.position_ms,
            event_time=pending.event_time,
        ),
        conflict=None
        if conflict is None
        else Conflict(
            device_id=conflict.device_id,
            session_id=conflict.session_id,
            position_ms=conflict.position_ms,
            event_time=conflict.event_time,
        ),
        joined=tuple(taken.media for taken in after.merged_from),
    )


def _count(decision: Decision) -> None:
    _counter(decision.verdict, decision.reason).inc()
    if decision.verdict is Verdict.DUPLICATE:
        metrics.DUPLICATES_SUPPRESSED.inc()


@cache  # as many as there are verdicts with their reasons
def _counter(verdict: Verdict, reason: Reason | None) -> Counter:
    return metrics.DECISIONS.labels(verdict.value, "" if reason is None else reason.value)


def _offset(record: Message) -> int:
    offset = record.offset()
    assert offset is not None
    return offset


AGENT = Agent(
    name="playback",
    tables=(
        AgentTable(
            name=TABLE,
            holds="the state of one person and one media",
            key_form="user_ref:media_id",
            readable=rows.readable,
            home=playback_partition,
        ),
        AgentTable(
            name=ALIASES,
            holds="what became of a media: which one stays, or which ended in it",
            key_form="media_id",
            readable=alias_rows.readable,
            home=partition_of,  # all partitions have all of it: any would do
        ),
        AgentTable(
            name=FORGOTTEN,
            holds="that there was such a person",
            key_form="user_ref",
            readable=forgotten_rows.readable,
            home=partition_of,
        ),
    ),
    outputs=OUTPUTS,
    declare=declare,
    batch_records_max=lambda settings: settings.playback.batch_records_max,
)
