"""Kafka as Playhead needs it: brokers, topics, copies in step, schemas, its clock, transactions left open, lag."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

from confluent_kafka import KafkaError, Message, Producer, TopicCollection
from confluent_kafka.admin import TopicDescription

from schemas.placement import partition_of
from schemas.topics import IDENTITY_USERS, TOPICS
from streams.agents.app import AGENTS, config
from streams.cli.checks.finding import Finding, fail, graded, ok, warn
from streams.engine import App, changelog_topics
from streams.runtime.errors import Unavailable
from streams.runtime.kafka import admin_client, check_topics, wait_for_broker
from streams.runtime.settings import Settings

WAIT_S = 5.0
SKEW_WARN_S = 1.0
SKEW_FAIL_S = 30.0
PROBE_KEY = b"doctor"
"""Of a tombstone in identity.users, under a key that is nobody's: readers pass over it, compaction removes it."""


def broker(settings: Settings) -> Iterator[Finding]:
    cluster = wait_for_broker(settings.kafka, timeout_s=WAIT_S)
    client = admin_client(settings.kafka)  # what it is asked ends with it
    nodes = list(client.describe_cluster(request_timeout=WAIT_S).result().nodes)
    yield ok("kafka", f"cluster {cluster}, {len(nodes)} broker{'s' * (len(nodes) != 1)}")
    if settings.kafka.replication == 1 and len(nodes) > 1:
        yield warn("kafka", "there are several brokers and topics have one copy", "set kafka.replication to 3")
    if settings.kafka.replication > len(nodes):
        yield fail(
            "kafka",
            f"kafka.replication is {settings.kafka.replication}, there are {len(nodes)} brokers",
            "add brokers or correct the setting",
        )


def topics(settings: Settings) -> Iterator[Finding]:
    problems = check_topics(settings.kafka)
    if not problems:
        yield ok("topics", f"{len(TOPICS)} topics are as the catalogue says: partitions, copies, settings")
    for problem in problems:
        says, colon, do = problem.partition(": ")
        yield fail("topics", says, do if colon else "run 'playhead topics apply'")


def copies(settings: Settings) -> Iterator[Finding]:
    """Partitions without a leader, and copies that are behind; of changelogs too."""
    wanted = [topic.name for topic in TOPICS] + changelogs(settings)
    described = _described(settings, wanted)
    missing = sorted(set(wanted) - described.keys())
    if missing:
        yield fail("changelogs", f"missing: {', '.join(missing)}", "run 'playhead topics apply'")
    headless = behind = 0
    for found in described.values():
        for partition in found.partitions:
            headless += partition.leader is None or partition.leader.id < 0
            behind += len(partition.isr) < len(partition.replicas)
    if headless:
        yield fail("copies", f"{headless} partitions have no leader: nothing can be written there", "start the brokers")
    if behind:
        yield warn("copies", f"{behind} partitions have copies that are behind", "look after the brokers")
    if not headless and not behind:
        yield ok("copies", f"all partitions of {len(described)} topics have a leader and copies in step")


def changelogs(settings: Settings) -> list[str]:
    """The names of the agents' changelogs."""
    names: list[str] = []
    for agent in AGENTS.values():
        app = App(config(settings, agent))
        for table in agent.tables:
            app.Table(table.name)
        names += changelog_topics(app)
    return names


def clock(settings: Settings) -> Iterator[Finding]:
    """Write one record that nobody reads, and compare when Kafka says it was: log-append time decides what is late."""
    producer = Producer(
        {**settings.kafka.client(), "acks": "all", "message.timeout.ms": int(WAIT_S * 1000)},
        logger=logging.getLogger("librdkafka.doctor"),
    )
    answer: list[tuple[KafkaError | None, int]] = []
    acknowledged = threading.Event()

    def delivered(error: KafkaError | None, message: Message) -> None:
        answer.append((error, message.timestamp()[1]))
        acknowledged.set()

    before = time.time()
    producer.produce(
        IDENTITY_USERS.name, key=PROBE_KEY, value=None, partition=partition_of(PROBE_KEY), on_delivery=delivered
    )
    producer.flush(WAIT_S * 2)
    after = time.time()
    if not acknowledged.is_set() or answer[0][0] is not None:
        reason = answer[0][0].name() if answer and answer[0][0] else "no answer in time"
        yield fail("writing", f"a record was not acknowledged by all copies: {reason}", "look after the brokers")
        return
    yield ok("writing", f"a record was acknowledged by all copies in {(after - before) * 1000:.0f} ms")
    yield skew("clock of kafka", answer[0][1] / 1000, before, after)


def skew(check: str, theirs: float, before: float, after: float) -> Finding:
    """How far ``theirs`` lies outside of what this host's clock said around it, in seconds since 1970."""
    apart = max(0.0, before - theirs, theirs - after)
    return graded(
        check,
        apart,
        f"{apart:.1f} s apart from this host's" if apart else "agrees with this host's",
        "let all hosts follow one time server: beyond 60 s, times of reports are not believed",
        warn_at=SKEW_WARN_S,
        fail_at=SKEW_FAIL_S,
    )


def schemas(settings: Settings) -> Iterator[Finding]:
    from schemas.ids import RegistryMismatch, SchemaIds
    from schemas.registry import Registry, RegistryAway

    if settings.registry.url is None:
        yield ok("schemas", "no registry: pinned schemas under pinned ids")
        return
    try:
        with Registry(settings.registry.url, SchemaIds(settings.schema_ids_file), timeout_s=WAIT_S) as registry:
            problems = registry.check()
    except RegistryAway as exc:
        yield warn(
            "schemas", f"the registry does not answer: {exc}", "start it; known ids keep their meaning without it"
        )
        return
    except (RegistryMismatch, OSError) as exc:
        yield fail("schemas", str(exc), "see 'playhead schemas check'")
        return
    if not problems:
        yield ok("schemas", "the registry has every schema of this build")
    for problem in problems:
        yield fail("schemas", problem, "run 'playhead schemas register'")


def transactions(settings: Settings) -> Iterator[Finding]:
    """Transactions that a crashed broker left open hold everybody's reading back."""
    from streams.agents.mending import repair

    for name, findings in repair(settings).items():
        if findings.hanging:
            yield fail(
                "transactions",
                f"agent {name}: {len(findings.hanging)} left open, readers wait before them",
                "run 'playhead agents repair', which says how to settle them",
            )
        else:
            yield ok("transactions", f"agent {name}: none was left open")


def _described(settings: Settings, names: list[str]) -> dict[str, TopicDescription]:
    client = admin_client(settings.kafka)
    futures = client.describe_topics(TopicCollection(names), request_timeout=WAIT_S)
    found: dict[str, TopicDescription] = {}
    for name, future in futures.items():
        try:
            found[name] = future.result()
        except Exception as exc:
            error = exc.args[0] if exc.args else None
            if not isinstance(error, KafkaError):
                raise
            if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise Unavailable(f"Kafka does not describe {name}: {error.name()}") from exc
    return found
