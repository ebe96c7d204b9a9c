"""A worker put together from settings. Nothing connects before it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from streams.effects.forward.sessions import Sessions
from streams.effects.kinds import Kind, cache, forward, metadata, reconcile, scan
from streams.effects.known import KnownFiles
from streams.effects.letters import Letters
from streams.effects.observing import ObservedSink
from streams.effects.requesting import Requests
from streams.effects.scan.ports import Source
from streams.effects.scheduling import ScheduledScans
from streams.effects.sources import source_of
from streams.effects.tasks import Chore, Worker
from streams.effects.watching import Watches
from streams.runtime.blocking import BlockingDatabase
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.contract import Contract
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.forwarding import Forwarding
from streams.runtime.leases import TTL_S, Tasks
from streams.runtime.schedules import Schedules
from streams.runtime.settings import Settings
from streams.runtime.trees import scannable
from streams.runtime.upstreams import upstream_entry

KINDS: Final = (scan.NAME, metadata.NAME, forward.NAME, cache.NAME, reconcile.NAME)
"""What this build can do. Tasks of other kinds wait until one that can."""


@contextmanager
def make_worker(
    settings: Settings,
    contract: Contract,
    *,
    kinds: Sequence[str] = KINDS,
    scans_at_once: int = scan.AT_ONCE,
    watching: bool = True,
    scheduling: bool = True,
    warm: cache.Warm | None = None,
    compare: reconcile.Compare | None = None,
    ttl_s: float = TTL_S,
    clock: Clock | None = None,
    failpoint: Failpoint = disarmed,
) -> Iterator[Worker]:
    """Usable as long as it is entered. ``compare`` None: tasks of kind reconcile wait for a worker that can.

    Raises ConfigurationError when a secret is not set.
    """
    clock = clock or SystemClock()
    conninfo = settings.postgres.conninfo("worker")
    # For each scan: its checks, its renewals and what it says of its progress; a few for the rest.
    connections_max = 2 * scans_at_once + 4 + forward.AT_ONCE
    with BlockingDatabase(conninfo, connections_max=connections_max) as database, Sessions(clock) as sessions:
        tasks = Tasks(database, ttl_s=ttl_s)
        schedules = Schedules(database)

        def requests() -> Requests:
            return Requests(settings.kafka, contract, clock)

        def source(source_id: str) -> Source:
            return source_of(database.run(lambda connection: scannable(connection, source_id)), clock)

        scans = scan.Scans(
            source=source,
            known=lambda: KnownFiles(conninfo),
            sink=lambda source_id: ObservedSink(settings.kafka, contract, source_id, failpoint),
            requests=requests,
            schedules=schedules,
            clock=clock,
        )
        forwards = forward.Forwards(
            rows=Forwarding(database),
            sessions=sessions,
            entry=lambda source_id: database.run(lambda connection: upstream_entry(connection, source_id)),
            failpoint=failpoint,
        )
        made: dict[str, Kind] = {
            scan.NAME: scan.scan_kind(scans, at_once=scans_at_once),
            metadata.NAME: metadata.metadata_kind(requests),
            forward.NAME: forward.forward_kind(forwards),
            cache.NAME: cache.cache_kind(warm, failpoint),
        }
        if compare is not None:
            made[reconcile.NAME] = reconcile.reconcile_kind(compare)
        chores: list[Chore] = []
        if scheduling:
            able = compare is not None and reconcile.NAME in kinds
            chores.append(ScheduledScans(schedules, tasks, requests(), comparing=able, failpoint=failpoint))
        if watching:
            chores.append(Watches(database, tasks, requests()))
        yield Worker(
            tasks,
            [made[name] for name in kinds if name in made],
            Letters(settings.kafka, contract, clock),
            chores=chores,
            failpoint=failpoint,
        )
