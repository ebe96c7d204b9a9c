"""A fresh database, and what the tests of tasks ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from projections.migrate import migrate
from projections.roles import create_roles
from schemas.topics import DEAD_LETTERS, LIBRARY_COMMANDS, LIBRARY_OBSERVED
from streams.local import PostgresAddress
from streams.runtime.blocking import BlockingDatabase
from streams.runtime.kafka import apply_topics
from streams.runtime.settings import KafkaSettings, Settings
from tests.integration.projections.world import PASSWORDS, settings_for
from tests.integration.tasks.bench import Bench
from tests.integration.tasks.site import Site
from tests.stack import Database


@pytest.fixture
def bench(postgres_admin: PostgresAddress, database: Database) -> Iterator[Bench]:
    """Settings of a fresh, migrated database (Kafka's address is none), and connections of a worker."""
    create_roles(postgres_admin.url(), PASSWORDS, database.name)
    settings: Settings = settings_for("127.0.0.1:1", postgres_admin, database.name)
    migrate(settings.postgres.conninfo("owner"))
    with BlockingDatabase(settings.postgres.conninfo("worker"), connections_max=16) as worker:
        yield Bench(settings, database.url, worker)


@pytest.fixture(scope="session")
def library_topics(kafka_bootstrap: str) -> None:
    apply_topics(KafkaSettings(bootstrap=kafka_bootstrap), [LIBRARY_COMMANDS, LIBRARY_OBSERVED, DEAD_LETTERS])


@pytest.fixture
def site(
    bench: Bench, kafka_bootstrap: str, library_topics: None, unique_name: Callable[[str], str], tmp_path: Path
) -> Site:
    """A source of files that is known to the database, with an empty folder."""
    settings = bench.settings.model_copy(update={"kafka": KafkaSettings(bootstrap=kafka_bootstrap)})
    root = tmp_path / "media"
    root.mkdir()
    made = Site(settings, bench, unique_name("music"), root)
    made.add_source()
    return made
