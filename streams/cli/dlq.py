"""``playhead dlq``: what stopped because too much could not be processed."""

from __future__ import annotations

import typer

from streams.cli.output import Json, emit_json

app = typer.Typer(no_args_is_help=True, help="Dead letters: records nobody could process, kept with their bytes.")


@app.callback()
def _dlq() -> None:
    """Keeps ``resume`` a sub-command while it is the only one."""


@app.command(epilog="Example:  playhead dlq resume projection.playback")
def resume(
    consumer: str = typer.Argument("projection.playback", help="Who stopped, as its refusal says."),
    as_json: Json = False,
) -> None:
    """Close the breaker that a flood of dead letters opened; exit code 1 when it was not open.

    First find out what sent the flood: its records become dead letters, and their neighbours are processed, when
    the consumer is started again.
    """
    from projections.flood import resume as close_breaker
    from streams.cli.admin import answering
    from streams.runtime.errors import EXIT_DIFFERENCES
    from streams.runtime.settings import Settings

    settings = Settings.load()
    with answering(settings):
        done = close_breaker(settings.postgres.conninfo("projector"), consumer)
    if as_json:
        emit_json({"consumer": consumer, "resumed": done})
    else:
        typer.echo(f"{consumer}: resumed; start it again" if done else f"{consumer}: its breaker is not open")
    if not done:
        raise typer.Exit(EXIT_DIFFERENCES)
