"""``playhead scan``: a source is listed anew, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from streams.cli.output import Json, emit_json, emit_table

if TYPE_CHECKING:
    from streams.cli.scanning import Outcome
    from streams.runtime.settings import Settings


def scan(
    source_id: str = typer.Argument(help="As shown by 'playhead source list'."),
    dry_run: bool = typer.Option(False, "--dry-run", help="List it here, say what would change, change nothing."),
    confirm: bool = typer.Option(False, "--confirm", help="A held scan tells the truth: apply what it saw."),
    full: bool = typer.Option(False, "--full", help="Read the details of unchanged items as well."),
    cancel: bool = typer.Option(False, "--cancel", help="Stop the scan that runs or waits; it marks nothing missing."),
    wait: bool = typer.Option(True, help="Follow the scan to its end."),
    as_json: Json = False,
) -> None:
    """Ask for a scan of a source, and follow it: a worker ('playhead work') does it.

    A scan that finds too much gone, or another root, is held: nothing is marked missing until a later scan finds it
    again or --confirm says that it is true. Ctrl-C while following leaves the scan alone.

    Exit code 0: finalized (with --no-wait: asked for); with --dry-run: nothing would change. 1: it failed, is held,
    was cancelled or overtaken; with --dry-run: something would change. 69: Kafka or PostgreSQL is away.

    Examples:  playhead scan music  ·  playhead scan music --dry-run  ·  playhead scan music --confirm
    """
    from streams.cli import scanning
    from streams.runtime.settings import Settings

    if sum((dry_run, confirm, cancel)) > 1 or (full and (confirm or cancel)):
        raise typer.BadParameter("--dry-run, --confirm and --cancel exclude each other; --full goes with a scan")
    settings = Settings.load()
    if dry_run:
        _dry_run(settings, source_id, full, as_json)
        return
    with scanning.Desk(settings, source_id) as desk:
        if cancel:
            generation = desk.cancel()
        elif confirm:
            generation = desk.confirm()
        else:
            generation = desk.request(full=full)
        if cancel or not wait:
            said = "cancelled" if cancel else "confirmed" if confirm else "requested"
            if as_json:
                emit_json({"scan": f"{source_id}:{generation}", "status": said})
            else:
                typer.echo(f"scan {source_id}:{generation} {said}")
            return
        _show(desk.follow(generation, quiet=as_json), source_id, as_json)


def _show(outcome: Outcome, source_id: str, as_json: bool) -> None:
    from dataclasses import asdict

    from streams.runtime.errors import EXIT_DIFFERENCES

    if as_json:
        emit_json(asdict(outcome))
    else:
        reason = f": {outcome.reason}" if outcome.reason else ""
        typer.echo(f"scan {outcome.scan} {outcome.status}{reason}")
        if outcome.counts:
            emit_table(tuple(outcome.counts), [tuple(outcome.counts.values())])
        if outcome.skipped:
            passed = ", ".join(f"{count} {reason}" for reason, count in sorted(outcome.skipped.items()))
            typer.echo(f"passed over: {passed}")
        for line in advice(outcome, source_id):
            typer.echo(line)
    if outcome.status != "finalized":
        raise typer.Exit(EXIT_DIFFERENCES)


def advice(outcome: Outcome, source_id: str) -> list[str]:
    """What to do about it, in whole sentences."""
    match outcome.status, outcome.reason:
        case "held", _:
            gone = outcome.counts.get("missing", 0)
            return [
                f"{gone} items would be marked missing; nothing was. Is everything mounted? Then scan again. If they "
                f"are really gone: playhead scan {source_id} --confirm"
            ]
        case "failed", "root_missing":
            return ["The folder is not there, or can't be read, on the machine of the worker. Nothing was changed."]
        case "failed", _:
            return ["Nothing was changed. The log of 'playhead work' says more."]
        case "superseded", _:
            return ["A later scan took its place."]
        case "incomplete", _:
            return ["Not everything was seen, so nothing was marked missing. Scan again."]
        case _:
            return []


def _dry_run(settings: Settings, source_id: str, full: bool, as_json: bool) -> None:
    from streams.cli.dry_run import dry_run
    from streams.cli.output import finish

    found = dry_run(settings, source_id, full=full, quiet=as_json)
    if as_json:
        emit_json(found.as_json())
    else:
        for line in found.lines():
            typer.echo(line)
    finish(found.changes())
