"""Fixtures that every test may use. Services start when the first test needs them, once per run (stack.py)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from streams.local import PostgresAddress, PostgresServer, Stack
from streams.local.unprivileged import external_data
from tests.groups import pytest_runtest_logreport
from tests.stack import (
    RUN_VARIABLE,
    Database,
    Services,
    announce,
    create_database,
    drop_database,
    finish,
    unique,
)

__all__ = ["pytest_runtest_logreport"]

# How long an example takes is the machine's affair, never a failure.
hypothesis_settings.register_profile("playhead", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("playhead")

# This process's log is pytest's, never part of what a command prints.
structlog.configure(logger_factory=structlog.stdlib.LoggerFactory())

_OWNER = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """The process the user started owns the run; pytest-xdist's workers inherit its name."""
    config.stash[_OWNER] = not hasattr(config, "workerinput") and RUN_VARIABLE not in os.environ
    if config.stash[_OWNER]:
        announce(os.environ)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the run's services."""
    if config.stash.get(_OWNER, False):
        finish(os.environ)


@pytest.fixture(scope="session")
def services() -> Services:
    """Addresses of all services, each started when its property is read."""
    return Services(os.environ)


@pytest.fixture(scope="session")
def stack(services: Services) -> Services:
    """Kafka and PostgreSQL, up. Shared by the whole run: don't stop them, use names of your own."""
    services.start("kafka", "postgres")
    return services


@pytest.fixture(scope="session")
def kafka_bootstrap(services: Services) -> str:
    """host:port of the shared Kafka. Automatic topic creation is off."""
    return services.bootstrap


@pytest.fixture(scope="session")
def postgres_admin(services: Services) -> PostgresAddress:
    """Superuser access to the shared PostgreSQL; `.url("database")` gives a connection URL."""
    return services.postgres


@pytest.fixture(scope="session")
def registry_url(services: Services) -> str:
    """The shared schema registry, for confluent_kafka's SchemaRegistryClient."""
    return services.registry_url


@pytest.fixture(scope="session")
def valkey_url(services: Services) -> str:
    """The shared Valkey. Use keys of your own."""
    return services.valkey_url


@pytest.fixture
def database(postgres_admin: PostgresAddress) -> Iterator[Database]:
    """A fresh, empty database, dropped after the test."""
    made = create_database(postgres_admin)
    yield made
    drop_database(postgres_admin, made.name)


@pytest.fixture
def unique_name() -> Callable[[str], str]:
    """Makes names that no other test uses, for topics, groups, subjects and transactional ids."""
    return unique


@pytest.fixture
def topic_prefix() -> str:
    """A prefix for this test's topics and groups."""
    return unique("test")


@pytest.fixture
def private_stack() -> Iterator[Callable[..., Stack]]:
    """Starts stacks of the test's own, to be stopped, killed and frozen; takes Stack's arguments.

    They are stopped, and their temporary folders deleted, after the test.
    """
    stacks: list[Stack] = []
    folders: list[Path] = []

    def start(folder: Path | None = None, **options: Any) -> Stack:
        made = Stack(folder, **options)
        stacks.append(made)
        if folder is not None:
            folders.append(folder)
        made.start()
        return made

    yield start
    for made in stacks:
        made.stop()
    for folder in folders:
        # pytest deletes its own folders only; as root the data of PostgreSQL may lie elsewhere.
        if outside := external_data(folder / PostgresServer.name):
            shutil.rmtree(outside, ignore_errors=True)
