"""``playhead poll``: media servers that push nothing or too little, asked for what is new."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from streams.cli.output import Json, emit_json, emit_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams.ingest.pollers import Result
    from streams.runtime.settings import Settings


def poll(
    source: list[str] = typer.Argument(None, help="Sources to poll; all that are connected when none is named."),
    once: bool = typer.Option(False, "--once", help="Poll each once, say what came of it, and end."),
    sweep: bool = typer.Option(False, "--sweep", help="With --once: read everything, not what is likely to be new."),
    status: bool = typer.Option(False, "--status", help="Show how polling fares, and end."),
    as_json: Json = False,
) -> None:
    """Read what media servers know of people's playing, and report what is new, until SIGTERM or Ctrl-C.

    'playhead source connect' says where a source's server is; what is connected later is found within 30 s. Each is
    read at its interval; one that has a push channel (Jellyfin, Audiobookshelf) also as soon as that has news.
    Polling twice changes nothing. With --once the exit code is 1 when a source could not be read.

    Examples:  playhead poll  ·  playhead poll shelf --once  ·  playhead poll --status --json
    """
    import asyncio

    from streams.cli.output import finish

    if status:
        _status(source or [], as_json)
        return
    if not once:
        from streams.cli import role

        asyncio.run(_run(role.begin("poll"), source or []))
        return
    from streams.runtime.settings import Settings

    results = asyncio.run(_once(Settings.load(), source or [], sweep))
    if as_json:
        emit_json([_as_json(result) for result in results])
    elif results:
        emit_table(
            ("source", "read", "reports", "unusable", "refused", "error"),
            [
                (r.source_id, r.polled.read, r.polled.reports, r.polled.unusable, r.polled.rejected, r.cause or "")
                for r in results
            ],
        )
    else:
        typer.echo("nothing to poll: 'playhead source connect' says where a source's server is")
    finish(result.source_id for result in results if result.cause is not None)


async def _run(settings: Settings, sources: Sequence[str]) -> None:
    import asyncio
    import signal

    from streams.ingest.pollers.wiring import make_polling
    from streams.runtime import failpoints, logs
    from streams.runtime.contract import Contract

    log = logs.get("playhead.poll")
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    def told(result: Result) -> None:
        if result.polled.reports or result.cause is not None:
            log.info("polled", **_as_json(result))

    failpoint = failpoints.armed(settings.failpoints)
    async with make_polling(settings, Contract.of(settings), failpoint=failpoint) as polling:
        await polling.scheduler(told).run(stop, sources)


async def _once(settings: Settings, sources: Sequence[str], sweep: bool) -> list[Result]:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from streams.ingest.pollers.wiring import make_polling
    from streams.runtime import logs
    from streams.runtime.contract import Contract

    logs.configure("poll", level="ERROR")
    results: list[Result] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    async with make_polling(settings, Contract.of(settings)) as polling:
        entries = await polling.upstreams.pollable(sources)
        _all_known(sources, [entry.source_id for entry in entries])
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            for entry in entries:
                task = progress.add_task(entry.source_id, total=None)
                read: dict[str, int] = {}

                def say(name: str, count: int, entry_id: str = entry.source_id) -> None:
                    read[name] = read.get(name, 0) + count  # noqa: B023 - called within this turn only
                    lists = ", ".join(f"{one} {number}" for one, number in read.items())  # noqa: B023
                    progress.update(task, description=f"{entry_id}: {lists}")  # noqa: B023

                async with polling.source(entry) as one:
                    results.append(await one.poll(sweep=True if sweep else None, say=say))
                progress.remove_task(task)
    return results


def _all_known(named: Sequence[str], known: Sequence[str]) -> None:
    from streams.runtime.errors import Permanent

    missing = [one for one in named if one not in known]
    if missing:
        raise Permanent(
            f"not connected: {', '.join(missing)}; 'playhead source connect' says where a source's server is",
            cause="bad_source",
        )


def _status(sources: Sequence[str], as_json: bool) -> None:
    from dataclasses import asdict

    from streams.cli.admin import door_connection
    from streams.runtime.polls import list_health
    from streams.runtime.settings import Settings

    with door_connection(Settings.load()) as connection:
        found = [health for health in list_health(connection) if not sources or health.source_id in sources]
    if as_json:
        emit_json([asdict(health) for health in found])
        return
    shown = ("source_id", "succeeded_at", "cause", "failures", "next_at", "swept_at", "channel")
    emit_table(shown, [tuple(asdict(health)[name] or "" for name in shown) for health in found])


def _as_json(result: Result) -> dict[str, object]:
    return {
        "source": result.source_id,
        "read": result.polled.read,
        "reports": result.polled.reports,
        "unusable": result.polled.unusable,
        "refused": result.polled.rejected,
        "error": result.cause,
        "next_in_s": round(result.next_in_s, 1),
    }
