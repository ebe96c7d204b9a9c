"""A household on a fresh database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from projections.migrate import migrate
from projections.roles import create_roles
from streams.local import PostgresAddress
from tests.integration.forwarding.household import Household
from tests.integration.projections.world import PASSWORDS, settings_for
from tests.stack import Database


@pytest.fixture
def household(postgres_admin: PostgresAddress, database: Database) -> Iterator[Household]:
    create_roles(postgres_admin.url(), PASSWORDS, database.name)
    settings = settings_for("127.0.0.1:1", postgres_admin, database.name)
    migrate(settings.postgres.conninfo("owner"))
    made = Household(settings, database.url)
    try:
        yield made
    finally:
        made.close()
