"""The playback agent: a report and what is known of its key become a decision and a new row.

Outputs, table and offset commit together (streams/engine), so every report has exactly one decision. What no
decision can be made of is a dead letter with its bytes: garbage, a report in another partition than its
person's, a key that contradicts its payload, and what the rules reject.
"""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

from confluent_kafka import Message
from prometheus_client import Counter

from schemas.events import Conflict, Event, Pending, PlaybackDecided, PlaybackReported, SourcePosition
from schemas.placement import playback_key, playback_partition
from schemas.topics import PLAYBACK_DECIDED, PLAYBACK_REPORTED
from streams.agents import state as rows
from streams.agents.agent import Agent, AgentTable
from streams.domain.playback import Decision, decide
from streams.domain.policy import POLICIES, Policy
from streams.domain.report import Report
from streams.domain.state import State
from streams.domain.words import Reason, Verdict
from streams.engine import App, Batch, Refused, Table
from streams.runtime import logs, metrics
from streams.runtime.contract import Contract
from streams.runtime.errors import ConfigurationError, Permanent, Unavailable
from streams.runtime.misplaced import hold_in_place
from streams.runtime.settings import Settings

TABLE = "progress"
OUTPUTS = (PLAYBACK_DECIDED.name,)
REGISTRY_WAIT_S = 2.0

_log = logs.get(__name__)


def declare(app: App, settings: Settings, contract: Contract) -> None:
    """Declare the table and the agent on ``app``. Nothing connects here."""
    policy = POLICIES[settings.playback.policy]
    progress = app.Table(TABLE, help="state of one person and one media, by user_ref:media_id")

    @app.agent(app.source(PLAYBACK_REPORTED.name), outputs=OUTPUTS)
    async def playback(stream: Any) -> None:
        async for batch in stream:
            for record in batch.records:
                while not process(batch, record, progress, contract, policy):
                    # Only an absent registry can tell what this record is. Waiting is no hang.
                    batch.keep_alive()
                    await asyncio.sleep(REGISTRY_WAIT_S)


def process(batch: Batch, record: Message, progress: Table, contract: Contract, policy: Policy) -> bool:
    """Decide one report inside the batch's transaction. False when it must be tried again later.

    Raises Refused when this build is too old for the record or the row; anything else unexpected passes
    through and ends the worker.
    """
    report: PlaybackReported | None = None
    try:
        with batch.guard(record):
            report = reported(record, contract)
            key = playback_key(report.user_ref, report.media_id)
            row = progress.get(key)
            before = None if row is None else rows.decode(row)
            logged_at = record.timestamp()[1]
            decision = decide(before, as_report(report, logged_at), policy)
            if decision.verdict is Verdict.REJECTED or decision.state is None:
                raise Permanent(
                    f"rejected: {decision.reason}",
                    cause="rejected",
                    correlation_id=report.correlation_id,
                    source_id=report.source_id,
                )
            if decision.state != before:
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
        _log.warning("waiting", reason=str(exc), partition=batch.partition, offset=record.offset())
        return False
    except ConfigurationError as exc:
        raise Refused(str(exc)) from exc
    except Exception as exc:
        if report is not None:
            exc.add_note(f"correlation id {report.correlation_id}")
        raise
    return True


def reported(record: Message, contract: Contract) -> PlaybackReported:
    """The report in ``record``. Raises Permanent when there is none, or it is not where it belongs."""
    key, value = record.key(), record.value()
    if key is None:
        raise Permanent("a report needs a key", cause="null_key")
    if value is None:
        raise Permanent("a report needs a value: history has no tombstones", cause="null_value")
    event: Event = contract.decode(value)
    if not isinstance(event, PlaybackReported):
        raise Permanent(f"a {type(event).__name__} is no report", cause="wrong_event")
    hold_in_place(event, key, record.partition(), PLAYBACK_REPORTED)
    return event


def as_report(event: PlaybackReported, logged_at: int) -> Report:
    """The event as the rules take it. Inside the log a person is a user_ref, and times are epoch ms."""
    return Report(
        kind=event.kind,
        user=event.user_ref,
        media=event.media_id,
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
    """The decision as an event: verdict, side facts, and the whole shown state after it."""
    pending, conflict = after.pending, after.conflict
    return PlaybackDecided(
        event_id=report.event_id,
        correlation_id=report.correlation_id,
        source_id=report.source_id,
        occurred_at=report.occurred_at,
        received_at=report.received_at,
        user_ref=report.user_ref,
        media_id=report.media_id,
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
    ),
    outputs=OUTPUTS,
    declare=declare,
    batch_records_max=lambda settings: settings.playback.batch_records_max,
)
