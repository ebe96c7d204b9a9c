"""Tables of forwarding."""

from __future__ import annotations

from projections.migrations.script import run_sql

revision = "0010"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(__file__)


def downgrade() -> None:
    raise NotImplementedError("core tables are never dropped")
