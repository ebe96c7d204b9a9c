"""`playhead parse FORMAT FILE|-`: what Playhead reads in a payload, as JSON lines.

Needs no service. Each line is an object with `type` report, observation, ignored or rejected. Exit 0 when
the file could be read, whatever is in it; 2 when it could not or the format is unknown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from streams.ingest.hooks import FORMATS, as_json, native
from streams.ingest.hooks import parse as parse_body


def parse_lines(format: str, body: bytes) -> Iterator[dict[str, object]]:
    """The objects to print for a body, in the order of the input. Never raises."""
    results = native.iterate(body) if format == "native" else parse_body(format, body)
    return (as_json(result) for result in results)


def parse(
    format: Annotated[str, typer.Argument(help=f"One of {', '.join(FORMATS)}.")],
    file: Annotated[str, typer.Argument(help="A file with one request's body, or - for standard input.")],
) -> None:
    """Print what a media server's or player's payload says, as JSON lines."""
    if format not in FORMATS:
        typer.echo(f"unknown format; the formats are {', '.join(FORMATS)}", err=True)
        raise typer.Exit(2)
    try:
        body = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        typer.echo(f"{file}: {error.strerror}", err=True)
        raise typer.Exit(2) from None
    for line in parse_lines(format, body):
        # Plain ASCII: no terminal's encoding, and no reader that splits lines at U+2028, can break a line.
        typer.echo((json.dumps(line) + "\n").encode(), nl=False)
