"""A Valkey that tests may kill and freeze, and kitchens around it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from projections.migrate import migrate
from projections.roles import create_roles
from schemas.topics import CACHE_INVALIDATED, DEAD_LETTERS
from streams.local import PostgresAddress, Stack
from streams.local.valkey import ValkeyServer
from streams.runtime.kafka import apply_topics
from streams.runtime.settings import KafkaSettings
from tests.integration.caches.kitchen import Kitchen
from tests.integration.projections.world import PASSWORDS, settings_for
from tests.stack import create_database, drop_database


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    with Stack(kafka=False, postgres=False, valkey=True) as stack:
        yield stack.valkey


@pytest.fixture(scope="session")
def cache_topics(kafka_bootstrap: str) -> None:
    apply_topics(KafkaSettings(bootstrap=kafka_bootstrap), [DEAD_LETTERS, CACHE_INVALIDATED])


@pytest.fixture(scope="module")
def whole_kitchen(
    kafka_bootstrap: str, cache_topics: None, postgres_admin: PostgresAddress, valkey: ValkeyServer
) -> Iterator[Kitchen]:
    database = create_database(postgres_admin)
    create_roles(postgres_admin.url(), PASSWORDS, database.name)
    settings = settings_for(kafka_bootstrap, postgres_admin, database.name)
    migrate(settings.postgres.conninfo("owner"))
    made = Kitchen(settings, valkey)
    yield made
    made.close()
    drop_database(postgres_admin, database.name)


@pytest.fixture
def kitchen(whole_kitchen: Kitchen) -> Kitchen:
    """A database with a relay, and an empty cache without a keeper; what other tests decided is there."""
    whole_kitchen.clear()
    whole_kitchen.relay_all()
    return whole_kitchen
