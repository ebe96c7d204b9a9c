"""How far the work is: agents and projections against the log, invalidations, tasks, dead letters, backups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from projections.attention import backup_age_s
from projections.entry import PROJECTIONS
from projections.log_guard import LogGuard
from schemas.placement import PARTITIONS
from schemas.topics import PLAYBACK_REPORTED
from streams.agents.app import AGENTS
from streams.cli.checks.finding import Finding, fail, graded, ok, warn
from streams.cli.checks.postgres import connected
from streams.runtime.clock import SystemClock
from streams.runtime.kafka import admin_client
from streams.runtime.settings import Settings

WAIT_S = 5.0
LAG_WARN = 10_000
LAG_FAIL = 1_000_000
OUTBOX_WARN_S = 30.0
OUTBOX_FAIL_S = 600.0
WORKER_WARN_S = 600.0
BACKUP_WARN_S = 7 * 86_400.0
NO_BACKUP_S = 10 * 365 * 86_400.0


def agents(settings: Settings) -> Iterator[Finding]:
    admin = admin_client(settings.kafka)
    for name in AGENTS:
        yield _members(admin, "agents", name, f"agent {name}", "start 'playhead agents'")
    ends = LogGuard(settings.kafka, PLAYBACK_REPORTED, "doctor", SystemClock()).extents(range(PARTITIONS))
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("playback")], request_timeout=WAIT_S)
    try:
        places = asked["playback"].result().topic_partitions
    except KafkaException as exc:
        yield warn("agents", f"offsets of the playback agent can't be read: {exc.args[0].name()}", "look after Kafka")
        return
    done = {p.partition: p.offset for p in places if p.topic == PLAYBACK_REPORTED.name and p.offset >= 0}
    # Control records of transactions count, so a few are always left.
    behind = sum(max(0, extent.end - done.get(number, extent.first)) for number, extent in ends.items())
    yield graded(
        "lag",
        behind,
        f"the playback agent is {behind} records behind",
        "start more 'playhead agents', or look at their logs",
        warn_at=LAG_WARN,
        fail_at=LAG_FAIL,
    )


def projections(settings: Settings) -> Iterator[Finding]:
    admin = admin_client(settings.kafka)
    with connected(settings) as connection:
        standing = {name: _standing(connection, name) for name in PROJECTIONS}
        breakers = connection.execute(
            "SELECT consumer, reason FROM model.breakers WHERE resumed_at IS NULL ORDER BY 1"
        ).fetchall()
    for consumer, reason in breakers:
        yield fail("breaker", f"{consumer} has stopped: {reason}", f"mend that, then 'playhead dlq resume {consumer}'")
    for name, kind in PROJECTIONS.items():
        yield _members(
            admin, "projections", f"projection.{name}", f"projection {name}", f"start 'playhead project {name}'"
        )
        guard = LogGuard(settings.kafka, kind.topic, name, SystemClock())
        topic_id, extents = guard.topic_id(), guard.extents(range(kind.topic.partitions))
        places = standing[name]
        if any(place[0] not in (None, topic_id) for place in places.values()):
            yield fail(
                "log",
                f"{kind.topic.name} is another topic than projection {name} has read",
                f"restore it, or {_adopt(name)}",
            )
            continue
        if any(place[1] > extents[number].end for number, place in places.items()):
            yield fail(
                "log", f"{kind.topic.name} ends before where projection {name} stands", f"restore it, or {_adopt(name)}"
            )
            continue
        behind = sum(
            max(0, extent.end - places.get(number, (None, extent.first))[1]) for number, extent in extents.items()
        )
        yield graded(
            "lag",
            behind,
            f"projection {name} is {behind} records behind",
            f"look at the log of 'playhead project {name}'",
            warn_at=LAG_WARN,
            fail_at=LAG_FAIL,
        )


def invalidations(settings: Settings) -> Iterator[Finding]:
    with connected(settings) as connection:
        count, age = _one(
            connection,
            "SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(committed_at)), 0)::float8"
            " FROM model.outbox",
        )
    yield graded(
        "outbox",
        age,
        f"{count} invalidations wait, the oldest for {age:.0f} s",
        "start 'playhead relay', or look at its log: caches show what is old meanwhile",
        warn_at=OUTBOX_WARN_S,
        fail_at=OUTBOX_FAIL_S,
    )


def tasks(settings: Settings) -> Iterator[Finding]:
    with connected(settings) as connection:
        waiting, age, dead, expired = _one(
            connection,
            "SELECT count(*) FILTER (WHERE due), coalesce(extract(epoch FROM max(now() - next_attempt_at)"
            " FILTER (WHERE due)), 0)::float8, count(*) FILTER (WHERE dead_at IS NOT NULL),"
            " count(*) FILTER (WHERE lease_until < now() - interval '1 minute') FROM (SELECT *, dead_at IS NULL"
            " AND wanted_version > done_version AND next_attempt_at <= now()"
            " AND (lease_until IS NULL OR lease_until < now()) AS due FROM core.tasks) AS t",
        )
    yield graded(
        "tasks",
        age,
        f"{waiting} are due, the oldest for {age:.0f} s",
        "start 'playhead work', or look at its log",
        warn_at=WORKER_WARN_S,
        fail_at=WORKER_WARN_S * 100,
    )
    if expired:
        yield warn("leases", f"{expired} ran out and nobody took over", "start 'playhead work'")
    if dead:
        yield warn("tasks", f"{dead} were given up", "see 'playhead dlq list', mend the cause, 'playhead dlq redrive'")


def dead_letters(settings: Settings) -> Iterator[Finding]:
    with connected(settings) as connection:
        rows = connection.execute(
            "SELECT cause_class, count(*) FROM api.dead_letters WHERE status = 'open' GROUP BY 1 ORDER BY 2 DESC, 1"
        ).fetchall()
    if not rows:
        yield ok("dead letters", "none is open")
        return
    causes = ", ".join(f"{count} {cause}" for cause, count in rows)
    yield warn("dead letters", f"open: {causes}", "see 'playhead dlq list'; redrive them or discard them")


def forgotten(settings: Settings) -> Iterator[Finding]:
    with connected(settings) as connection:
        kept, left, names = _one(
            connection,
            "SELECT count(*), count(*) FILTER (WHERE m.user_ref IS NULL), count(*) FILTER (WHERE EXISTS ("
            " SELECT FROM core.users u WHERE u.user_ref = p.user_ref))"
            " FROM core.forgotten_people p LEFT JOIN model.forgotten_users m USING (user_ref)",
        )
    if left or names:
        yield fail(
            "forgotten",
            f"of {kept} people who were forgotten {left} are not gone from the read models, {names} have names",
            "run 'playhead forget --again', with agents and projections running",
        )
    else:
        yield ok("forgotten", f"{kept} people were forgotten, nothing of them is left")


def backups(settings: Settings) -> Iterator[Finding]:
    with connected(settings) as connection:
        age = backup_age_s(connection)
    if age is None:
        yield warn(
            "backup", "none was ever made: names, tokens and sources are nowhere else", "run 'playhead backup FILE'"
        )
        return
    yield graded(
        "backup",
        age,
        f"the newest is {age / 86_400:.1f} days old",
        "run 'playhead backup FILE', daily",
        warn_at=BACKUP_WARN_S,
        fail_at=NO_BACKUP_S,
    )


def _members(admin: AdminClient, check: str, group: str, name: str, do: str) -> Finding:
    try:
        found = admin.describe_consumer_groups([group], request_timeout=WAIT_S)[group].result()
    except KafkaException as exc:
        return warn(check, f"{name}: its group can't be looked at: {exc.args[0].name()}", "look after Kafka")
    owned = {place.partition for member in found.members for place in member.assignment.topic_partitions}
    if found.state is ConsumerGroupState.STABLE and len(owned) == PARTITIONS:
        return ok(check, f"{name}: {len(found.members)} at work on all partitions")
    if not found.members:
        return fail(check, f"{name}: nobody is at work", do)
    return warn(check, f"{name}: {PARTITIONS - len(owned)} partitions have no owner now", "look again in a moment")


def _standing(connection: psycopg.Connection[Any], projection: str) -> dict[int, tuple[str | None, int]]:
    rows = connection.execute(
        "SELECT partition, topic_id, next_offset FROM model.offsets WHERE projection = %s AND NOT adopting",
        (projection,),
    ).fetchall()
    return {row[0]: (row[1], row[2]) for row in rows}


def _one(connection: psycopg.Connection[Any], query: str) -> tuple[Any, ...]:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return tuple(row)


def _adopt(name: str) -> str:
    return f"accept what is lost with 'playhead adopt-log {name}'"
