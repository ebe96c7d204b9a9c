"""When a source's names were given to other media: doors ask for that, and look again."""

from __future__ import annotations

from projections.migrations.script import run_sql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(__file__)


def downgrade() -> None:
    raise NotImplementedError("core tables are never dropped")
