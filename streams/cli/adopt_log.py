"""``playhead adopt-log``: accept a log that is another one, or shorter, than the read model has read."""

from __future__ import annotations

import typer

from streams.cli.output import Json, emit_json


def adopt_log(
    projection: str = typer.Argument(help="As the refusal names it, for example: playback."),
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
    as_json: Json = False,
) -> None:
    """Let a projection go on with the log as it is now, after it refused: a recreated topic, a lost head or tail.

    Raises the log epoch: whatever the log holds from its first record on wins over the rows there are; rows it
    does not mention stay. What was lost from the log stays lost: restoring it is better, where that is possible.

    Examples:  playhead adopt-log playback  ·  playhead adopt-log playback --yes --json
    """
    from projections.offsets import adopt_log as adopt
    from streams.cli.admin import answering
    from streams.runtime.settings import Settings

    settings = Settings.load()
    if not yes:
        typer.confirm(f"Accept the log as it is now for projection {projection}?", abort=True, err=True)
    with answering(settings):
        epoch = adopt(settings.postgres.conninfo("projector"), projection)
    if as_json:
        emit_json({"projection": projection, "log_epoch": epoch})
    else:
        typer.echo(f"{projection}: goes on with the log as it is, log epoch {epoch}; start 'playhead project' again")
