"""Whose playback a merge of two media touches."""

from __future__ import annotations

from projections.migrations.script import run_sql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(__file__)


def downgrade() -> None:
    raise NotImplementedError("read models are rebuilt from the log")
