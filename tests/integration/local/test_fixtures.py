"""The fixtures of tests/conftest.py give working services."""

from __future__ import annotations

import httpx
import psycopg
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.stack import Database, Services

pytestmark = pytest.mark.services


def test_given_the_shared_broker_then_a_record_comes_back(kafka_bootstrap: str, topic_prefix: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.create_topics([NewTopic(topic_prefix, 1, 1)])[topic_prefix].result(20)
    producer = Producer({"bootstrap.servers": kafka_bootstrap, "acks": "all"})
    producer.produce(topic_prefix, b"value", b"key")
    assert producer.flush(20) == 0
    consumer = Consumer(
        {"bootstrap.servers": kafka_bootstrap, "group.id": topic_prefix, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic_prefix])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None
    assert (message.key(), message.value()) == (b"key", b"value")


def test_given_a_test_database_then_it_is_empty_and_its_own(database: Database) -> None:
    with psycopg.connect(database.url) as connection:
        name = connection.execute("SELECT current_database()").fetchone()
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert (name, tables) == ((database.name,), (0,))


def test_given_the_shared_registry_then_its_confluent_api_answers(registry_url: str) -> None:
    assert isinstance(httpx.get(f"{registry_url}/subjects").raise_for_status().json(), list)


def test_given_the_shared_stack_then_addresses_are_loopback(stack: Services, valkey_url: str) -> None:
    assert stack.bootstrap.startswith("127.0.0.1:")
    assert stack.postgres.host == "127.0.0.1"
    assert "@127.0.0.1:" in valkey_url
