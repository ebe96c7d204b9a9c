"""``playhead backup``: what can't be made again from the log, in a file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from streams.cli.output import Json, emit_json, emit_lines


class FileFirst(TyperGroup):
    """``playhead backup FILE`` is ``playhead backup create FILE``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["create", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=FileFirst,
    no_args_is_help=True,
    help="What can't be made again from the log: to a file, and back.",
)


@app.command(epilog="Examples:  playhead backup /backups/playhead.zip  ·  playhead backup nightly.zip --json")
def create(
    file: Path = typer.Argument(help="Where to; what is there is replaced when all of it is written."),
    as_json: Json = False,
) -> None:
    """Write people, accounts, links, tokens (hashed), sources, schedules, tasks, what polls saw and where projections
    stand to one file. Playhead goes on meanwhile; the file is of one moment.

    The file holds names of people and the credentials of media servers: it is made readable for its owner only.
    """
    import psycopg

    from projections.backup.copying import write
    from streams.cli.admin import answering
    from streams.cli.restoring import key_check
    from streams.runtime.settings import Settings

    settings = Settings.load()
    check = key_check(settings)
    with answering(settings), psycopg.connect(**settings.postgres.conninfo("owner")) as connection:
        made = write(connection, file.expanduser().absolute(), check)
    rows = {table.name: table.rows for table in made.tables}
    if as_json:
        emit_json({"file": str(file), "made_at": made.made_at, "bytes": file.expanduser().stat().st_size, "rows": rows})
    else:
        total = sum(rows.values())
        typer.echo(f"{file}: {total} rows of {len(rows)} tables, as of {made.made_at}; readable for its owner only")


@app.command(
    epilog="Examples:  playhead backup restore nightly.zip  ·  playhead backup restore nightly.zip --replace --yes"
)
def restore(
    file: Path = typer.Argument(help="A file that 'playhead backup' wrote."),
    replace: bool = typer.Option(False, "--replace", help="Delete the people, sources and tokens there are."),
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
    as_json: Json = False,
) -> None:
    """Bring a backup into a migrated database, while no role runs. The log may be older or newer than the backup.

    Read models are not in it: they are made again from the log. Who was forgotten since the backup stays forgotten.
    """
    from streams.cli.restoring import restore_file
    from streams.runtime.settings import Settings

    settings = Settings.load()
    if not yes:
        what = "What is in the database now is deleted. " if replace else ""
        typer.confirm(f"{what}Restore {file}?", abort=True, err=True)
    restored, carried = restore_file(settings, file.expanduser().absolute(), replace=replace)
    if as_json:
        emit_json(
            {
                "rows": dict(restored.rows),
                "notes": restored.words,
                "accounts_unknown_to_log": restored.unwritten,
                "forgotten_since": carried.heard,
                "told_log_to_forget": carried.told,
            }
        )
        return
    lines = [f"restored {sum(restored.rows.values())} rows of {len(restored.rows)} tables", *restored.words]
    if restored.unwritten:
        lines.append(f"{restored.unwritten} accounts are not in the log: it is told of each with its next report")
    if carried.heard:
        lines.append(f"{carried.heard} people were forgotten after the backup: they stay so")
    if carried.told:
        lines.append(f"the log did not know of {len(carried.told)} who were forgotten: it was told")
    emit_lines(lines, when_none="")
