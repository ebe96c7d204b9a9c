"""A group's offsets as they lie in the brokers' own log: which records are read, and what is waited for."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.engine.evidence import Committed, Reader, Topics
from tests.kafka import answered
from tests.stack import unique

pytestmark = pytest.mark.services

#: Of no concern here.
NOWHERE = Topics("a", "b", "out", "dead", {})
OPEN_S = 1.0


def offsets(bootstrap: str, group: str) -> list[Committed]:
    with Reader(bootstrap, NOWHERE) as reader:
        return reader.offsets(group)


def test_given_commits_an_abort_and_a_deletion_then_what_is_committed_is_read_in_order_and_what_is_open_waited_for(
    kafka_bootstrap: str,
) -> None:
    group, topic = unique("written"), unique("source")
    common: dict[str, Any] = {"bootstrap.servers": kafka_bootstrap, "log_level": 0}
    admin = AdminClient(common)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    consumer = Consumer({**common, "group.id": group})
    producer = Producer({**common, "transactional.id": group})
    began = time.time_ns() // 1_000_000

    def send(offset: int) -> None:
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 30)

    try:
        answered(lambda: consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False))
        producer.init_transactions(60)
        send(8)
        producer.commit_transaction(30)
        send(9)
        producer.abort_transaction(30)
        answered(lambda: admin.delete_consumer_groups([group])[group].result(30))
        send(7)
        deciding = threading.Timer(OPEN_S, producer.commit_transaction, [30])
        deciding.start()
        found = offsets(kafka_bootstrap, group)
        deciding.join()
    finally:
        consumer.close()
    assert [(each.source, each.offset) for each in found] == [((topic, 0), at) for at in (5, 8, None, 7)]
    assert began <= found[0].at_ms <= found[-1].at_ms <= time.time_ns() // 1_000_000
    assert offsets(kafka_bootstrap, unique("nobody")) == []
