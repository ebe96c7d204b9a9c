"""Decisions put into the read models with their invalidations, a relay, a keeper, and readers through the cache."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
from pydantic import SecretStr
from valkey import Valkey

from projections import outbox
from projections.api.caching import CachedReadModels
from projections.api.read_models import Page, Row
from projections.base import Record
from projections.models.playback import PlaybackProjection
from projections.relay import Relay
from schemas.events import CacheInvalidated, PlaybackDecided, SourcePosition, UserForgotten
from schemas.ids import SchemaIds
from schemas.placement import partition_of
from schemas.topics import CACHE_INVALIDATED
from streams.effects.cache.keeper import Keeper
from streams.local.valkey import ValkeyServer
from streams.runtime.cache import Cache
from streams.runtime.contract import Contract
from streams.runtime.database import Database
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.outlet import Outlet
from streams.runtime.publisher import Record as Produced
from streams.runtime.settings import CacheSettings, Settings
from tests.integration.projections.world import eventually, read_all
from tests.projections.decisions import NOW_MS, decision, partition_for

QUARANTINE_S = 0.2
OPEN_MS = 60_000
"""Longer than any hiccup of a busy machine: what closes the cache in these tests is what they do."""
PATIENCE_S = 60.0
"""A reader waits so long for Valkey before it goes past it: what these tests say is kept must be seen to be, however
busy the machine is."""
CONTRACT = Contract(SchemaIds(), registry=None)


class Kitchen:
    def __init__(self, settings: Settings, server: ValkeyServer) -> None:
        self.server = server
        self.settings = settings.model_copy(update={"cache": CacheSettings(url=SecretStr(server.url))})
        self._offsets: dict[int, int] = {}
        self._lock = threading.Lock()
        self._projection = PlaybackProjection()
        self._projector: psycopg.Connection[Any] | None = None

    def close(self) -> None:
        if self._projector is not None:
            self._projector.close()
        self.clear()

    def clear(self) -> None:
        client = self.client()
        client.flushall()
        client.connection_pool.disconnect()

    def client(self) -> Valkey:
        return Valkey.from_url(self.server.url, socket_timeout=5)

    def decide(self, user: str, media: str, position_ms: int, **changes: Any) -> int:
        """One more decision in the read models, with its invalidations in the outbox; its offset."""
        event = decision(user_ref=user, media_id=media, position_ms=position_ms, **changes)
        partition = partition_for(event)
        with self._lock:
            offset = self._offsets[partition] = self._offsets.get(partition, -1) + 1
            event = replace(
                event, event_id=f"e-{partition}-{offset}", cause=SourcePosition("topic-id", partition, offset, 0)
            )
            record: Record[PlaybackDecided | UserForgotten] = Record(
                event, partition, offset, 1, NOW_MS, CONTRACT.encode(event)[5:]
            )
            if self._projector is None:
                self._projector = psycopg.connect(**self.settings.postgres.conninfo("projector"), autocommit=True)
                self._projection.prepare(self._projector)
            with self._projector.transaction():
                folded = self._projection.fold([record], self._projector)
                outbox.write(self._projector, folded.invalidations)
        return offset

    def relay(self) -> Relay:
        return Relay(self.settings, CONTRACT)

    def relay_all(self) -> None:
        relay = self.relay()
        while relay.publish_some():
            pass
        relay.close()

    def outbox_rows(self) -> int:
        with psycopg.connect(**self.settings.postgres.conninfo("owner")) as connection:
            row = connection.execute("SELECT count(*) FROM model.outbox").fetchone()
            return int(row[0]) if row else 0

    @contextmanager
    def relaying(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self.relay().run, args=(stop,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(30)

    @contextmanager
    def keeping(
        self, failpoint: Failpoint = disarmed, *, open_ms: int = OPEN_MS, stale_s: float = 60.0
    ) -> Iterator[threading.Event]:
        """A keeper in a thread; yields what stops it, when the cache is open."""
        keeper = Keeper(
            self.settings,
            self.server.url,
            CONTRACT,
            failpoint=failpoint,
            quarantine_s=QUARANTINE_S,
            open_ms=open_ms,
            stale_s=stale_s,
        )
        stop = threading.Event()
        errors: list[BaseException] = []

        def run() -> None:
            try:
                keeper.run(stop)
            except BaseException as exc:
                errors.append(exc)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            self.wait_open()
            yield stop
        finally:
            stop.set()
            thread.join(30)
            assert not thread.is_alive()
        if errors:
            raise errors[0]

    def state(self) -> str | None:
        client = self.client()
        found = client.get("playhead:state")
        client.connection_pool.disconnect()
        return found.decode() if isinstance(found, bytes) else None

    def wait_open(self, *, other_than: str | None = None) -> str:
        """The generation that is open, once there is one (another than this)."""

        def there() -> bool:
            state = self.state()
            return state is not None and state.split()[1] != other_than

        eventually(there, "the cache is open", 90)
        state = self.state()
        assert state is not None
        return state.split()[1]

    def floor(self, key: str) -> str | None:
        """What the cache must not go below for this key, of the open generation."""
        state = self.state()
        if state is None:
            return None
        _, generation, bucket = state.split()
        client = self.client()
        found = client.hget(f"playhead:floors:{generation}:{bucket}", key)
        client.connection_pool.disconnect()
        return found.decode() if isinstance(found, bytes) else None

    def floor_of(self, generation: str, key: str) -> str | None:
        """The same of a generation that may be closed by now."""
        client = self.client()
        found: list[object] = [client.hget(name, key) for name in client.scan_iter(f"playhead:floors:{generation}:*")]
        client.connection_pool.disconnect()
        return next((one.decode() for one in found if isinstance(one, bytes)), None)

    def invalidate(
        self, key: str, model_epoch: int = 1, *, partition: int = 0, version: int = 0, reason: str = ""
    ) -> None:
        """Put an invalidation into the log that no row stands for."""
        with psycopg.connect(**self.settings.postgres.conninfo("owner")) as connection:
            connection.execute(
                "INSERT INTO model.outbox (cache_key, model_epoch, log_epoch, partition, version, correlation_id,"
                " event_id, source_id, reason) VALUES (%s, %s, 1, %s, %s, 'c', 'e', '', %s)",
                (key, model_epoch, partition, version, reason),
            )
        self.relay_all()

    def invalidations_of(self, key: str) -> list[CacheInvalidated]:
        """All of this key that are in the log."""
        found = [
            CONTRACT.decode(one.value() or b"")
            for one in read_all(self.settings.kafka, CACHE_INVALIDATED.name)
            if one.key() == key.encode()
        ]
        return [one for one in found if isinstance(one, CacheInvalidated)]

    def poison(self, key: str) -> None:
        """Put a record under this key into the log that is no event."""
        outlet = Outlet(self.settings.kafka)
        partition = partition_of(key.encode(), CACHE_INVALIDATED.partitions)
        outlet.publish([Produced(CACHE_INVALIDATED.name, partition, key.encode(), b"no event")])
        outlet.close()

    def reader(self, cache: Cache | None = None) -> CachedReadModels:
        return CachedReadModels(Database(self.settings.postgres.conninfo("reader")), cache or self.cache())

    def cache(self) -> Cache:
        return Cache(self.server.url, timeout_s=PATIENCE_S)

    def progress(self, user: str, media: str | Sequence[str], *, fresh: bool = False) -> Row | None:
        async def ask() -> Row | None:
            async with self.reader() as read:
                found = await read.progress(user, [media] if isinstance(media, str) else media, fresh=fresh)
                return None if found is None else found[0]

        return asyncio.run(ask())

    def going_on(self, user: str, limit: int = 10) -> Page:
        async def ask() -> Page:
            async with self.reader() as read:
                return await read.continue_page(user, None, limit)

        return asyncio.run(ask())

    def forge(self, user: str, media: str, **columns: Any) -> None:
        """Change a row behind everybody's back: only an answer of the cache does not show it."""
        with psycopg.connect(**self.settings.postgres.conninfo("owner")) as connection:
            for name, value in columns.items():
                connection.execute(
                    f"UPDATE model.playback_progress SET {name} = %s WHERE user_ref = %s AND media_id = %s".encode(),
                    (value, user, media),
                )
