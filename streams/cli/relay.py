"""``playhead relay``: the outbox of the read models becomes cache.invalidated."""

from __future__ import annotations

import typer


def relay() -> None:
    """Publish cache invalidations until SIGTERM or Ctrl-C: after the commit, at least once, with versions.

    Example:  playhead relay
    """
    from projections.entry import run_relay
    from streams.cli import role

    raise typer.Exit(run_relay(role.begin("relay")))
