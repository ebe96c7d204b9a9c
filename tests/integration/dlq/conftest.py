"""An office on the shared services."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from schemas.topics import LIBRARY_COMMANDS, PLAYBACK_REPORTED
from streams.runtime.kafka import apply_topics
from streams.runtime.settings import KafkaSettings, Settings
from tests.integration.caches.conftest import valkey
from tests.integration.dlq.office import Office, letters_topic
from tests.integration.projections.conftest import model_settings, shared_topics
from tests.integration.projections.world import World
from tests.stack import Database

__all__ = ["model_settings", "shared_topics", "valkey"]


@pytest.fixture(scope="session")
def input_topics(kafka_bootstrap: str) -> None:
    apply_topics(KafkaSettings(bootstrap=kafka_bootstrap), [PLAYBACK_REPORTED, LIBRARY_COMMANDS])


@pytest.fixture
def office(
    kafka_bootstrap: str,
    shared_topics: None,
    input_topics: None,
    model_settings: Settings,
    database: Database,
    unique_name: Callable[[str], str],
) -> Office:
    """A database, and a topic of letters, of its own."""
    settings = model_settings.model_copy(
        update={"kafka": model_settings.kafka.model_copy(update={"bootstrap": kafka_bootstrap})}
    )
    world = World(settings, letters_topic(unique_name("letters")), database.url)
    world.create_topic()
    return Office(world)
