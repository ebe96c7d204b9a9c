"""``playhead agents``: the Faust agents of this process, and a look into their tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from streams.cli.output import Json, emit_json, emit_table, finish

if TYPE_CHECKING:
    from streams.agents.agent import AgentTable
    from streams.agents.looking import Copy

RUN = "run"
ROWS_SHOWN = 100


class RunUnlessTold(TyperGroup):
    """``agents [NAME…]`` is ``agents run [NAME…]``: what names no sub-command is for ``run``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in {"--help", "-h"}):
            args = [RUN, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=RunUnlessTold,
    add_completion=False,
    help="Run the Faust agents (`playhead agents` alone is `playhead agents run`), look into their tables, "
    "or repair what broker crashes left.",
)


@app.command(
    name=RUN,
    epilog="Examples:  playhead agents  ·  playhead agents --worker 2  ·  playhead agents run playback  ·  "
    "playhead agents run playback --trust-group-offsets",
)
def run(
    names: list[str] = typer.Argument(None, metavar="NAME", help="Agents of this process; all by default."),
    worker: str = typer.Option("1", help="Names this worker's local state; two workers on one machine need two names."),
    through_flood: bool = typer.Option(
        False,
        "--through-flood",
        help="A flood of dead letters was looked at: write them, however many. Not for every day.",
    ),
    trust_group_offsets: bool = typer.Option(
        False,
        "--trust-group-offsets",
        help="Start where the group's offsets say, though the changelog does not confirm them, and record that. Once, "
        "after you have checked the refusal that names trust_group_offsets and, if you want another, have set the "
        "offset: outputs may repeat, or state may miss records.",
    ),
) -> None:
    """Run agents until SIGTERM or Ctrl-C: reports in, decisions out, exactly once.

    Start as many as there are processors, on any number of machines, up to the number of partitions (12). Each
    agent has its own group, transactions and state, so agents may run together or apart. Apart, the library agent
    gives way to everything else on its machine (nice 19): reports do not wait for a scan.
    """
    from streams.agents import app as agents
    from streams.cli import role

    if all(agent.bulk for agent in agents.chosen(names or [])):
        role.give_way()
    agents.run(
        role.begin("agents"), names or [], worker, through_flood=through_flood, trust_group_offsets=trust_group_offsets
    )


@app.command(
    epilog="Examples:  playhead agents table  ·  playhead agents table progress USER_REF:MEDIA_ID --from-changelog  ·  "
    "playhead agents table progress --prefix USER_REF: --json"
)
def table(
    name: str | None = typer.Argument(None, help="The table, or agent/table; left out: the tables there are."),
    key: str | None = typer.Argument(None, help="One row; exit code 1 when there is none."),
    prefix: str = typer.Option("", help="Only rows whose key starts with it."),
    partition: int | None = typer.Option(None, min=0, help="Only this partition."),
    worker: str | None = typer.Option(None, help="Only this worker's copies; by default the furthest there is."),
    from_changelog: bool = typer.Option(
        False, "--from-changelog", help="What is committed, read from Kafka: slower, and never behind a worker."
    ),
    limit: int = typer.Option(ROWS_SHOWN, min=1, help="Rows to show at most."),
    as_json: Json = False,
) -> None:
    """Look into an agent's table, while it works or not, without disturbing it.

    Local state of this machine is read as it is; a worker at work may be ahead of its copy. What has no local
    copy here is read from the changelog. The answer says how far it goes.
    """
    if name is None:
        _list_tables(as_json)
        return
    from itertools import islice

    from streams.agents import looking
    from streams.runtime.errors import EXIT_DIFFERENCES, ConfigurationError
    from streams.runtime.settings import Settings

    if from_changelog and worker is not None:
        raise ConfigurationError("--worker is about local copies; --from-changelog reads none")
    agent, kind = looking.table_named(name)
    settings = Settings.load()
    wanted = None if key is None else key.encode()
    if partition is not None:
        partitions = [partition]
    elif wanted is not None:
        partitions = [looking.home_of(kind, wanted)]
    else:
        partitions = list(looking.every_partition())
    rows: list[dict[str, Any]] = []
    reaches: list[dict[str, Any]] = []
    more = False
    with looking.copies(
        settings, agent, kind, partitions,
        worker=worker, committed=from_changelog, key=wanted, prefix=prefix.encode(),
    ) as copies:  # fmt: skip
        for copy in copies:
            reaches.append(_reach(copy))
            if wanted is not None:
                value = copy.look.get(wanted)
                found = [] if value is None else [(wanted, value)]
            else:
                found = list(islice(copy.look.scan(prefix.encode()), limit - len(rows) + 1))
            rows += [_row(kind, copy.look.reach.partition, *item) for item in found]
            if len(rows) > limit:
                more = bool(rows := rows[:limit])
                break
    if as_json:
        emit_json({"table": f"{agent.name}/{kind.name}", "rows": rows, "more": more, "current_to": reaches})
    else:
        _show(rows, reaches, one=wanted is not None)
        if more:
            typer.echo(f"more rows than {limit}: narrow it down with --prefix or --partition, or raise --limit")
    if wanted is not None and not rows:
        raise typer.Exit(EXIT_DIFFERENCES)


@app.command(
    epilog="Examples:  playhead agents repair  ·  playhead agents repair --settle  ·  "
    "playhead agents repair playback --json"
)
def repair(
    names: list[str] = typer.Argument(None, metavar="NAME", help="Agents to look at; all by default."),
    settle: bool = typer.Option(False, "--settle", help="Commit and abort what hangs. Without it nothing is changed."),
    as_json: Json = False,
) -> None:
    """Find transactions that nobody will decide any more, and settle them with --settle.

    Broker crashes can leave them; agents then refuse to start, and readers stand still before them. Looked at are
    an agent's outputs, dead letters and changelogs and its group's offsets. What belongs to a transaction that is
    committed elsewhere is committed, the rest is aborted and its records are read again; each line says why.
    Stop the agents first: with --settle it is refused (exit code 78) while any is at work. Exit code 1 when
    something hangs and was not settled.
    """
    from streams.agents.mending import repair as look
    from streams.runtime.settings import Settings

    found = look(Settings.load(), names or [], settle=settle)
    if as_json:
        emit_json({"settled": settle, "agents": {name: report.as_json() for name, report in found.items()}})
    else:
        for name, report in found.items():
            for line in report.lines(settled=settle):
                typer.echo(f"{name}: {line}")
    finish([item for report in found.values() for item in (report.left if settle else report.hanging)])


def _list_tables(as_json: bool) -> None:
    from streams.agents import looking
    from streams.agents.app import AGENTS
    from streams.runtime.settings import Settings

    here = looking.workers(Settings.load())
    tables = [
        {"table": f"{agent.name}/{table.name}", "holds": table.holds, "keys": table.key_form}
        for agent in AGENTS.values()
        for table in agent.tables
    ]
    if as_json:
        emit_json({"tables": tables, "workers_here": here})
        return
    emit_table(("table", "holds", "keys"), [tuple(table.values()) for table in tables])
    typer.echo(f"workers with local state here: {', '.join(here) or 'none'}")


def _row(kind: AgentTable, partition: int, key: bytes, value: bytes) -> dict[str, Any]:
    shown = {"partition": partition, "key": key.decode("utf-8", "backslashreplace")}
    try:
        return {**shown, "value": kind.readable(value)}
    except ValueError as error:
        return {**shown, "damaged": str(error)}


def _reach(copy: Copy) -> dict[str, Any]:
    reach = copy.look.reach
    return {
        "partition": reach.partition,
        "from": copy.origin,
        "changelog": reach.changelog,
        "offset": reach.offset,
        "sources": dict(reach.sources),
        "undecided": reach.undecided,
    }


def _show(rows: list[dict[str, Any]], reaches: list[dict[str, Any]], *, one: bool) -> None:
    from streams.runtime.logs import escape

    for reach in reaches:
        sources = (
            ", ".join(f"{topic} up to {offset}" for topic, offset in reach["sources"].items()) or "nothing read yet"
        )
        behind = f"; {reach['undecided']} records behind it are undecided" if reach["undecided"] else ""
        typer.echo(
            f"partition {reach['partition']}, {reach['from']}: current to offset {reach['offset']} of "
            f"{reach['changelog']} ({sources}){behind}"
        )
    if any(reach["from"] != "changelog" for reach in reaches):
        typer.echo("A worker at work may be ahead of its local copy; --from-changelog shows what is committed.")
    if not rows:
        typer.echo("no such row" if one else "no rows")
    elif one:
        found = rows[0]
        typer.echo(
            escape(f"damaged: {found['damaged']}") if "damaged" in found else json.dumps(found["value"], indent=2)
        )
    else:
        for row in rows:  # one line each; JSON is plain ASCII, a key may be anything
            value = json.dumps(row.get("value", {"damaged": row.get("damaged")}))
            typer.echo(f"{row['partition']} {escape(row['key'])} {value}")
