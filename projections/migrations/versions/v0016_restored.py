"""When core became a backup's: what was reported before may have been told to servers since that backup."""

from __future__ import annotations

from projections.migrations.script import run_sql

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(__file__)


def downgrade() -> None:
    raise NotImplementedError("what was told before a restore stays told")
