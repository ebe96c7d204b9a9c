"""``playhead source``: the media servers and apps that may send reports."""

from __future__ import annotations

import typer

from streams.cli.output import Json, emit_json, emit_table

app = typer.Typer(no_args_is_help=True, help="Media servers and apps that may send reports.")

_HOOKS = ("jellyfin", "plex", "emby", "audiobookshelf")


@app.command(
    epilog="Examples:  playhead source add jellyfin shelf  ·  playhead source add native home --name 'Living room'"
)
def add(
    kind: str = typer.Argument(help="native, jellyfin, plex, emby, audiobookshelf, subsonic, listenbrainz or files."),
    source_id: str = typer.Argument(help="Its short name: lower-case letters, digits, dots and dashes."),
    name: str = typer.Option("", help="What people see; the id when not given."),
    as_json: Json = False,
) -> None:
    """Make a source and a token for it, and print what to enter there. The token is shown this once."""
    from streams.cli.admin import door_connection
    from streams.runtime.settings import Settings
    from streams.runtime.tokens import create_source, create_token

    settings = Settings.load()
    with door_connection(settings) as connection:
        made = create_source(connection, source_id, kind, name or source_id)
        token = create_token(connection, source_id, ["report", "read"], None, f"of source {source_id}")
    base = f"http://{settings.http.host}:{settings.http.port}"
    hook = f"{base}/hooks/{kind}/{token}" if kind in _HOOKS else None
    if as_json:
        emit_json({"source": source_id, "created": made, "token": token, "hook": hook})
        return
    typer.echo(
        f"source {source_id} ({kind}) "
        + ("created" if made else "is there already and has one more token; 'playhead token list' shows the others")
    )
    if hook is not None:
        typer.echo(f"enter this address on the server's webhook page:\n  {hook}")
    elif kind == "listenbrainz":
        typer.echo(f"set the server's ListenBrainz address to {base}/1 and its token to\n  {token}")
    else:
        typer.echo(f"send reports to {base}/v1/playback with the header\n  Authorization: Bearer {token}")


@app.command(name="list", epilog="Example:  playhead source list --json")
def list_(as_json: Json = False) -> None:
    """Show all sources."""
    from streams.cli.admin import door_connection
    from streams.runtime.settings import Settings
    from streams.runtime.tokens import list_sources

    with door_connection(Settings.load()) as connection:
        found = list_sources(connection)
    if as_json:
        emit_json([{"source": source, "kind": kind, "name": name} for source, kind, name in found])
    else:
        emit_table(("source", "kind", "name"), found)
