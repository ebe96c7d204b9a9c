"""``playhead project``: records become rows, in one PostgreSQL transaction with their offset."""

from __future__ import annotations

import typer


def project(
    projection: str = typer.Argument("playback", help="playback, library, tasks, forwarding or dead_letters."),
) -> None:
    """Run one projection until SIGTERM or Ctrl-C. Start several of one to share the partitions.

    It refuses to go on (exit code 78) when the topic was recreated or lost records it has not read.

    Examples:  playhead project  ·  playhead project tasks
    """
    from projections.entry import run_projection
    from streams.cli import role

    if projection in ("library", "dead_letters"):
        role.give_way()
    raise typer.Exit(run_projection(role.begin("project"), projection=projection))
