"""``playhead project``: decisions become rows, in one PostgreSQL transaction with their offset."""

from __future__ import annotations

import typer


def project() -> None:
    """Run the playback projection until SIGTERM or Ctrl-C. Start several to share the partitions.

    It refuses to go on (exit code 78) when the topic was recreated or lost records it has not read.

    Example:  playhead project
    """
    from projections.entry import run_projection
    from streams.cli import role

    raise typer.Exit(run_projection(role.begin("project")))
