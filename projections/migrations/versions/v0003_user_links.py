"""Accounts that an operator linked to another person remember who they were."""

from __future__ import annotations

from projections.migrations.script import run_sql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(__file__)


def downgrade() -> None:
    raise NotImplementedError("core tables are never taken back")
