"""Media that are one: who stays, and whose state a row has taken in."""

from __future__ import annotations

from projections.migrations.script import run_sql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(__file__)


def downgrade() -> None:
    raise NotImplementedError("core tables are never taken back")
