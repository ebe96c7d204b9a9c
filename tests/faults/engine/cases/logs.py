"""Topics that are not what they were: recreated, grown. Only an operator can mend that, so workers refuse."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions, NewTopic

from ..case import Case, add
from ..field import Field
from ..refusals import assert_refused, assert_running_refuse


def recreate_source(field: Field) -> None:
    """Under running workers; then they start on it, with local state and without."""
    topic = field.cluster.a
    assert_running_refuse(field, lambda: _delete(field, topic), "deleted", "changed while running")
    _create(field, topic, {})
    field.faults["source recreated"] += 1
    _assert_refused_with_state_and_without(field, "was recreated", "Start under a new group")


def recreate_changelogs(field: Field) -> None:
    """That of a table whose changelog has no source offsets, then that of the one that has them."""
    first, *others = sorted(field.cluster.changelogs)
    for table in (*others, first):
        topic = field.cluster.changelogs[table]
        _delete(field, topic)
        _create(field, topic, {"cleanup.policy": "compact"})
        field.faults["changelog recreated"] += 1
        says = "the changelog says nothing" if table == first else f"table {table!r}"
        _assert_refused_with_state_and_without(field, says)


def _assert_refused_with_state_and_without(field: Field, *says: str) -> None:
    assert_refused(field, *says)
    for number in field.workers:
        field.cluster.wipe(number)
    assert_refused(field, *says)


def grow(field: Field) -> None:
    """More partitions for one source, under running workers; then they start on it; then all topics are grown."""
    topics = field.cluster.topics
    assert_running_refuse(field, lambda: _grow(field, [topics.a]), "was grown", "changed while running")
    field.faults["source grown"] += 1
    assert_refused(field, "Sources, changelogs and declared outputs need the same count", "replay into new topics")
    _grow(field, [topics.b, topics.out, topics.dead, *topics.changelogs.values()])
    field.faults["all topics grown"] += 1
    assert_refused(field, "partitions and has", "Replay into new topics under a new group")


def _grow(field: Field, topics: list[str]) -> None:
    count = field.cluster.partitions + 2
    for future in field.cluster.admin.create_partitions([NewPartitions(name, count) for name in topics]).values():
        future.result(30)

    def seen() -> bool:
        known = field.cluster.admin.list_topics(timeout=30).topics
        return all(len(known[name].partitions) == count for name in topics)

    field.wait("the topics have grown", seen, 30)


def _delete(field: Field, topic: str) -> None:
    field.cluster.admin.delete_topics([topic])[topic].result(30)


def _create(field: Field, topic: str, settings: dict[str, str]) -> None:
    """A name is free a moment after its topic was deleted."""
    new = NewTopic(topic, field.cluster.partitions, field.cluster.replication, config=settings)

    def created() -> bool:
        try:
            field.cluster.admin.create_topics([new])[topic].result(30)
        except KafkaException:
            return False
        return True

    def answered() -> bool:
        try:
            field.cluster.ends_of([topic])
        except KafkaException:
            field.cluster.ask_anew()
            return False
        return True

    field.wait(f"{topic} is created again", created, 60)
    field.cluster.ask_anew()
    field.wait(f"{topic} has ends", answered, 60)


_RUN: dict[str, Any] = {"act": lambda field: field.wait_progress(1000)}
add(
    Case(
        name="source-recreated",
        does="a source topic deleted under running workers and created again",
        refusal=recreate_source,
        **_RUN,
    )
)
add(
    Case(
        name="changelog-recreated",
        does="changelogs deleted and created again, empty, one after the other",
        refusal=recreate_changelogs,
        **_RUN,
    )
)
add(
    Case(
        name="partitions-changed",
        does="a source grown under running workers, then all topics grown",
        refusal=grow,
        **_RUN,
    )
)
