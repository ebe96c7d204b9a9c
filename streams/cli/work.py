"""``playhead work``: what is wanted of the outside world is done, under leases."""

from __future__ import annotations

import typer


def work(
    kinds: str = typer.Option(
        "scan,metadata,forward,cache,reconcile", help="Kinds of tasks to do, with commas between."
    ),
    scans: int = typer.Option(2, min=1, max=32, help="Scans at once in this process, each of another source."),
    watch: bool = typer.Option(True, help="Watch the file trees for which that was asked."),
    schedule: bool = typer.Option(True, help="Ask for the scans that are due by schedule."),
) -> None:
    """Do tasks until SIGTERM or Ctrl-C: scan sources, read details again, tell servers of progress made elsewhere; keep
    heavy lists in the cache; compare what should be the same; ask for scans by schedule and on changes.

    Start as many as you like, on every machine that sees the files: a task is done by one at a time, under a lease of
    30 s by PostgreSQL's clock. What fails in passing is tried again, 2 s to 5 min later, 8 times; then it is a dead
    letter. A server that is to be told of progress is waited for, for days. A scan that broke off is repeated; what
    did not change costs one look each. Stopping gives back what is under way, for another to repeat. It gives way to
    everything else on its machine (nice 19).

    Tasks of kind reconcile are for workers that know the owner's password (PLAYHEAD_POSTGRES__OWNER_PASSWORD).

    Examples:  playhead work  ·  playhead work --kinds scan --scans 4 --no-watch  ·  playhead work --kinds metadata
    """
    from projections.api.caching_library import warm
    from projections.entry import PROJECTIONS
    from projections.reconcile.scheduled import comparing
    from streams.cli import role
    from streams.cli.stopping import until_signal
    from streams.effects.wiring import KINDS, make_worker
    from streams.runtime import failpoints
    from streams.runtime.cache import url_of
    from streams.runtime.contract import Contract

    wanted = [name.strip() for name in kinds.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in KINDS]
    if unknown or not wanted:
        raise typer.BadParameter(f"the kinds are {', '.join(KINDS)}", param_hint="--kinds")
    role.give_way()
    settings = role.begin("work")
    url = url_of(settings)
    contract, failpoint = Contract.of(settings), failpoints.armed(settings.failpoints)
    # Rows are compared in a schema of their own, which is the owner's to make.
    owner = settings.postgres.owner_password is not None
    compare = comparing(settings, contract, PROJECTIONS, failpoint) if owner else None
    with (
        until_signal() as stop,
        make_worker(
            settings,
            contract,
            kinds=wanted,
            scans_at_once=scans,
            watching=watch,
            scheduling=schedule,
            warm=None if url is None else lambda collection: warm(settings, url, collection),
            compare=compare,
            failpoint=failpoint,
        ) as worker,
    ):
        worker.run(stop)
