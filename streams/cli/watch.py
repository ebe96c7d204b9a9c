"""``playhead watch``: what changes, as it happens. All a client of GET /v1/changes has to do, in thirty lines."""

from __future__ import annotations

import typer

from streams.cli.output import Json


def watch(
    url: str = typer.Option("http://127.0.0.1:8420", help="Where `playhead serve` answers."),
    token_file: typer.FileText = typer.Option("-", help="File with a token that may read; - reads stdin."),
    user: str | None = typer.Option(None, help="Only this person, as the token's source calls them."),
    since: str | None = typer.Option(None, help="Id of the last event that was heard: what came after it."),
    as_json: Json = False,
) -> None:
    """Show what becomes stale until Ctrl-C: progress on other devices, items, collections. Connects again by itself.

    Example:  playhead watch --token-file token.txt --user ana
    """
    import json
    import time

    import httpx

    token, last_id, retry_s = token_file.read().strip(), since, 1.0
    while True:
        headers = {"Authorization": f"Bearer {token}"} | ({"Last-Event-ID": last_id} if last_id else {})
        try:
            # Something comes every 15 s at least; when nothing does, the connection is dead.
            with httpx.stream(
                "GET", f"{url}/v1/changes", params={"user": user} if user else {}, headers=headers, timeout=40
            ) as stream:
                if stream.status_code in (401, 403, 404, 422):
                    typer.echo(f"refused: {stream.status_code}", err=True)
                    raise typer.Exit(1)
                kind = ""
                for line in stream.iter_lines():
                    name, _, value = line.partition(": ")
                    if name == "id":
                        last_id = value
                    elif name == "retry":
                        retry_s = int(value) / 1000
                    elif name == "event":
                        kind = value
                    elif name == "data":
                        said = json.loads(value) | {"event": kind, "id": last_id}
                        text = (
                            json.dumps(said) if as_json else " ".join(f"{k}={v}" for k, v in said.items() if k != "id")
                        )
                        typer.echo(text)
        except httpx.HTTPError as exc:
            typer.echo(f"waiting: {type(exc).__name__}", err=True)
        time.sleep(retry_s)
