"""The services of a test run from images, for machines with a container engine."""

from __future__ import annotations

import importlib
import secrets
from collections.abc import Callable
from pathlib import Path

import httpx
import psycopg
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from testcontainers.core.container import DockerContainer

from streams.local import PostgresAddress, ports
from streams.local.kafka import MESSAGE_MAX_BYTES
from streams.local.processes import wait_until

KAFKA_IMAGE = "apache/kafka:4.3.1"
POSTGRES_IMAGE = "postgres:18"
REGISTRY_IMAGE = "apicurio/apicurio-registry:3.3.3"
VALKEY_IMAGE = "valkey/valkey:9"
READY_TIMEOUT_S = 300.0


def engine_answers() -> bool:
    """Whether a container engine is there and reachable."""
    # A dependency of testcontainers, without type information.
    docker = importlib.import_module("docker")
    try:
        client = docker.from_env()
    except docker.errors.DockerException:
        return False
    try:
        return bool(client.ping())
    except docker.errors.DockerException:
        return False
    finally:
        client.close()


def containers(run: Path) -> tuple[Callable[[str], str], Callable[[], None]]:
    """How to provide services from images, and how to end them. See tests/stack.py."""
    running: list[DockerContainer] = []
    password = secrets.token_urlsafe(24)

    def start(image: str, inner_port: int, port: int, **environment: str) -> None:
        container = DockerContainer(image)
        # with_bind_ports would publish on every interface.
        container.ports[f"{inner_port}/tcp"] = (ports.LOOPBACK, port)
        for name, value in environment.items():
            container = container.with_env(name, value)
        running.append(container)
        container.start()

    def provide(name: str) -> str:
        port = ports.choose()
        ready: Callable[[str], bool]
        match name:
            case "kafka":
                start(KAFKA_IMAGE, 9092, port, **_kafka_environment(port))
                address, ready = f"{ports.LOOPBACK}:{port}", _kafka_answers
            case "postgres":
                start(POSTGRES_IMAGE, 5432, port, POSTGRES_PASSWORD=password)
                address = PostgresAddress(ports.LOOPBACK, port, "postgres", password).url()
                ready = _postgres_answers
            case "registry":
                # Its memory storage will do: nobody restarts the shared one.
                start(REGISTRY_IMAGE, 8080, port)
                address, ready = f"http://{ports.LOOPBACK}:{port}/apis/ccompat/v7", _registry_answers
            case _:
                start(VALKEY_IMAGE, 6379, port)
                address, ready = f"redis://{ports.LOOPBACK}:{port}/0", lambda _url: ports.is_listening(port)
        if not wait_until(lambda: ready(address), READY_TIMEOUT_S):
            raise TimeoutError(f"{name} from its image did not answer within {READY_TIMEOUT_S:.0f} s ({run})")
        return address

    def end() -> None:
        for container in running:
            container.stop()

    return provide, end


def _kafka_environment(port: int) -> dict[str, str]:
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "CLIENT://:9092,CONTROLLER://:9093",
        # Clients come from outside the container, by the port that is bound for them.
        "KAFKA_ADVERTISED_LISTENERS": f"CLIENT://{ports.LOOPBACK}:{port}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "CLIENT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_MESSAGE_MAX_BYTES": str(MESSAGE_MAX_BYTES),
    }


def _kafka_answers(bootstrap: str) -> bool:
    try:
        return bool(AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=2).brokers)
    except KafkaException:
        return False


def _postgres_answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _registry_answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/subjects", timeout=2, trust_env=False).is_success
    except httpx.HTTPError:
        return False
