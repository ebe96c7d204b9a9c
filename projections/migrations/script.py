"""What each version does: run the SQL file beside it."""

from __future__ import annotations

from pathlib import Path

from alembic import op


def run_sql(module: str) -> None:
    """Run ``NAME.sql`` beside the version ``module`` (its ``__file__``), in the migration's transaction."""
    # One simple-protocol message of many statements; the driver's connection, because ':' means nothing in it.
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    driver.execute(Path(module).with_suffix(".sql").read_text(encoding="utf-8"))
