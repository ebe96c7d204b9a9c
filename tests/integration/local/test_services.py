"""The real services on their own: data over any kind of end, secrets, listening addresses."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from streams.local import KafkaBroker, PostgresServer, Stack, ports

pytestmark = pytest.mark.services

Make = Callable[..., Stack]


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    """Create the topic as the catalogue does on a single broker, and write one acknowledged record."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, 1, 1, config=dict(KafkaBroker.topic_defaults))
    admin.create_topics([new])[topic].result(20)
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    assert errors == [None]


def consume(bootstrap: str, topic: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(30)
    consumer.close()
    return message.value() if message else None


@pytest.mark.faults
def test_given_a_broker_killed_and_started_again_then_its_records_are_there(private_stack: Make) -> None:
    stack = private_stack(postgres=False)
    bootstrap = stack.addresses.bootstrap
    assert bootstrap is not None
    produce(bootstrap, "kept", b"record")
    stack.kafka.kill()
    assert not ports.is_listening(stack.kafka.port)
    stack.kafka.start()
    assert stack.addresses.bootstrap == bootstrap
    assert consume(bootstrap, "kept") == b"record"


@pytest.mark.faults
def test_given_a_frozen_broker_then_it_answers_only_after_resume(private_stack: Make) -> None:
    stack = private_stack(postgres=False)
    admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap, "log_level": 0})
    stack.kafka.pause()
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    stack.kafka.resume()
    assert admin.list_topics(timeout=30).brokers


def test_given_the_broker_then_unknown_topics_are_not_created_and_history_is_kept(kafka_bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    [broker] = admin.list_topics(timeout=20).brokers
    resource = ConfigResource(ResourceType.BROKER, str(broker))
    settings = {name: entry.value for name, entry in admin.describe_configs([resource])[resource].result(20).items()}
    assert settings["auto.create.topics.enable"] == "false"
    assert settings["log.retention.ms"] == "-1"
    assert int(settings["message.max.bytes"] or 0) > 1 << 20


@pytest.mark.faults
def test_given_postgres_killed_and_started_again_then_its_rows_are_there(private_stack: Make) -> None:
    stack = private_stack(kafka=False)
    url = stack.postgres.address.url()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept (x int)")
        connection.execute("INSERT INTO kept VALUES (42)")
    stack.postgres.kill()
    stack.postgres.start()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT x FROM kept").fetchone() == (42,)


def test_given_postgres_then_it_is_durable_private_and_wants_a_password(private_stack: Make) -> None:
    stack = private_stack(kafka=False)
    address = stack.postgres.address
    with psycopg.connect(address.url()) as connection:
        shown = [
            (connection.execute(f"SHOW {name}").fetchone() or ("",))[0]
            for name in ("fsync", "synchronous_commit", "listen_addresses", "unix_socket_directories")
        ]
    assert shown == ["on", "on", "127.0.0.1", ""]
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(address.url().replace(address.password, "wrong"))
    assert address.password not in repr(stack.addresses)
    assert stat.S_IMODE((stack.folder / "postgres" / "password").stat().st_mode) == 0o600


@pytest.mark.faults
def test_given_valkey_killed_and_started_again_then_it_wants_the_same_password(private_stack: Make) -> None:
    stack = private_stack(kafka=False, postgres=False, valkey=True)
    url = stack.addresses.valkey_url
    stack.valkey.kill()
    stack.valkey.start()
    assert stack.addresses.valkey_url == url
    assert stack.valkey.answers()
    assert stat.S_IMODE((stack.folder / "valkey" / "valkey.conf").stat().st_mode) == 0o600


def test_given_a_running_stack_then_every_service_listens_on_loopback_only(private_stack: Make) -> None:
    stack = private_stack(registry=True, valkey=True)
    for name, service in stack.services.items():
        process = psutil.Process(service.pid)
        listening = {c.laddr.ip for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
        # Java writes IPv4 addresses as IPv6 ones.
        assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}, name


def test_given_a_folder_with_spaces_then_all_services_start_in_it(private_stack: Make, tmp_path: Path) -> None:
    folder = tmp_path / "my médiathèque: ドラマ 📺"
    stack = private_stack(folder, registry=True, valkey=True)
    assert all(service.running for service in stack.services.values())
    assert (folder / "logs" / "kafka.log").exists()


@pytest.mark.faults
def test_given_postgres_lost_its_children_s_parent_then_it_starts_again(private_stack: Make) -> None:
    # The out-of-memory killer takes the postmaster alone; its children end a moment later.
    stack = private_stack(kafka=False)
    server: PostgresServer = stack.postgres
    psutil.Process(server.pid).kill()
    server.stop()
    server.start()
    assert server.answers()
