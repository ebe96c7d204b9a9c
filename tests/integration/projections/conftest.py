"""Databases with the model in them, and worlds around them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from projections.migrate import migrate
from projections.roles import create_roles
from schemas.topics import CACHE_INVALIDATED, DEAD_LETTERS
from streams.local import PostgresAddress
from streams.runtime.kafka import apply_topics
from streams.runtime.settings import KafkaSettings, Settings
from tests.integration.projections.world import PASSWORDS, World, decided_topic, settings_for
from tests.stack import Database


@pytest.fixture(scope="session")
def shared_topics(kafka_bootstrap: str) -> None:
    apply_topics(KafkaSettings(bootstrap=kafka_bootstrap), [DEAD_LETTERS, CACHE_INVALIDATED])


@pytest.fixture
def model_settings(postgres_admin: PostgresAddress, database: Database) -> Settings:
    """Settings of a fresh, migrated database; Kafka's address is none."""
    create_roles(postgres_admin.url(), PASSWORDS, database.name)
    settings = settings_for("127.0.0.1:1", postgres_admin, database.name)
    migrate(settings.postgres.conninfo("owner"))
    return settings


@pytest.fixture
def world(
    kafka_bootstrap: str,
    shared_topics: None,
    model_settings: Settings,
    database: Database,
    unique_name: Callable[[str], str],
) -> World:
    """A projection of its own with an empty topic."""
    settings = model_settings.model_copy(
        update={"kafka": model_settings.kafka.model_copy(update={"bootstrap": kafka_bootstrap})}
    )
    made = World(settings, decided_topic(unique_name("decided")), database.url)
    made.create_topic()
    return made
