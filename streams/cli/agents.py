"""``playhead agents``: the Faust agents of this process."""

from __future__ import annotations

import typer


def agents(
    worker: str = typer.Option("1", help="Names this worker's local state; two workers on one machine need two names."),
) -> None:
    """Run the playback agent until SIGTERM or Ctrl-C: reports in, decisions out, exactly once.

    Start as many as there are processors, on any number of machines, up to the number of partitions (12).

    Examples:  playhead agents  ·  playhead agents --worker 2
    """
    from streams.agents import app
    from streams.cli import role

    app.run(role.begin("agents"), worker)
