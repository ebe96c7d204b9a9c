"""Servers that are polled: where they are, what was seen last, how they fare; and what was written to them."""

from __future__ import annotations

from projections.migrations.script import run_sql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(__file__)


def downgrade() -> None:
    raise NotImplementedError("core tables are never dropped")
