"""Media servers of one household around a Playhead without Kafka: the log is a list, everything else is real.

    fake servers ◄── polled ── door (with the real ledger) ─► reports ─► rules ─► decisions ─► ForwardingProjection
         ▲                                                                                          │ PostgreSQL
         └────────────────────────────── the worker, kind forward ◄─────────────────────────────────┘

Time is the fake clock's: ``pass_time`` moves it, and the database's rows of time with it.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
from fastapi import FastAPI

from projections.backup.archive import verified
from projections.backup.copying import write
from projections.backup.restoring import restore
from projections.base import Record
from projections.dlq.redrive import _REVIVE
from projections.dlq.ways import Revive, way_of
from projections.models.forwarding import ForwardingProjection
from schemas.events import PlaybackDecided, PlaybackReported, SourcePosition
from schemas.ids import SchemaIds
from schemas.placement import partition_of
from streams.agents.playback import as_decided, as_report
from streams.domain.identity import media_id
from streams.domain.playback import decide
from streams.domain.state import State
from streams.effects.forward.sessions import Sessions
from streams.effects.kinds.forward import Forwards, forward_kind
from streams.effects.letters import _of
from streams.effects.tasks import Worker
from streams.ingest.pollers import Source
from streams.runtime.blocking import BlockingDatabase
from streams.runtime.contract import Contract
from streams.runtime.database import Database
from streams.runtime.echoes import PostgresLedger
from streams.runtime.errors import Unavailable
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.forwarding import Forwarding
from streams.runtime.leases import Task, Tasks
from streams.runtime.people import Person
from streams.runtime.settings import Settings
from streams.runtime.tokens import Principal, Scope, create_source
from streams.runtime.upstreams import POLLABLE, Account, connect_upstream, set_forwarding, upstream_entry
from streams.upstream.http import Limits
from tests.ingest.fakes import HASH_KEY, World
from tests.ingest.pollers.lab import QUICK, FakePolls
from tests.ingest.pollers.servers.faulty import Faulty
from tests.integration.library_servers.served import Web
from tests.integration.projections.world import eventually

PERSON = "a" * 32
REPORTS = "cmVwb3J0ZWQtdG9waWMtaWQ"
TELLING = Limits(timeout_s=1.0, attempts=1, rest_s=15.0)
_CONNECTED = """
SELECT usename FROM pg_stat_activity
WHERE datname = current_database() AND usename LIKE 'playhead%' AND usename <> 'playhead_owner'"""


@dataclass
class Home:
    """One server. ``user``: the person's account on it."""

    source_id: str
    kind: str
    fake: Any
    faulty: Faulty
    web: Web | None
    user: str


@dataclass
class Letters:
    """dead.letters; ``away`` as Kafka is."""

    written: list[tuple[Task, Exception]] = field(default_factory=list)
    away: bool = False

    def write(self, task: Task, error: Exception) -> None:
        if self.away:
            raise Unavailable("away")
        self.written.append((task, error))


class Household:
    def __init__(self, settings: Settings, superuser: str) -> None:
        self.settings = settings
        self.superuser = superuser
        self.world = World()
        self.clock = self.world.clock
        self.homes: dict[str, Home] = {}
        self.states: dict[tuple[str, str], State] = {}
        self.decisions: list[Record[Any]] = []
        self.letters = Letters()
        self.gives_up = False
        self._read = 0
        self._polls: dict[str, FakePolls] = {}

    # -- setting up

    def add(self, source_id: str, kind: str, fake: Any, user: str, account: Account, *, forward: bool = True) -> Home:
        faulty = Faulty(fake.app)
        web = Web(faulty)
        home = Home(source_id, kind, fake, faulty, web, user)
        with psycopg.connect(**self.settings.postgres.conninfo("door")) as connection:
            create_source(connection, source_id, kind, source_id)
            connect_upstream(connection, source_id, web.url, account, interval_s=30, verify_tls=True)
            set_forwarding(connection, source_id, forward)
        # From the first time of the fake clock on.
        self.query("UPDATE core.source_upstreams SET forward_since = to_timestamp(0) WHERE forward_since IS NOT NULL")
        self.is_person(home, user)
        self.homes[source_id] = home
        self._polls[source_id] = FakePolls()
        return home

    def quiet(self, source_id: str) -> Home:
        """A source without a server: the person's own client speaks for it."""
        with psycopg.connect(**self.settings.postgres.conninfo("door")) as connection:
            create_source(connection, source_id, "native", source_id)
        home = Home(source_id, "native", None, Faulty(FastAPI()), None, "ana")
        self.is_person(home, "ana")
        return home

    def is_person(self, home: Home, user: str, person: str = PERSON) -> None:
        """The account is the person's."""
        self.query(
            "INSERT INTO core.users (source_id, upstream_user, user_ref, published) VALUES (%s, %s, %s, true)",
            home.source_id,
            user,
            person,
        )
        self.world.people.sources.add(home.source_id)
        self.world.people.rows[home.source_id, user] = Person(person, True)

    def item(
        self,
        home: Home,
        upstream: str,
        duration_ms: int,
        providers: dict[str, str],
        media_kind: str = "video",
        item_kind: str = "movie",
        **more: Any,
    ) -> str:
        """The library has it; its media_id."""
        its_id = media_id(home.source_id, upstream)
        values = {
            "media_id": its_id,
            "source_id": home.source_id,
            "status": "present",
            "readable": True,
            "upstream_id": upstream,
            "media_kind": media_kind,
            "item_kind": item_kind,
            "title": upstream,
            "duration_ms": duration_ms,
            "artists": ["Somebody"],
            "provider_ids": json.dumps(sorted(map(list, providers.items()))),
            "first_seen_at": 0,
            "changed_at": 0,
            "correlation_id": "c",
            "partition": 0,
            "log_epoch": 1,
            "version": 0,
            **more,
        }
        names = ", ".join(values)
        self.query(
            f"INSERT INTO model.media_items ({names}) VALUES ({', '.join(['%s'] * len(values))})", *values.values()
        )
        return its_id

    def close(self) -> None:
        for home in self.homes.values():
            if home.web is not None:
                home.web.down()

    # -- what happens

    def poll(self, home: Home, *, sweep: bool = True) -> list[PlaybackReported]:
        """Read the server, and decide what it says; the reports that came of it."""
        before = len(self.world.reported())

        async def read() -> None:
            async with Database(self.settings.postgres.conninfo("door")) as database:
                self.world.ledger = PostgresLedger(database)  # type: ignore[assignment]
                with psycopg.connect(**self.settings.postgres.conninfo("door")) as connection:
                    entry = upstream_entry(connection, home.source_id)
                assert entry is not None
                door, polls = self.world.another_door(), self._polls[home.source_id]
                async with Source(entry, door, polls, HASH_KEY, self.clock, limits=QUICK, chance=max) as source:
                    await source.poll(sweep=sweep)

        asyncio.run(read())
        self.fold()
        return self.world.reported()[before:]

    def report(self, home: Home, upstream: str, kind: str, position_ms: int | None = None, **more: Any) -> None:
        """The person's client says it, through a door that never heard of the server's own word."""
        from streams.ingest.hooks import ParsedReport

        report = ParsedReport(
            kind=kind,  # type: ignore[arg-type]
            origin="client",
            upstream_user=home.user,
            upstream_media=upstream,
            position_ms=position_ms,
            occurred_at=self.clock.now_ms(),
            **more,
        )
        principal = Principal("t", home.source_id, frozenset({Scope.REPORT}))

        async def take() -> None:
            self.world.ledger = None  # type: ignore[assignment]
            await self.world.another_door().take(principal, [report], format="native", correlation_id="c-1")

        asyncio.run(take())
        self.fold()

    def fold(self) -> None:
        """Decide what is new in the log of reports, and project it, unless the projection gives up what is new."""
        records = []
        reports = self.world.reported()
        for number, event in enumerate(reports[self._read :], self._read):
            key = (event.user_ref, event.media_id)
            decision = decide(self.states.get(key), as_report(event, event.received_at))
            if decision.state is None:
                continue
            self.states[key] = decision.state
            place = partition_of(event.user_ref.encode())
            cause = SourcePosition(REPORTS, place, number, 0)
            decided = as_decided(event, decision, decision.state, cause, event.received_at)
            records.append(Record(decided, place, number, 1, event.received_at, b""))
        self._read = len(reports)
        self.decisions += records
        if not self.gives_up:
            self.project(records)

    def project(self, records: list[Record[Any]]) -> None:
        if records:
            with psycopg.connect(**self.settings.postgres.conninfo("projector"), autocommit=True) as connection:
                projection = ForwardingProjection()
                with connection.transaction():
                    projection.fold(records, connection)

    def project_late(self, record: Record[Any]) -> None:
        """What the projection had given up."""
        with psycopg.connect(**self.settings.postgres.conninfo("projector")) as connection:
            ForwardingProjection().fold_late(record, connection)

    @contextmanager
    def worker(self, *, failpoint: Failpoint = disarmed) -> Iterator[threading.Thread]:
        """A worker in a thread; what ended it is raised at the end."""
        stop = threading.Event()
        errors: list[BaseException] = []
        conninfo = self.settings.postgres.conninfo("worker")
        with (
            BlockingDatabase(conninfo, connections_max=16) as database,
            Sessions(self.clock, limits=TELLING, per_s=0) as sessions,
        ):
            forwards = Forwards(
                rows=Forwarding(database),
                sessions=sessions,
                entry=lambda source_id: database.run(lambda connection: upstream_entry(connection, source_id)),
                failpoint=failpoint,
            )
            tasks = Tasks(database)
            worker = Worker(tasks, [forward_kind(forwards)], self.letters, chance=max, failpoint=failpoint, poll_s=0.01)

            def run() -> None:
                try:
                    worker.run(stop)
                except BaseException as exc:
                    errors.append(exc)

            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            try:
                yield thread
            finally:
                stop.set()
                thread.join(30)
        if errors:
            raise errors[0]

    def work(self) -> None:
        """Until nothing is due."""
        with self.worker():
            eventually(lambda: not self.due(), "everything that is due was tried")

    def due(self) -> int:
        [(found,)] = self.query(
            "SELECT count(*) FROM core.tasks WHERE kind = 'forward' AND dead_at IS NULL"
            " AND wanted_version > greatest(done_version, cancelled_version) AND next_attempt_at <= now()"
            " OR lease_token IS NOT NULL"
        )
        return int(found)

    def pass_time(self, seconds: float) -> None:
        """Here and in the database."""
        self.clock.advance(int(seconds * 1000))
        span = {"s": seconds}
        with psycopg.connect(self.superuser, autocommit=True) as connection:
            connection.execute(
                "UPDATE core.tasks SET next_attempt_at = next_attempt_at - make_interval(secs => %(s)s),"
                " requested_at = requested_at - make_interval(secs => %(s)s),"
                " finished_at = finished_at - make_interval(secs => %(s)s)",
                span,
            )
            connection.execute(
                "UPDATE core.forward_sent SET expires_at = expires_at - make_interval(secs => %(s)s)", span
            )

    def go_round(self, times: int = 4, *, sweep: bool = True) -> int:
        """Poll everybody and tell everybody, over and over; how many writes that was."""
        before = sum(home.faulty.write_count for home in self.homes.values())
        for _ in range(times):
            for home in self.homes.values():
                if home.kind in POLLABLE:
                    self.poll(home, sweep=sweep)
            self.work()
            self.pass_time(30)
        return sum(home.faulty.write_count for home in self.homes.values()) - before

    def back_up(self, file: Path) -> None:
        with psycopg.connect(**self.settings.postgres.conninfo("owner")) as connection:
            write(connection, file, "key")

    def restore(self, file: Path) -> None:
        """Core is the backup's again; this is now, by the fake clock too."""
        eventually(lambda: not self.query(_CONNECTED), "all roles have stopped")
        with verified(file) as reader, psycopg.connect(**self.settings.postgres.conninfo("owner")) as connection:
            restore(connection, reader, {}, {}, lambda source_id, upstream_user: True, replace=True)
        moved = (
            "UPDATE model.epoch SET restored_at = to_timestamp(%s / 1000.0) WHERE restored_at IS NOT NULL RETURNING 1"
        )
        assert self.query(moved, self.clock.now_ms()) == [(1,)]

    def redrive(self, task: Task) -> int:
        """As 'playhead dlq redrive' does with the task's letter; how many tasks are due again by it."""
        topic, _, key, consumer = _of(task)
        letter: Any = SimpleNamespace(consumer=consumer, topic=topic.name, source_id=task.source_id)
        original: Any = SimpleNamespace(key=key)
        way = way_of(letter, original, Contract(SchemaIds(), registry=None), self.clock)
        assert isinstance(way, Revive)
        named = {"kind": way.kind, "key": way.key, "source_id": task.source_id, "version": task.version}
        with psycopg.connect(**self.settings.postgres.conninfo("projector")) as connection:
            return connection.execute(_REVIVE, named).rowcount

    # -- what is asked

    def query(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.superuser, autocommit=True) as connection:
            cursor = connection.execute(query.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def tasks(self) -> dict[str, dict[str, Any]]:
        rows = self.query("SELECT source_id, to_jsonb(t) FROM core.tasks t WHERE kind = 'forward'")
        return dict(rows)

    def wanted(self, source_id: str) -> dict[str, Any]:
        [(row,)] = self.query("SELECT to_jsonb(w) FROM core.forward_wanted w WHERE source_id = %s", source_id)
        found: dict[str, Any] = row
        return found

    def decided(self) -> list[PlaybackDecided]:
        return [record.event for record in self.decisions]
