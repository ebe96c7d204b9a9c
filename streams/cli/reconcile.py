"""``playhead reconcile``: the log, the rows, the caches and the servers held against each other; and mended."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streams.cli.bars import bar
from streams.cli.output import Json, emit_json, emit_table

if TYPE_CHECKING:
    from projections.reconcile.running import Outcome, Shown


def reconcile(
    only: Annotated[
        str, typer.Option("--only", help="Of rows, orphans, aliases, library, progress, cache; with commas between.")
    ] = "",
    source: Annotated[str | None, typer.Option("--source", help="Libraries and progress of this source alone.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Put what mends the drift into the log.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --repair: say what would be done.")] = False,
    as_json: Json = False,
) -> None:
    """Compare live rows with a fresh fold of the log, libraries with their sources, playback with what servers say,
    what the cache answers with the rows, and look for what stands alone. Each difference is told by its cause.

    With --repair everything that mends it goes into the log: scans, reports (the rules decide), commands,
    invalidations; read models that differ are made anew from their log and switched to. What a server or the log has
    to do takes its time: run it again later, and it finds nothing.

    What can't be compared now (a server is away, a rebuild at work) is named, with the reason. Exit code 1 when drift
    was found and not repaired, 69 when nothing could be compared.

    Examples:  playhead reconcile  ·  playhead reconcile --only rows,cache --json  ·  playhead reconcile --repair
    """
    from projections.entry import PROJECTIONS
    from projections.reconcile.findings import Scope
    from projections.reconcile.running import Chosen
    from projections.reconcile.running import reconcile as run
    from streams.cli.stopping import until_signal
    from streams.runtime import logs
    from streams.runtime.contract import Contract
    from streams.runtime.errors import EXIT_DIFFERENCES, EXIT_UNAVAILABLE
    from streams.runtime.failpoints import armed
    from streams.runtime.settings import Settings

    names = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if name not in list(Scope)]
    if unknown:
        raise typer.BadParameter(f"there are: {', '.join(Scope)}", param_hint="--only")
    settings = Settings.load()
    logs.configure("reconcile", level="WARNING")
    scopes = [Scope(name) for name in names] or list(Scope)
    chosen = Chosen(scopes, source, repair and not dry_run)
    with until_signal() as stop, _bar() as shown:
        outcome = run(
            settings,
            Contract.of(settings),
            chosen,
            PROJECTIONS,
            stop=stop,
            shown=shown,
            failpoint=armed(settings.failpoints),
        )
    if as_json:
        emit_json({**outcome.as_json(), **({"would_repair": _planned(outcome)} if repair and dry_run else {})})
    else:
        _tell(outcome, would=repair and dry_run)
    if stop.is_set():
        typer.echo("stopped; what was not compared is not told", err=True)
        raise typer.Exit(130)
    if not outcome.in_order:
        raise typer.Exit(EXIT_DIFFERENCES)
    if not outcome.findings.compared:
        raise typer.Exit(EXIT_UNAVAILABLE)


def _tell(outcome: Outcome, *, would: bool) -> None:
    from projections.reconcile.findings import MEANING

    found = list(outcome.findings.causes())
    if found:
        emit_table(("cause", "count", "means"), [(cause.value, one.count, MEANING[cause]) for cause, one in found])
        emit_table(("cause", "for example"), [(cause.value, what) for cause, one in found for what in one.examples])
    for scope, what, why in outcome.findings.passed_over:
        typer.echo(f"not compared: {scope.value} of {what}: {why}")
    for why, times in sorted(outcome.findings.settled.items()):
        typer.echo(f"{times} differ, and rightly: {why}")
    looked = ", ".join(f"{things} {scope.value}" for scope, things in outcome.findings.looked_at.items())
    typer.echo(f"looked at {looked or 'nothing'} in {outcome.seconds:.1f} s")
    planned = outcome.repaired or (_planned(outcome) if would else {})
    if planned:
        said = ", ".join(f"{times} {kind}" for kind, times in sorted(planned.items()))
        typer.echo(f"{'would put' if would else 'put'} into the log: {said}")
    elif found:
        typer.echo("'playhead reconcile --repair' mends it")
    elif not outcome.findings.compared:
        typer.echo("nothing could be compared: try again later")
    elif outcome.findings.passed_over:
        typer.echo("what was compared agrees")
    elif any(outcome.findings.looked_at.values()):
        typer.echo("all of it agrees")
    else:
        typer.echo("there was nothing to compare")


def _planned(outcome: Outcome) -> dict[str, int]:
    from collections import Counter

    from projections.reconcile.repairs import name_of

    return dict(Counter(name_of(one) for one in outcome.findings.repairs))


@contextlib.contextmanager
def _bar() -> Iterator[Shown]:
    """A line for each thing compared on a terminal's stderr; nothing anywhere else."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with bar(*columns) as table:
        tasks: dict[str, Any] = {}

        def shown(scope: Any, what: str, done: int, total: int | None) -> None:
            name = f"{scope.value} {what}".strip()
            if name not in tasks:
                tasks[name] = table.add_task(name, total=total)
            table.update(tasks[name], completed=done, total=total)

        yield shown
