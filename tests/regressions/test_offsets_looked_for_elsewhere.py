"""The guard looked for a group's undecided offsets in the wrong partition of __consumer_offsets whenever the hash of
the group's name was negative, for every other group: instead of telling the operator of a hanging transaction it asked
for offsets that no broker tells, until it ended with a time-out that explained nothing."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streams.engine.hanging import OFFSETS_TOPIC, offsets_partition
from tests.kafka import read_all
from tests.stack import unique


@pytest.mark.services
def test_given_groups_that_committed_then_brokers_keep_them_where_the_guard_looks(kafka_bootstrap: str) -> None:
    groups = [unique(f"elsewhere-{number}") for number in range(12)]
    topic = unique("elsewhere")
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    for group in groups:
        consumer = Consumer({"bootstrap.servers": kafka_bootstrap, "group.id": group})
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        finally:
            consumer.close()
    asker = Consumer({"bootstrap.servers": kafka_bootstrap, "group.id": groups[0]})
    try:
        partitions = len(asker.list_topics(OFFSETS_TOPIC, 10).topics[OFFSETS_TOPIC].partitions)
    finally:
        asker.close()
    kept = {
        group: message.partition()
        for message in read_all(kafka_bootstrap, OFFSETS_TOPIC, partitions, isolation="read_uncommitted")
        for group in groups
        if group.encode() in bytes(message.key() or b"")
    }
    assert kept == {group: offsets_partition(group, partitions) for group in groups}
