"""The door needs no more than the database role made for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from projections.migrate import migrate
from projections.roles import create_roles
from streams.runtime.tokens import create_source
from tests.ingest.fakes import progress
from tests.integration.ingest.house import House, conninfo_of
from tests.integration.ingest.test_door_end_to_end import client_of
from tests.integration.projections.world import PASSWORDS
from tests.stack import Database

pytestmark = pytest.mark.services


def test_the_door_works_with_the_grants_of_its_role(database: Database, topics: str, tmp_path: Path) -> None:
    create_roles(database.url, PASSWORDS, database.name)
    migrate(database.url)
    with psycopg.connect(database.url, autocommit=True) as connection:
        create_source(connection, "home", "native", "Home")
        create_source(connection, "jelly", "jellyfin", "Jelly")
        # Sessions of this database are the door's from here on, without its password.
        name = sql.Identifier(database.name)
        connection.execute(sql.SQL("ALTER DATABASE {} SET role = 'playhead_door'").format(name))
    house = House(topics, conninfo_of(database), tmp_path)

    async def scene() -> tuple[int, Any]:
        async with house.ingest, client_of(house) as client:
            answer = await client.post("/v1/playback", json=progress(), headers=house.bearer)

            async def role(connection: Any) -> Any:
                return await (await connection.execute("SELECT current_user")).fetchone()

            return answer.status_code, await house.ingest.database.run(role)

    assert asyncio.run(scene()) == (202, ("playhead_door",))
