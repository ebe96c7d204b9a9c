"""First tables: the door's, offsets, outbox, and the playback read models."""

from __future__ import annotations

from projections.migrations.script import run_sql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(__file__)


def downgrade() -> None:
    raise NotImplementedError("read models are rebuilt from the log, and core tables are never dropped")
