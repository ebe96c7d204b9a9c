"""Which failure of a letter a mark answers: one that follows is news."""

from __future__ import annotations

from projections.migrations.script import run_sql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql(__file__)


def downgrade() -> None:
    raise NotImplementedError("what operators said is not taken back")
