"""``playhead source``: the media servers and apps that may send reports."""

from __future__ import annotations

from pathlib import Path

import typer

from streams.cli import connecting
from streams.cli.output import Json, emit_json, emit_table

app = typer.Typer(no_args_is_help=True, help="Media servers and apps that may send reports.")
app.command(epilog=connecting.CONNECT_EPILOG)(connecting.connect)
app.command(epilog="Example:  playhead source disconnect music --account ana")(connecting.disconnect)


@app.command(
    epilog="Examples:  playhead source add jellyfin shelf --url https://playhead.example  ·  "
    "playhead source add listenbrainz scrobbles --user ana  ·  playhead source add native home"
)
def add(
    kind: str = typer.Argument(help="native, jellyfin, plex, emby, audiobookshelf, subsonic, listenbrainz or files."),
    source_id: str = typer.Argument(help="Its short name: lower-case letters, digits, dots and dashes."),
    name: str = typer.Option("", help="What people see; the id when not given."),
    url: str = typer.Option("", help="Where the server reaches this door; the address serve listens on by default."),
    user: str = typer.Option("", help="The one person its token is for; needed for listenbrainz, which names none."),
    path: Path | None = typer.Option(None, help="files: the folder, as the machine of 'playhead work' has it."),
    watch: bool = typer.Option(True, help="files: scan when something changes there, too."),
    every: str = typer.Option("", metavar="CRON", help="files: when to scan, in UTC; four times a day when not given."),
    elsewhere: bool = typer.Option(False, "--elsewhere", help="files: the folder is another machine's; don't look."),
    as_json: Json = False,
) -> None:
    """Make a source and a token for it, and print what to paste into that server's pages. It is shown this once.

    A source of kind files is a folder: it needs no token, and 'playhead work' scans it.
    """
    from streams.cli.admin import identified_connection
    from streams.cli.pasting import pasting
    from streams.runtime.people import make_account
    from streams.runtime.settings import Settings
    from streams.runtime.tokens import create_source, create_token

    if kind == "files":
        add_files(source_id, name, path, watch, every, elsewhere, as_json)
        return
    if path is not None or every:
        raise typer.BadParameter("only sources of kind files are a folder", param_hint="--path")
    if kind == "listenbrainz" and not user:
        raise typer.BadParameter("ListenBrainz submissions name nobody: say whose they are", param_hint="--user")
    settings = Settings.load()
    with identified_connection(settings) as (connection, publish):
        made = create_source(connection, source_id, kind, name or source_id)
        user_ref = None
        if user:
            user_ref = make_account(connection, source_id, user)
            publish(source_id, user, user_ref)
        token = create_token(connection, source_id, ["report", "read"], user_ref, f"of source {source_id}")
    base = (url or f"http://{_bracketed(settings.http.host)}:{settings.http.port}").rstrip("/")
    paste = pasting(kind, base, token)
    if as_json:
        header = dict([paste.header]) if paste.header else None
        emit_json(
            {
                "source": source_id,
                "created": made,
                "user_ref": user_ref,
                "token": token,
                "address": paste.address,
                "header": header,
                "template": paste.template,
                "steps": paste.steps,
            }
        )
        return
    typer.echo(
        f"source {source_id} ({kind}) "
        + ("created" if made else "is there already and has one more token; 'playhead token list' shows the others")
    )
    for number, step in enumerate(paste.steps, 1):
        typer.echo(f"{number}. {step}")
    if paste.address:
        typer.echo(f"\naddress:\n  {paste.address}")
    if paste.header:
        typer.echo(f"header:\n  {': '.join(paste.header)}")
    if paste.template:
        typer.echo(f"template:\n{paste.template}")
    if paste.address and not url:
        typer.echo("\nIf the server is on another machine, put its way to here in place of the address: --url")


def add_files(
    source_id: str,
    name: str,
    path: Path | None,
    watch: bool,
    every: str,
    elsewhere: bool,
    as_json: bool,
) -> None:
    import os

    from streams.cli.admin import door_connection
    from streams.runtime.errors import Permanent
    from streams.runtime.schedules import DEFAULT_CRON
    from streams.runtime.settings import Settings
    from streams.runtime.tokens import create_source
    from streams.runtime.trees import SourceTree, add_tree

    if path is None:
        raise typer.BadParameter("say where the files are", param_hint="--path")
    root = path if elsewhere else Path(os.path.realpath(path.expanduser()))
    if not elsewhere and not os.access(root, os.R_OK | os.X_OK):
        raise Permanent(
            f"{root} can't be read here; if it is a folder of the machine where 'playhead work' runs: --elsewhere",
            cause="bad_source",
        )
    if not elsewhere and not root.is_dir():
        raise Permanent(f"{root} is no folder", cause="bad_source")
    tree = SourceTree(source_id, os.fsencode(root), watch)
    with door_connection(Settings.load()) as connection:
        made = create_source(connection, source_id, "files", name or source_id)
        add_tree(connection, tree, every or None)
    if as_json:
        emit_json(
            {"source": source_id, "created": made, "path": tree.shown, "watch": watch, "every": every or DEFAULT_CRON}
        )
        return
    typer.echo(
        f"source {source_id} (files) " + ("created" if made else "changed") + f": {tree.shown}\n"
        f"scanned by schedule ({every or DEFAULT_CRON}, UTC)" + (" and when something changes" if watch else "") + "\n"
        f"'playhead scan {source_id}' scans it now; '--dry-run' only says what it would find"
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


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
