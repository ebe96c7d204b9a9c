"""Topics on a real broker: made once, altered when they differ, refused when the partition count does."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from schemas.topics import DEAD_LETTERS, PLAYBACK_REPORTED, TOPICS, Topic
from streams.cli.app import main
from streams.local.ports import choose
from streams.local.processes import wait_until
from streams.runtime.errors import ConfigurationError, Unavailable
from streams.runtime.kafka import (
    Altered,
    Created,
    apply_topics,
    check_topics,
    ensure_topic,
    topic_id,
    wait_for_broker,
)
from streams.runtime.settings import KafkaSettings

pytestmark = pytest.mark.services


@pytest.fixture
def kafka(kafka_bootstrap: str) -> KafkaSettings:
    return KafkaSettings(bootstrap=kafka_bootstrap)


@pytest.fixture
def topics(unique_name: Callable[[str], str]) -> tuple[Topic, Topic]:
    """Two of the catalogue under names of this test's own."""
    return (
        dataclasses.replace(PLAYBACK_REPORTED, name=unique_name("reported")),
        dataclasses.replace(DEAD_LETTERS, name=unique_name("dead")),
    )


def test_missing_topics_are_made_as_the_catalogue_says_and_only_once(
    kafka: KafkaSettings, topics: tuple[Topic, Topic]
) -> None:
    assert check_topics(kafka, topics) == [
        f"{topic.name} does not exist: run 'playhead topics apply'" for topic in topics
    ]
    assert apply_topics(kafka, topics) == [Created(topic.name) for topic in topics]
    assert check_topics(kafka, topics) == []
    assert apply_topics(kafka, topics) == []


def test_a_setting_that_differs_is_named_and_altered_and_others_are_left(
    kafka: KafkaSettings, topics: tuple[Topic, Topic]
) -> None:
    reported = topics[0]
    config = reported.config(single_broker=True) | {"retention.ms": "1000", "segment.bytes": "2097152"}
    ensure_topic(kafka, reported.name, reported.partitions, config)
    assert check_topics(kafka, [reported]) == [
        f"{reported.name} has retention.ms=1000, not -1: run 'playhead topics apply'"
    ]
    assert apply_topics(kafka, [reported]) == [Altered(reported.name, "retention.ms", "1000", "-1")]
    assert check_topics(kafka, [reported]) == []
    # The operator's own setting is still there.
    assert ensure_topic(kafka, reported.name, reported.partitions, {"segment.bytes": "2097152"}) == []


def test_another_number_of_partitions_is_refused_and_nothing_is_changed(
    kafka: KafkaSettings, topics: tuple[Topic, Topic]
) -> None:
    reported, dead = topics
    ensure_topic(kafka, dead.name, 3, {})
    with pytest.raises(ConfigurationError, match=r"has 3 partitions, 12 are wanted.*replay it into new topics"):
        apply_topics(kafka, topics)
    problems = check_topics(kafka, topics)
    assert f"{reported.name} does not exist: run 'playhead topics apply'" in problems
    assert any("fixed for life" in problem for problem in problems)


def test_other_replicas_than_the_setting_says_are_named(kafka: KafkaSettings, topics: tuple[Topic, Topic]) -> None:
    apply_topics(kafka, topics)
    three = kafka.model_copy(update={"replication": 3})
    assert any("has 1 replicas and kafka.replication says 3" in line for line in check_topics(three, topics))


def test_more_replicas_than_brokers_is_a_configuration_error(kafka: KafkaSettings, topics: tuple[Topic, Topic]) -> None:
    with pytest.raises(ConfigurationError, match="refused"):
        apply_topics(kafka.model_copy(update={"replication": 3}), topics)


def test_a_setting_kafka_does_not_know_is_a_configuration_error(
    kafka: KafkaSettings, unique_name: Callable[[str], str]
) -> None:
    with pytest.raises(ConfigurationError, match="refused"):
        ensure_topic(kafka, unique_name("wrong"), 1, {"no.such.setting": "1"})


def test_a_changelog_topic_is_made_with_its_own_partitions_and_settings(
    kafka: KafkaSettings, unique_name: Callable[[str], str]
) -> None:
    name = unique_name("changelog")
    assert ensure_topic(kafka, name, 5, {"cleanup.policy": "compact"}) == [Created(name)]
    assert ensure_topic(kafka, name, 5, {"cleanup.policy": "compact"}) == []
    with pytest.raises(ConfigurationError, match="5 partitions, 6 are wanted"):
        ensure_topic(kafka, name, 6, {})


def test_a_topic_made_again_has_another_id(kafka: KafkaSettings, unique_name: Callable[[str], str]) -> None:
    name = unique_name("again")
    with pytest.raises(ConfigurationError, match="does not exist"):
        topic_id(kafka, name)
    ensure_topic(kafka, name, 1, {})
    first = topic_id(kafka, name)
    assert first == topic_id(kafka, name)
    admin = AdminClient(kafka.client())
    admin.delete_topics([name], operation_timeout=10)[name].result(30)
    assert wait_until(lambda: name not in admin.list_topics(timeout=10).topics, timeout_s=30)
    ensure_topic(kafka, name, 1, {})
    assert topic_id(kafka, name) != first


def test_a_broker_that_answers_has_a_cluster_id(kafka: KafkaSettings) -> None:
    assert wait_for_broker(kafka) == wait_for_broker(kafka, timeout_s=5)


def test_a_broker_that_is_not_there_is_unavailable() -> None:
    nowhere = KafkaSettings(bootstrap=f"127.0.0.1:{choose()}")
    with pytest.raises(Unavailable, match="does not answer"):
        wait_for_broker(nowhere, timeout_s=0.5)


def test_the_commands_make_the_catalogue_and_find_it_right(
    kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLAYHEAD_KAFKA__BOOTSTRAP", kafka.bootstrap)
    assert main(["topics", "apply", "--json"]) == 0
    capsys.readouterr()
    assert main(["topics", "apply", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"changes": []}
    assert main(["topics", "check"]) == 0
    assert capsys.readouterr().out == "all topics are as they should be\n"
    monkeypatch.setenv("PLAYHEAD_KAFKA__REPLICATION", "3")
    assert main(["topics", "check", "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["differences"]) >= len(TOPICS)
