"""First tables: the door's, offsets, outbox, and the playback read models."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    # One simple-protocol message of many statements; the driver's connection, because ':' means nothing in it.
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    driver.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise NotImplementedError("read models are rebuilt from the log, and core tables are never dropped")
