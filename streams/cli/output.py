"""How every command speaks: results on stdout as text or one JSON document, errors as one line on stderr.

Exit codes, the same everywhere: 0 done and in order · 1 done, and something differs or was refused · 2 wrong
usage · 69 a service is away · 70 ended to be started again · 78 configuration: an operator must act.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from streams.runtime.errors import (
    EXIT_CONFIGURATION,
    EXIT_DIFFERENCES,
    EXIT_RESTART,
    EXIT_UNAVAILABLE,
    ConfigurationError,
    Fatal,
    PlayheadError,
    Unavailable,
)

PIPE_COLUMNS = 200

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
"""The option every command has; annotate a parameter with it and give it the default False."""


def emit_json(value: Any) -> None:
    """Print ``value`` as one JSON document on stdout, and nothing else."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def emit_lines(lines: Iterable[object], *, when_none: str) -> None:
    """Print each of ``lines`` on its own line; ``when_none`` when there are none."""
    texts = [str(line) for line in lines]
    for text in texts or [when_none]:
        typer.echo(text)


def emit_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print a table on stdout. Cells are data: nothing in them is taken for markup or a control sequence."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from streams.runtime.logs import escape

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(escape(str(cell))) for cell in row))
    # Into a file or pipe a row stays one line where it can.
    Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS).print(table)


def finish(differences: Iterable[object]) -> None:
    """End the command: exit code 1 when there are differences, else return."""
    if list(differences):
        raise typer.Exit(EXIT_DIFFERENCES)


def exit_code(error: PlayheadError) -> int:
    """The exit code an error's type stands for."""
    match error:
        case ConfigurationError():
            return EXIT_CONFIGURATION
        case Unavailable():
            return EXIT_UNAVAILABLE
        case Fatal():
            return EXIT_RESTART
        case _:
            return EXIT_DIFFERENCES


def complain(error: PlayheadError) -> int:
    """Say ``error`` in one line on stderr; returns the exit code."""
    from streams.runtime.logs import escape

    typer.echo(f"playhead: {escape(str(error))}", err=True)
    return exit_code(error)
