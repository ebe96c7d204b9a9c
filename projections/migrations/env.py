"""Alembic's entry: runs on the connection ``projections.migrate`` hands over, inside its transaction."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from streams.runtime.tables import CORE, metadata


def run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata, version_table_schema=CORE)
    with context.begin_transaction():
        context.run_migrations()


run(context.config.attributes["connection"])
