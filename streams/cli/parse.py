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

from streams.ingest.hooks import FORMATS, Census, as_json, native
from streams.ingest.hooks import parse as parse_body


def parse_lines(format: str, body: bytes, census: Census | None = None) -> Iterator[dict[str, object]]:
    """The objects to print for a body, in the order of the input; `census` counts unknown fields. Never raises."""
    results = native.iterate(body, census) if format == "native" else parse_body(format, body, census=census)
    return (as_json(result) for result in results)


def parse(
    format: Annotated[str, typer.Argument(help=f"One of {', '.join(FORMATS)}.")],
    file: Annotated[str, typer.Argument(help="A file with one request's body, or - for standard input.")],
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Name on standard error the fields that no parser knows.")
    ] = False,
    as_json: Annotated[  # noqa: ARG001
        bool, typer.Option("--json", help="Changes nothing: it prints JSON anyway, one object a line.")
    ] = False,
) -> None:
    """Print what a media server's or player's payload says, as JSON lines.

    A body is what one request carries: a webhook's JSON, form or multipart body, a Subsonic call's query or a
    server's answer, a ListenBrainz submission, native reports (JSON, or JSON lines). Nothing is sent anywhere; to send
    captured payloads see 'playhead replay'.
    """
    if format not in FORMATS:
        typer.echo(f"unknown format; the formats are {', '.join(FORMATS)}", err=True)
        raise typer.Exit(2)
    try:
        body = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        typer.echo(f"{file}: {error.strerror}; give a file with one request's body, or - for standard input", err=True)
        raise typer.Exit(2) from None
    census = Census()
    for line in parse_lines(format, body, census):
        # Plain ASCII: no terminal's encoding, and no reader that splits lines at U+2028, can break a line.
        typer.echo((json.dumps(line) + "\n").encode(), nl=False)
    if unknown:
        named = f": {', '.join(sorted(census.names))}" if census.names else ""
        typer.echo(f"{census.unknown} unknown fields{named}", err=True)


app = typer.Typer(add_completion=False)
app.command(
    "parse",
    epilog="Examples:  playhead parse jellyfin hook.json  ·  playhead parse plex - < hook.body  ·  "
    "playhead parse subsonic call.txt --unknown",
)(parse)
