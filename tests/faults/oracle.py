"""Judges a finished run from what is in the topics and tables, by folding the input again in plain Python."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg
from confluent_kafka import Message
from psycopg import sql
from psycopg.rows import dict_row

from schemas.events import CacheInvalidated, PlaybackDecided, PlaybackReported, SourcePosition
from schemas.topics import CACHE_INVALIDATED, DEAD_LETTERS, PLAYBACK_DECIDED, PLAYBACK_REPORTED
from streams.agents.playback import as_decided, as_report
from streams.domain.playback import decide
from streams.domain.policy import PLAYTHROUGH
from streams.domain.state import State
from streams.runtime.contract import Contract
from streams.runtime.kafka import topic_id
from streams.runtime.settings import Settings
from tests.integration.projections.world import read_all
from tests.projections.decisions import PRIMARY_KEYS, Placed, Rows, fold


@dataclass(frozen=True)
class Logs:
    """Everything that is in the topics, read committed, each partition in its order."""

    reported: list[tuple[Message, PlaybackReported]]
    decided: list[tuple[Message, PlaybackDecided]]
    invalidated: list[CacheInvalidated]
    dead: int


def read_logs(settings: Settings) -> Logs:
    with closing(Contract.of(settings)) as contract:

        def events(topic: str) -> list[tuple[Message, Any]]:
            return [(m, contract.decode(m.value() or b"")) for m in read_all(settings.kafka, topic)]

        return Logs(
            reported=events(PLAYBACK_REPORTED.name),
            decided=events(PLAYBACK_DECIDED.name),
            invalidated=[event for _, event in events(CACHE_INVALIDATED.name)],
            dead=len(read_all(settings.kafka, DEAD_LETTERS.name)),
        )


def every_report_has_one_decision(logs: Logs) -> None:
    """No report lost, none decided twice, no decision of nothing."""
    reports = Counter((m.partition() or 0, m.offset() or 0) for m, _ in logs.reported)
    decisions = Counter((e.cause.partition, e.cause.offset) for _, e in logs.decided)
    assert logs.dead == 0, f"{logs.dead} dead letters of valid reports"
    missing, twice = reports - decisions, decisions - reports
    assert not missing, f"{len(missing)} reports without a decision, e.g. {list(missing)[:3]}"
    assert not twice, f"{sum(twice.values())} decisions too many, e.g. {list(twice)[:3]}"


def decisions_are_the_pure_fold(settings: Settings, logs: Logs) -> None:
    """Each decision is what the rules make of the report and the reports before it, and they stand in order."""
    reported_id = topic_id(settings.kafka, PLAYBACK_REPORTED.name)
    expected: dict[int, list[PlaybackDecided]] = {}
    states: dict[tuple[str, str], State] = {}
    for message, report in logs.reported:
        key = (report.user_ref, report.media_id)
        logged_at = message.timestamp()[1]
        decision = decide(states.get(key), as_report(report, logged_at), PLAYTHROUGH)
        assert decision.state is not None, f"the door let {report} in, and the rules reject it"
        states[key] = decision.state
        partition, offset = message.partition() or 0, message.offset() or 0
        cause = SourcePosition(reported_id, partition, offset, 0)
        expected.setdefault(partition, []).append(as_decided(report, decision, decision.state, cause, logged_at))
    found: dict[int, list[PlaybackDecided]] = {}
    for message, event in logs.decided:
        found.setdefault(message.partition() or 0, []).append(event)
    assert found.keys() == expected.keys()
    for partition, events in expected.items():
        for wanted, got in zip(events, found[partition], strict=True):
            differing = {
                name: (getattr(got, name), getattr(wanted, name))
                for name in PlaybackDecided.__dataclass_fields__
                if getattr(got, name) != getattr(wanted, name)
            }
            assert not differing, f"partition {partition}, report at {wanted.cause.offset}: {differing} (log, rules)"


def rows_are_the_fold(settings: Settings, logs: Logs) -> None:
    """Every row of every read model follows from the decisions, and there are no others: each position once."""
    wanted = fold(Placed(event, m.partition() or 0, m.offset() or 0) for m, event in logs.decided)
    got = _rows(settings)
    for table, rows in wanted.items():
        assert got[table].keys() == rows.keys(), f"{table}: {len(got[table])} rows, the fold has {len(rows)}"
        for key, row in rows.items():
            found = got[table][key]
            differing = {name: (found[name], value) for name, value in row.items() if found[name] != value}
            assert not differing, f"{table} {key}: {differing} (row, fold)"


def changes_are_invalidated(settings: Settings, logs: Logs) -> int:
    """Every row's version was announced: an invalidation of its key with at least that version. Returns how many."""
    newest: dict[str, tuple[int, int]] = {}
    for event in logs.invalidated:
        version = (event.log_epoch, event.version)
        newest[event.cache_key] = max(newest.get(event.cache_key, version), version)
    checked = 0
    rows = _rows(settings)
    for (user, media), row in rows["playback_progress"].items():
        for key in (f"progress:{user}:{media}", f"continue:{user}"):
            version = (row["log_epoch"], row["version"])
            assert newest.get(key, (0, -1)) >= version, f"{key} changed to {version}, announced {newest.get(key)}"
            checked += 1
    return checked


def _rows(settings: Settings) -> Rows:
    found: Rows = {}
    with psycopg.connect(**settings.postgres.conninfo("projector")) as connection:
        for table, key in PRIMARY_KEYS.items():
            cursor = connection.cursor(row_factory=dict_row)
            cursor.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier("model", table)))
            found[table] = {tuple(row[name] for name in key): row for row in cursor.fetchall()}
    return found
