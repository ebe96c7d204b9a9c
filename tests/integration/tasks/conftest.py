"""A fresh database, and what the tests of tasks ask of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from projections.migrate import migrate
from projections.roles import create_roles
from streams.local import PostgresAddress
from streams.runtime.blocking import BlockingDatabase
from streams.runtime.settings import Settings
from tests.integration.projections.world import PASSWORDS, settings_for
from tests.integration.tasks.bench import Bench
from tests.stack import Database


@pytest.fixture
def bench(postgres_admin: PostgresAddress, database: Database) -> Iterator[Bench]:
    """Settings of a fresh, migrated database (Kafka's address is none), and connections of a worker."""
    create_roles(postgres_admin.url(), PASSWORDS, database.name)
    settings: Settings = settings_for("127.0.0.1:1", postgres_admin, database.name)
    migrate(settings.postgres.conninfo("owner"))
    with BlockingDatabase(settings.postgres.conninfo("worker"), connections_max=16) as worker:
        yield Bench(settings, database.url, worker)
