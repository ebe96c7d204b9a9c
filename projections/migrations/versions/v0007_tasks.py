"""What is wanted of the outside world, under which lease; when it is wanted by itself; where file trees are."""

from __future__ import annotations

from projections.migrations.script import run_sql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(__file__)


def downgrade() -> None:
    raise NotImplementedError("core tables are never dropped")
