"""One database for all tests of this folder, empty for each."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from projections.migrate import migrate
from projections.roles import create_roles
from streams.local import PostgresAddress
from streams.runtime.settings import Settings
from tests.integration.forwarding.household import Household
from tests.integration.projections.world import PASSWORDS, settings_for
from tests.stack import create_database, drop_database

_EMPTIED = "core.sources, core.users, core.tasks, model.media_items, model.media_merges"


@pytest.fixture(scope="session")
def homes_database(postgres_admin: PostgresAddress) -> Iterator[tuple[Settings, str]]:
    made = create_database(postgres_admin)
    create_roles(postgres_admin.url(), PASSWORDS, made.name)
    settings = settings_for("127.0.0.1:1", postgres_admin, made.name)
    migrate(settings.postgres.conninfo("owner"))
    yield settings, made.url
    drop_database(postgres_admin, made.name)


@pytest.fixture
def household(homes_database: tuple[Settings, str]) -> Iterator[Household]:
    settings, superuser = homes_database
    with psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute(f"TRUNCATE {_EMPTIED} CASCADE".encode())
        connection.execute("UPDATE model.epoch SET restored_at = NULL")
    made = Household(settings, superuser)
    try:
        yield made
    finally:
        made.close()
