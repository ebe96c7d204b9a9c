"""``playhead token``: who may report, read and operate."""

from __future__ import annotations

import typer

from streams.cli.output import Json, emit_json, emit_table

app = typer.Typer(no_args_is_help=True, help="Bearer tokens. Only their SHA-256 is stored.")


@app.command(epilog="Examples:  playhead token create --source home  ·  playhead token create --scope operate")
def create(
    source: str = typer.Option("", help="Source it speaks for; none: every source, for operators."),
    scope: list[str] = typer.Option(["report", "read"], help="report, read or operate; may be repeated."),
    user: str = typer.Option("", help="user_ref (as the read API shows it) of the one person it is for."),
    label: str = typer.Option("", help="For your list."),
    as_json: Json = False,
) -> None:
    """Make a token. It is shown this once."""
    from streams.cli.admin import door_connection
    from streams.runtime.settings import Settings
    from streams.runtime.tokens import create_token

    with door_connection(Settings.load()) as connection:
        token = create_token(connection, source or None, scope, user or None, label)
    if as_json:
        emit_json({"token": token})
    else:
        typer.echo(token)


@app.command(name="list", epilog="Example:  playhead token list")
def list_(as_json: Json = False) -> None:
    """Show all tokens by their public ids; the tokens themselves are not stored."""
    from dataclasses import asdict

    from streams.cli.admin import door_connection
    from streams.runtime.settings import Settings
    from streams.runtime.tokens import list_tokens

    with door_connection(Settings.load()) as connection:
        found = [asdict(entry) for entry in list_tokens(connection)]
    if as_json:
        emit_json(found)
    else:
        columns = tuple(found[0]) if found else ("no tokens",)
        emit_table(columns, [tuple(entry.values()) for entry in found])


@app.command(epilog="Examples:  playhead token rotate 1f0c2a9b  ·  playhead token rotate 1f0c2a9b --grace-s 0")
def rotate(
    token_id: str = typer.Argument(help="As shown by 'playhead token list'."),
    grace_s: int = typer.Option(24 * 3600, help="How long the old one goes on, seconds; 0: it ends now."),
    as_json: Json = False,
) -> None:
    """Make a new token in place of another, valid at once; the old one goes on for a while. It is shown this once."""
    from streams.cli.admin import door_connection
    from streams.runtime.settings import Settings
    from streams.runtime.tokens import rotate_token

    with door_connection(Settings.load()) as connection:
        token = rotate_token(connection, token_id, grace_s)
    if as_json:
        emit_json({"token": token, "grace_s": grace_s})
    else:
        typer.echo(token)


@app.command(epilog="Example:  playhead token revoke 1f0c2a9b")
def revoke(token_id: str = typer.Argument(help="As shown by 'playhead token list'."), as_json: Json = False) -> None:
    """Make a token worthless, within 15 s everywhere."""
    from streams.cli.admin import door_connection
    from streams.runtime.errors import EXIT_DIFFERENCES
    from streams.runtime.settings import Settings
    from streams.runtime.tokens import revoke_token

    with door_connection(Settings.load()) as connection:
        done = revoke_token(connection, token_id)
    if as_json:
        emit_json({"revoked": done})
    else:
        typer.echo("revoked" if done else "no such token, or revoked already")
    if not done:
        raise typer.Exit(EXIT_DIFFERENCES)
