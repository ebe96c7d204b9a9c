"""The library's read models: items, where they lie, their collections, scans and sources."""

from __future__ import annotations

from projections.migrations.script import run_sql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(__file__)


def downgrade() -> None:
    raise NotImplementedError("read models are rebuilt from the log")
