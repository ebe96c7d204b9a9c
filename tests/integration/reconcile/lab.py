"""A household with the same films on two Jellyfins: reports come from the den, the attic is told; and a hand that
reaches behind everybody's back into rows, cache and servers.

Everything is real but the servers. Nobody polls them (their turn is an hour away), and no hook of theirs says anything.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from valkey import Valkey

from projections.entry import PROJECTIONS
from projections.reconcile.findings import Cause, Scope
from projections.reconcile.running import Chosen, Outcome, reconcile
from schemas.topics import LIBRARY_COMMANDS, PLAYBACK_DECIDED, PLAYBACK_REPORTED
from streams.cli.admin import door_connection
from streams.domain.identity import media_id
from streams.runtime.cache import url_of
from streams.runtime.clock import FakeClock, SystemClock
from streams.runtime.tokens import create_source, create_token
from streams.runtime.upstreams import Account, connect_upstream, set_forwarding
from tests.faults.world import end_of
from tests.ingest.pollers.servers.jellyfin import ANA, BEN, TICKS, TOKEN, FakeJellyfin
from tests.integration.library.house import House
from tests.integration.library_servers.served import Web

FILMS = 12
LENGTH_MS = 6_000_000
MINUTE_MS = 60_000
COMMANDS = "SELECT sum(next_offset)::bigint FROM model.offsets WHERE projection = 'tasks'"


def film(number: int) -> str:
    """Its id in the den."""
    return f"{number:032x}"


def same(number: int) -> str:
    """Its id in the attic."""
    return f"{number + 0xA000:032x}"


class Lab:
    def __init__(self, house: House) -> None:
        self.house = house
        self.den = FakeJellyfin(FakeClock(SystemClock().now_ms()), {})
        self.attic = FakeJellyfin(FakeClock(SystemClock().now_ms()), {})
        for number in range(FILMS):
            self.add(self.den, film(number), number)
            self.add(self.attic, same(number), number)
        self._webs = [Web(self.den.app), Web(self.attic.app)]
        with door_connection(house.settings) as connection:
            for source_id, web in zip(("den", "attic"), self._webs, strict=True):
                create_source(connection, source_id, "jellyfin", source_id)
                account = Account("", "api_key", TOKEN)
                connect_upstream(connection, source_id, web.url, account, interval_s=3_600, verify_tls=True)
            set_forwarding(connection, "attic", True)
            token = create_token(connection, "den", ["report", "read"], None, "test")
        self.client = house.client(token)
        house.query("UPDATE core.source_upstreams SET forward_since = to_timestamp(0) WHERE forward_since IS NOT NULL")
        self.house.start_worker()
        self.scan("den", "attic")
        # A file that was renamed: another id of the same film, so that the library has a name to give.
        del self.den.items[film(0)]
        self.add(self.den, film(100), 0)
        self.scan("den")
        self.play(1, 10 * MINUTE_MS)
        person = self.ref()
        house.query(
            "INSERT INTO core.users (source_id, upstream_user, user_ref, published) VALUES ('attic', %s, %s, true)",
            BEN,
            person,
        )
        for number in range(2, 8):
            self.play(number, number * 5 * MINUTE_MS)
        self.settle()

    def close(self) -> None:
        self.client.close()
        for web in self._webs:
            web.down()

    # -- what happens

    @staticmethod
    def add(server: FakeJellyfin, item: str, number: int) -> None:
        server.items[item] = LENGTH_MS + number
        server.providers[item] = {"Imdb": f"tt{number:07}"}

    def scan(self, *sources: str) -> None:
        asked = {}
        for source in sources:
            answer = self.house.operator.post(f"/v1/sources/{source}/scans", json={})
            assert answer.status_code == 202, answer.text
            asked[source] = int(answer.json()["generation"])
        for source, generation in asked.items():
            self.house.wait(lambda s=source, g=generation: self._scanned(s, g), f"{source} is scanned")  # type: ignore[misc]

    def _scanned(self, source: str, generation: int) -> bool:
        query = "SELECT status FROM model.scan_sessions WHERE source_id = %s AND generation = %s"
        return self.house.query(query, source, generation) == [("finalized",)]

    def play(self, number: int, position_ms: int, *, upstream: str | None = None) -> None:
        """The person's client says so to the den; returns when it is decided and in the read models."""
        event_id = uuid.uuid4().hex
        report = {
            "event_id": event_id,
            "user": ANA,
            "media": upstream or film(number),
            "media_kind": "video",
            "kind": "stop",
            "session_id": f"tv {number} {position_ms}",
            "position_ms": position_ms,
            "duration_ms": LENGTH_MS + number,
            "occurred_at": SystemClock().now_ms(),
        }
        answer = self.client.post("/v1/playback", json={"reports": [report]})
        assert answer.status_code == 202, answer.text
        query = "SELECT 1 FROM model.processed_events WHERE event_id = %s"
        self.house.wait(lambda: bool(self.house.query(query, event_id)), "it is projected")

    def read(self, number: int) -> dict[str, Any]:
        answer = self.client.get(f"/v1/users/{ANA}/progress/{film(number)}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def settle(self) -> None:
        """Until nothing is under way: every decision projected by everybody, every task done, every copy told."""
        try:
            self.house.wait(lambda: not self._under_way(), "all is done", 90)
        except AssertionError as exc:
            raise AssertionError(f"{exc}: {self._under_way()}") from exc

    def _under_way(self) -> dict[str, object]:
        """What is, by name; empty when nothing is."""
        kafka, query = self.house.settings.kafka, self.house.query
        [(commands,)] = query(
            "SELECT coalesce(sum(next_offset), 0)::bigint FROM model.offsets WHERE projection = 'tasks'"
        )
        [(decided,)] = query("SELECT count(*) FROM model.processed_events")
        found = {
            "commands": end_of(kafka, LIBRARY_COMMANDS.name) - commands,
            "reports": end_of(kafka, PLAYBACK_REPORTED.name) - decided,
            "tasks": query(
                "SELECT kind, key, wanted_version, done_version, cancelled_version FROM core.tasks"
                " WHERE dead_at IS NULL AND kind <> 'reconcile'"
                " AND (lease_token IS NOT NULL OR wanted_version > greatest(done_version, cancelled_version))"
            ),
            "projections": query(
                "SELECT a.projection, a.partition FROM model.offsets a JOIN model.offsets b USING (topic, partition)"
                " WHERE topic = %s AND a.next_offset < b.next_offset",
                PLAYBACK_DECIDED.name,
            ),
            "outbox": query("SELECT id FROM model.outbox"),
            "scans": query("SELECT source_id FROM model.scan_sessions WHERE status IN ('running', 'finalizing')"),
            "scans to come": query(
                "SELECT source_id FROM core.tasks t WHERE kind = 'scan' AND source_id IN ('den', 'attic')"
                " AND NOT EXISTS (SELECT FROM model.scan_sessions s WHERE s.source_id = t.source_id"
                " AND s.generation >= t.done_version)"
            ),
            "cache": not self.cache_is_open(),
        }
        return {name: what for name, what in found.items() if what}

    def reconcile(self, *scopes: Scope, repair: bool = False) -> Outcome:
        chosen = Chosen(scopes or tuple(Scope), repair=repair)
        return reconcile(self.house.settings, self.house.contract, chosen, PROJECTIONS)

    # -- behind everybody's back

    def write(self, query: str, *values: object) -> int:
        """As a superuser; how many rows."""
        with psycopg.connect(self.house.world.superuser, autocommit=True) as connection:
            return connection.execute(query.encode(), values or None).rowcount

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """No invalidation gets into the outbox."""
        self.write("CREATE FUNCTION public.lose() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
        self.write("CREATE TRIGGER lose BEFORE INSERT ON model.outbox FOR EACH ROW EXECUTE FUNCTION public.lose()")
        try:
            yield
        finally:
            self.write("DROP TRIGGER lose ON model.outbox")
            self.write("DROP FUNCTION public.lose()")

    def forge(self, number: int, position_ms: int) -> None:
        """Another position in what the cache answers."""
        with self._cache() as client:
            name = self._entry(client, number)
            fields: Any = client.hgetall(name)
            for field, value in fields.items():
                if field.startswith(b"value:"):
                    client.hset(name, field, json.dumps({**json.loads(value), "position_ms": position_ms}))

    def is_cached(self, number: int) -> bool:
        with self._cache() as client:
            return bool(client.exists(self._entry(client, number)))

    def cache_is_open(self) -> bool:
        with self._cache() as client:
            return client.get("playhead:state") is not None

    def _entry(self, client: Valkey, number: int) -> str:
        state: Any = client.get("playhead:state")
        assert state is not None
        generation = state.decode().split()[1]
        return f"playhead:entry:{generation}:progress:{self.ref()}:{self.media(number)}"

    @contextmanager
    def _cache(self) -> Iterator[Valkey]:
        url = url_of(self.house.settings)
        assert url is not None
        client = Valkey.from_url(url, socket_timeout=5)
        try:
            yield client
        finally:
            client.connection_pool.disconnect()

    # -- what is asked

    def ref(self) -> str:
        [(found,)] = self.house.query("SELECT user_ref FROM core.users WHERE source_id = 'den'")
        return str(found)

    @staticmethod
    def media(number: int) -> str:
        return media_id("den", film(number))

    def at(self, number: int) -> int:
        """Where the attic has it, ms."""
        data = self.attic.data.get((BEN, same(number)))
        return -1 if data is None else int(data["PlaybackPositionTicks"]) // TICKS


def causes(outcome: Outcome) -> dict[Cause, int]:
    return {cause: one.count for cause, one in outcome.findings.causes()}
