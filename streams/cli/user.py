"""``playhead user``: which accounts of media servers are one person."""

from __future__ import annotations

import typer

from streams.cli.output import Json, emit_json, emit_table

app = typer.Typer(no_args_is_help=True, help="People, and which accounts are whose.")

_EARLIER = "what it played before stays with its former person, and comes back with 'playhead user unlink'"


@app.command(name="list", epilog="Example:  playhead user list")
def list_(as_json: Json = False) -> None:
    """Show all accounts, those of one person together. These are names of people: they are in no log or topic."""
    from dataclasses import asdict

    from streams.cli.admin import door_connection
    from streams.runtime.people import list_accounts
    from streams.runtime.settings import Settings

    with door_connection(Settings.load()) as connection:
        found = list_accounts(connection)
    if as_json:
        emit_json([asdict(account) for account in found])
    else:
        rows = [(a.user_ref, a.source_id, a.upstream_user, a.own_ref or "") for a in found]
        emit_table(("person", "source", "account", "linked, before"), rows)


@app.command(
    epilog="Examples:  playhead user link jelly 3f1c0d5e8a2b4c6d home/ana  ·  playhead user link jelly 3f1c… 9d4e…"
)
def link(
    source_id: str = typer.Argument(help="Source of the account, as 'playhead source list' shows it."),
    account: str = typer.Argument(help="The account, as that source names it."),
    person: str = typer.Argument(help="Whose it is: SOURCE/ACCOUNT of another account, or a user_ref."),
    as_json: Json = False,
) -> None:
    """Make an account another person's: its reports count for that person from now on, within seconds everywhere.

    What it played before stays with its former person, and comes back with 'playhead user unlink'.
    """
    from streams.cli.admin import identified_connection
    from streams.runtime.people import find_account, link_account
    from streams.runtime.settings import Settings

    settings = Settings.load()
    with identified_connection(settings) as (connection, publish):
        its = find_account(connection, source_id, account)
        other, slash, name = person.partition("/")
        user_ref = find_account(connection, other, name).user_ref if slash else person
        link_account(connection, its, user_ref)
        publish(source_id, account, user_ref)
    if as_json:
        emit_json({"source": source_id, "account": account, "user_ref": user_ref, "former": its.user_ref})
    else:
        typer.echo(f"{account} of {source_id} is {user_ref} from now on;\n{_EARLIER} ({its.user_ref}).")


@app.command(epilog="Example:  playhead user unlink jelly 3f1c0d5e8a2b4c6d")
def unlink(
    source_id: str = typer.Argument(help="Source of the account."),
    account: str = typer.Argument(help="The account, as that source names it."),
    as_json: Json = False,
) -> None:
    """Make an account its own person again, with what it played before it was linked.

    What it played while it was linked stays with the other person.
    """
    from streams.cli.admin import identified_connection
    from streams.runtime.people import find_account, unlink_account
    from streams.runtime.settings import Settings

    settings = Settings.load()
    with identified_connection(settings) as (connection, publish):
        its = find_account(connection, source_id, account)
        user_ref = unlink_account(connection, its)
        publish(source_id, account, user_ref)
    if as_json:
        emit_json({"source": source_id, "account": account, "user_ref": user_ref, "former": its.user_ref})
    else:
        typer.echo(
            f"{account} of {source_id} is {user_ref} again; what was played meanwhile stays with {its.user_ref}."
        )
