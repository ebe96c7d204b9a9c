"""``playhead source connect``: where a source's media server is, with what it is read, and whether it is told."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from streams.cli.output import Json, emit_json

CONNECT_EPILOG = (
    "Examples:  playhead source connect music --url http://nas.lan:4533 --account ana  ·  "
    "playhead source connect shelf --url http://nas.lan:8096 --secret-file /run/secrets/jellyfin"
)


def connect(
    source_id: str = typer.Argument(help="As shown by 'playhead source list'."),
    url: str = typer.Option(help="Where the server is; requests go there and nowhere else."),
    account: str = typer.Option("", help="Whose playing is read: needed for subsonic and audiobookshelf, one by one."),
    login: str = typer.Option("", help="subsonic: token (the usual), password or api_key."),
    secret_file: Path | None = typer.Option(
        None, exists=True, dir_okay=False, help="Keep this path, not the secret; the file is read for polling."
    ),
    every: int = typer.Option(30, min=5, max=86_400, help="Seconds from poll to poll."),
    insecure_tls: bool = typer.Option(False, "--insecure-tls", help="Take any certificate."),
    forward: bool | None = typer.Option(
        None,
        help="Tell it of what is played elsewhere from now on, or no more; as before when not given, at first not.",
    ),
    as_json: Json = False,
) -> None:
    """Say where a source's server is, so that it can be polled. The password or key is asked for, or read from stdin.

    Jellyfin and Plex take one key that sees everybody. Repeating it replaces what was kept of the account.

    With --forward the server is also told: where a person is with an item, and what they finished, when that was played
    on another server that has the same item by its catalogue ids, or in a client that reports to Playhead. Accounts of
    one person on several servers are linked with 'playhead user link'. A Plex token tells its own person's data only.
    """
    from streams.cli.admin import door_connection
    from streams.runtime.errors import Permanent
    from streams.runtime.settings import Settings
    from streams.runtime.tokens import list_sources
    from streams.runtime.upstreams import LOGINS, POLLABLE, Account, connect_upstream, set_forwarding
    from streams.upstream.errors import NotAllowed
    from streams.upstream.origin import Origin

    settings = Settings.load()
    try:
        origin = Origin.of(url)
    except NotAllowed as exc:
        raise Permanent(f"--url: {exc}", cause="bad_source") from None
    secret = "" if secret_file is not None else _secret(source_id)
    with door_connection(settings) as connection:
        kinds = {source: kind for source, kind, _ in list_sources(connection)}
        usual = LOGINS.get(kinds.get(source_id, ""), ("",))[0]
        entry = Account(
            account, login or usual, secret, None if secret_file is None else str(secret_file.expanduser().absolute())
        )
        kind = connect_upstream(
            connection, source_id, str(origin), entry, interval_s=every, verify_tls=not insecure_tls
        )
        since = set_forwarding(connection, source_id, forward)
    if as_json:
        emit_json(
            {
                "source": source_id,
                "kind": kind,
                "url": str(origin),
                "account": account,
                "login": entry.login,
                "forward_since": since,
            }
        )
        return
    name = f" as {account}" if account else ""
    if kind in POLLABLE:
        typer.echo(
            f"source {source_id} ({kind}) is read at {origin}{name} every {every} s\n"
            f"'playhead poll {source_id} --once' tries it; a running 'playhead poll' finds it soon"
        )
    else:
        typer.echo(f"source {source_id} ({kind}) is at {origin}{name}; it can't be polled")
    typer.echo(f"it is told of what was played elsewhere since {since}" if since else "it is told nothing (--forward)")


def disconnect(
    source_id: str = typer.Argument(help="As shown by 'playhead source list'."),
    account: str | None = typer.Option(None, help="This account only; the server and all accounts when not given."),
    as_json: Json = False,
) -> None:
    """Poll a source no more, and forget its secrets. What it reported stays."""
    from streams.cli.admin import door_connection
    from streams.runtime.errors import EXIT_DIFFERENCES
    from streams.runtime.settings import Settings
    from streams.runtime.upstreams import disconnect_upstream

    with door_connection(Settings.load()) as connection:
        gone = disconnect_upstream(connection, source_id, account)
    if as_json:
        emit_json({"accounts_forgotten": gone})
    else:
        typer.echo(f"{gone} account{'' if gone == 1 else 's'} forgotten")
    if not gone:
        raise typer.Exit(EXIT_DIFFERENCES)


def _secret(source_id: str) -> str:
    """From a prompt that shows nothing, or the first line of what is piped in: never an argument others could see."""
    if sys.stdin.isatty():
        return str(typer.prompt(f"password or key for {source_id}", hide_input=True, err=True))
    return sys.stdin.readline().rstrip("\r\n")
