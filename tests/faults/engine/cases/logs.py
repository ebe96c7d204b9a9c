"""Topics that are not what they were: recreated, grown. Only an operator can mend that, so workers refuse."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions, NewTopic

from ..case import Act, Case, add
from ..field import Field
from ..refusals import assert_refused, assert_running_refuse


def recreate(role: str, *says: str, settings: dict[str, str] | None = None) -> Act:
    def refusal(field: Field) -> None:
        topic = field.cluster.changelogs["progress"] if role == "changelog" else getattr(field.cluster, role)
        if role in ("a", "b"):
            assert_running_refuse(field, lambda: _delete(field, topic), "deleted", "changed while running")
        else:
            _delete(field, topic)
        _create(field, topic, settings or {})
        field.faults[f"{role} recreated"] += 1
        assert_refused(field, *says)
        for number in field.workers:
            field.cluster.wipe(number)
        assert_refused(field, *says)

    return refusal


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

    field.wait(f"{topic} is created again", created, 60)
    field.cluster.ask_anew()


_RUN: dict[str, Any] = {"act": lambda field: field.wait_progress(1000)}
add(
    Case(
        name="source-recreated",
        does="a source topic deleted under running workers and created again",
        refusal=recreate("a", "was recreated", "Start under a new group"),
        **_RUN,
    )
)
add(
    Case(
        name="changelog-recreated",
        does="a changelog deleted and created again, empty",
        refusal=recreate("changelog", "the changelog says nothing", settings={"cleanup.policy": "compact"}),
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
