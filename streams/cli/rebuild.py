"""``playhead rebuild``: a read model made anew beside the live one, compared, and put in its place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streams.cli.bars import bar
from streams.cli.output import Json, emit_json, emit_lines, emit_table
from streams.cli.stopping import until_signal

if TYPE_CHECKING:
    from projections.digest import Compared
    from projections.rebuild.running import Progress
    from projections.rebuild.switching import Switched

SWITCH_TRIES = 5


def rebuild(
    what: Annotated[str, typer.Argument(metavar="PROJECTION|rollback|discard", help="Which read model; or see below.")],
    start: Annotated[str, typer.Option("--from", help="An offset or a time instead of the log's first record.")] = "0",
    compare_only: Annotated[bool, typer.Option("--compare-only", help="Compare, and keep nothing.")] = False,
    switch: Annotated[bool, typer.Option("--switch", help="Put it in the place of the live one.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a switch that changes what is shown.")] = False,
    as_json: Json = False,
) -> None:
    """Fold a projection's log into tables beside the live ones and compare the two at one moment.

    Nothing outside notices: no effects, no invalidations, and the live projection goes on. A rebuild that ended in any
    way goes on where it was. With --switch the rebuilt tables take the place of the live ones in one transaction, under
    a higher model epoch; 'playhead rebuild rollback' brings the former ones back, up to date, and 'playhead rebuild
    discard' drops those as well as a rebuild that is not wanted any more and what 'playhead reconcile' left. --from
    takes older rows over from the live model as they are.

    Exit code 1 when the models differ and nothing was switched.

    Examples:  playhead rebuild playback  ·  playhead rebuild playback --from 2026-11-01 --switch  ·  playhead rebuild
    rollback --json
    """
    from projections.entry import PROJECTIONS
    from projections.rebuild import starts, tables
    from projections.rebuild.entry import discard, rebuilding, rolling_back
    from streams.runtime import logs
    from streams.runtime.contract import Contract
    from streams.runtime.errors import EXIT_DIFFERENCES
    from streams.runtime.failpoints import armed
    from streams.runtime.settings import Settings

    rebuildable = [name for name, kind in PROJECTIONS.items() if kind.tables]
    if what not in (*rebuildable, "rollback", "discard"):
        raise typer.BadParameter(f"there are: {', '.join(rebuildable)}; rollback; discard", param_hint="PROJECTION")
    if compare_only and switch:
        raise typer.BadParameter("either compare only or switch", param_hint="--compare-only")
    settings = Settings.load()
    logs.configure("rebuild", level="WARNING")
    if what == "discard":
        dropped = [schema for schema in tables.COPIES if discard(settings, schema)]
        if as_json:
            emit_json({"dropped": dropped})
        else:
            emit_lines([f"{schema}: dropped" for schema in dropped], when_none="there was nothing to drop")
        return
    contract, failpoint = Contract.of(settings), armed(settings.failpoints)
    with until_signal() as stop:
        if what == "rollback":
            opened = rolling_back(settings, contract, {n: PROJECTIONS[n] for n in rebuildable}, failpoint, stop)
        else:
            opened = rebuilding(PROJECTIONS[what](), settings, contract, starts.start_of(start), failpoint, stop)
        with opened as run:
            with _bar() as told:
                caught_up = run.catch_up(told)
            if not caught_up:
                typer.echo("stopped; the same command goes on from here", err=True)
                raise typer.Exit(130)
            compared = run.compare()
            differ = any(not one.equal for one in compared)
            done: Switched | None = None
            if switch or what == "rollback":
                if differ and not yes:
                    _tell(compared)
                    typer.confirm("Switch to the rebuilt model?", abort=True, err=True)
                done = run.switch(SWITCH_TRIES)
            if compare_only:
                run.drop()
    if as_json:
        emit_json(
            {
                "projection": run.projection,
                "records": run.records,
                "rate": round(run.rate),
                "poison": run.poison,
                "equal": not differ,
                "tables": [_document(one) for one in compared],
                "switched": done and {"model_epoch": done.model_epoch, "held_ms": done.held_ms},
            }
        )
    else:
        _tell(compared)
        typer.echo(f"{run.records} records folded, {run.rate:,.0f} a second; {run.poison} could not be applied")
        if done is not None:
            typer.echo(f"switched: model epoch {done.model_epoch}; writers were held for {done.held_ms} ms")
        elif not differ:
            typer.echo(
                "both models are equal" + ("" if compare_only else "; 'playhead rebuild discard' drops this one")
            )
        elif not compare_only:
            typer.echo(
                f"the models differ: 'playhead rebuild {what} --from {start} --switch' puts the rebuilt one in place"
            )
    if differ and done is None:
        raise typer.Exit(EXIT_DIFFERENCES)


def _tell(compared: list[Compared]) -> None:
    emit_table(
        ("table", "live rows", "rebuilt rows", "differing"),
        [(one.table, one.first.rows, one.second.rows, one.differing) for one in compared],
    )
    shown = [(d.table, d.how, d.key, d.values) for one in compared for d in one.shown]
    if shown:
        emit_table(
            ("table", "in the live model", "key", "live → rebuilt"),
            [(table, _MEANS[how], _key(key), _values(values)) for table, how, key, values in shown],
        )


_MEANS = {"missing": "too much", "extra": "missing", "differs": "differs"}


def _key(key: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in key.items())


def _values(values: Any) -> str:
    return ", ".join(f"{name}: {live} → {rebuilt}" for name, (live, rebuilt) in values.items())


def _document(one: Compared) -> dict[str, Any]:
    return {
        "table": one.table,
        "live": {"rows": one.first.rows, "digest": f"{one.first.total % 2**64:016x}"},
        "rebuilt": {"rows": one.second.rows, "digest": f"{one.second.total % 2**64:016x}"},
        "ranges_differing": one.ranges,
        "rows_differing": one.differing,
        "examples": [
            {
                "key": d.key,
                "live": _MEANS[d.how],
                "columns": {n: {"live": a, "rebuilt": b} for n, (a, b) in d.values.items()},
            }
            for d in one.shown
        ],
    }


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[Progress], None]]:
    """A progress bar on a terminal's stderr; nothing anywhere else."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]:,.0f}/s"), TimeRemainingColumn())
    with bar(*columns) as shown:
        task = shown.add_task("", total=None, rate=0.0)
        yield lambda now: shown.update(task, total=now.total, completed=now.done, rate=now.rate)
