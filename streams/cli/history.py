"""``playhead history`` and ``playhead restore``: what a person played of one media, and back to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from streams.cli.choosing import when
from streams.cli.output import Json, emit_json, emit_table

if TYPE_CHECKING:
    from streams.runtime.settings import Settings

_USER = typer.Argument(help="user_ref, or with --source the account as that source names it.")
_MEDIA = typer.Argument(help="media_id, or with --source the item as that source names it.")
_SOURCE = typer.Option(None, help="Whose names these are.")


def history(
    user: str = _USER,
    media: str = _MEDIA,
    source: str | None = _SOURCE,
    limit: int = typer.Option(50, min=1, max=500, help="So many at most."),
    as_json: Json = False,
) -> None:
    """Show the turns of playback, and of plain progress one a minute, newest first. Exit code 1 when there are none.

    An entry's id is what 'playhead restore' goes back to.

    Examples:  playhead history ana film-7 --source home  ·  playhead history 5f0c… 81d2… --json
    """
    from streams.runtime.errors import EXIT_DIFFERENCES
    from streams.runtime.settings import Settings

    found = _read(Settings.load(), user, media, source, limit)
    if as_json:
        emit_json(found)
    elif found:
        emit_table(
            ("id", "when", "kind", "from", "device", "verdict", "position", "phase", "epoch"),
            [
                (one["id"], when(one["event_time"]), one["kind"], one["source"], one["device_id"] or "",
                 one["verdict"] + (f" ({one['reason']})" if one["reason"] else ""), _clock(one["position_ms"]),
                 one["phase"], one["epoch"])
                for one in found
            ],
        )  # fmt: skip
    else:
        typer.echo("nothing of it was played")
    if not found:
        raise typer.Exit(EXIT_DIFFERENCES)


def restore(
    user: str = _USER,
    media: str = _MEDIA,
    entry: str | None = typer.Argument(None, help="Id of the entry of 'playhead history' to go back to."),
    before_finish: bool = typer.Option(False, "--before-finish", help="As before the newest finish, which was none."),
    source: str | None = _SOURCE,
    to: str = typer.Option("", help="The door; by default where serve listens here."),
    token_file: Path | None = typer.Option(None, help="File with a token for it; else PLAYHEAD_TOKEN is it."),
    as_json: Json = False,
) -> None:
    """Have the position set to what it was, by a command through the door. The history keeps both.

    Exit code 1 when the door refuses: there is no such entry, or nothing to undo.

    Examples:  playhead restore ana film-7 1.4.120 --source home  ·  playhead restore ana film-7 --before-finish
    """
    import uuid
    from urllib.parse import quote

    import httpx

    from streams.cli.replay import door_here, token_of
    from streams.runtime.errors import EXIT_DIFFERENCES, Unavailable

    if (entry is None) == (not before_finish):
        raise typer.BadParameter("give an entry, or --before-finish")
    door, token = (to or door_here()).rstrip("/"), token_of(token_file)
    try:
        answer = httpx.post(
            f"{door}/v1/users/{quote(user, safe='')}/progress/{quote(media, safe='')}/restore",
            params={} if source is None else {"source": source},
            json={"before": "finish"} if before_finish else {"entry": entry},
            headers={"Authorization": f"Bearer {token}", "Idempotency-Key": uuid.uuid4().hex},
            timeout=30,
        )
    except httpx.HTTPError as exc:
        raise Unavailable(f"the door does not answer ({type(exc).__name__})") from exc
    try:
        document: Any = answer.json()
    except ValueError:
        document = {}
    if answer.status_code >= 500 or answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
        raise Unavailable(f"the door answers {answer.status_code}: try again")
    if as_json:
        emit_json(document)
    elif answer.is_success:
        typer.echo(f"set to {_clock(document['position_ms'])}; 'playhead history' shows it, and how to go back")
    else:
        typer.echo(f"refused: {document.get('detail', answer.status_code)}")
    if not answer.is_success:
        raise typer.Exit(EXIT_DIFFERENCES)


def _read(settings: Settings, user: str, media: str, source: str | None, limit: int) -> list[dict[str, Any]]:
    import asyncio

    from projections.api import Names, ReadModels
    from projections.api.shapes import HistoryOut
    from streams.runtime.database import Database
    from streams.runtime.errors import Permanent
    from streams.runtime.people import PostgresAliases, PostgresPeople
    from streams.runtime.problems import Problem
    from streams.runtime.tokens import Principal, Scope

    operator = Principal("command line", None, frozenset({Scope.OPERATE}))

    async def ask() -> list[dict[str, Any]]:
        door = Database(settings.postgres.conninfo("door"))
        async with door, ReadModels(Database(settings.postgres.conninfo("reader"))) as read:
            names = Names(PostgresPeople(door), PostgresAliases(door))
            ref = await names.user(operator, user, source)
            page = await read.history_page(ref, await names.media(media, source), None, limit)
            return [] if page is None else [HistoryOut.of(row).model_dump() for row in page.rows]

    try:
        return asyncio.run(ask())
    except Problem as exc:
        raise Permanent(exc.detail, cause="other") from exc


def _clock(ms: int) -> str:
    seconds = ms // 1000
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
