"""Readers who remember: whatever goes wrong, none is shown less of a key than somebody has seen before it asked."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from projections.api.caching import CachedReadModels
from projections.api.read_models import Row
from streams.runtime import metrics
from streams.runtime.cache import TIMEOUT_S, Cache
from streams.runtime.database import Database
from streams.runtime.errors import Unavailable
from tests.integration.caches.kitchen import Kitchen
from tests.integration.projections.world import environment_of

KEEPER_FAULTS = (
    "cache.read=kill:0.03,cache.raised=kill:0.03,cache.renewed=kill:0.01,cache.opening=kill:0.1,cache.opened=kill:0.1"
)


class SlowReadModels(CachedReadModels):
    """Now and then an answer is long under way after it was read: by then it may be old."""

    def __init__(self, database: Database, cache: Cache, dice: random.Random) -> None:
        super().__init__(database, cache)
        self._dice = dice

    async def _ask(self, query: str, **parameters: Any) -> list[Row]:
        rows = await super()._ask(query, **parameters)
        if self._dice.random() < 0.15:
            await asyncio.sleep(self._dice.uniform(0.0, 0.5))
        return rows


class Checker:
    """``seen``: the newest version anybody was shown, by key; all readers are of different "processes"."""

    def __init__(
        self, kitchen: Kitchen, seed: int, *, users: int = 2, media: int = 2, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.kitchen = kitchen
        self.timeout_s = timeout_s
        self.dice = random.Random(seed)
        self.users = [f"{self.dice.getrandbits(128):032x}" for _ in range(users)]
        self.media = [f"{self.dice.getrandbits(128):032x}" for _ in range(media)]
        self.wrong: list[str] = []
        self.reads = 0
        self.own = 0
        self.seen: dict[str, int] = {}
        self._lock = threading.Lock()
        self.stop = threading.Event()

    def begin(self) -> None:
        for user in self.users:
            for media in self.media:
                self.kitchen.decide(user, media, 0)

    @contextmanager
    def running(self, readers: int = 2, tasks: int = 6) -> Iterator[None]:
        threads = [threading.Thread(target=self._writer, daemon=True)]
        threads += [
            threading.Thread(target=self._reader, args=(number, tasks), daemon=True) for number in range(readers)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stop.set()
            for thread in threads:
                thread.join(60)
                assert not thread.is_alive()

    def _look(self, key: str) -> int:
        with self._lock:
            return self.seen.get(key, -1)

    def _shown(self, key: str, at_least: int, version: int, how: str) -> None:
        with self._lock:
            self.reads += 1
            if version < at_least:
                self.wrong.append(f"{how} {key}: {version} after {at_least}")
            self.seen[key] = max(version, self.seen.get(key, -1))

    def _writer(self) -> None:
        """Decides, and reads what was decided at once, as ?after= does: never without it."""
        dice = random.Random(self.dice.random())

        async def ask() -> None:
            async with self._models(dice) as read:
                position = 1_000
                while not self.stop.is_set():
                    user, media = dice.choice(self.users), dice.choice(self.media)
                    position += 1_000
                    version = await asyncio.to_thread(self.kitchen.decide, user, media, position)
                    if dice.random() < 0.5:
                        try:
                            found = await read.progress(user, [media], fresh=True)
                        except Unavailable:
                            continue
                        assert found is not None
                        self._shown(f"progress:{user}:{media}", version, found[0]["version"], "own write")
                        self.own += 1
                    await asyncio.sleep(dice.uniform(0.0, 0.15))

        asyncio.run(ask())

    def _reader(self, number: int, tasks: int) -> None:
        dice = random.Random(f"{number}")

        async def one(read: CachedReadModels) -> None:
            while not self.stop.is_set():
                user, media = dice.choice(self.users), dice.choice(self.media)
                try:
                    match dice.randrange(8):
                        case 0:
                            before = self._look(f"continue:{user}")
                            each = {media: self._look(f"progress:{user}:{media}") for media in self.media}
                            page = await read.continue_page(user, None, dice.choice((2, 11)))
                            assert page.version is not None
                            self._shown(f"continue:{user}", before, page.version.offset, "list")
                            for row in page.rows:
                                self._shown(
                                    f"progress:{user}:{row['media_id']}",
                                    each[row["media_id"]],
                                    row["version"],
                                    "listed",
                                )
                        case 1:
                            each = {media: self._look(f"progress:{user}:{media}") for media in self.media}
                            page = await read.progress_page(user, None, 10)
                            for row in page.rows:
                                self._shown(
                                    f"progress:{user}:{row['media_id']}", each[row["media_id"]], row["version"], "page"
                                )
                        case kind:
                            key = f"progress:{user}:{media}"
                            before = self._look(key)
                            found = await read.progress(user, [media], fresh=kind == 2)
                            assert found is not None
                            self._shown(key, before, found[0]["version"], "fresh" if kind == 2 else "read")
                except Unavailable:
                    pass
                await asyncio.sleep(dice.uniform(0.0, 0.02))

        async def all_of_them() -> None:
            async with self._models(dice) as read:
                await asyncio.gather(*(one(read) for _ in range(tasks)))

        asyncio.run(all_of_them())

    def _models(self, dice: random.Random) -> SlowReadModels:
        database = Database(self.kitchen.settings.postgres.conninfo("reader"), timeout_s=20)
        return SlowReadModels(database, Cache(self.kitchen.server.url, timeout_s=self.timeout_s), dice)


@contextmanager
def keepers_that_die(
    kitchen: Kitchen, quarantine_s: float, open_ms: int, faults: str = KEEPER_FAULTS
) -> Iterator[list[int]]:
    """One keeper after the other, each a process that kills itself sooner or later; yields how they ended."""
    stop = threading.Event()
    ended: list[int] = []
    command = [sys.executable, "-m", "tests.integration.caches.child", str(quarantine_s), str(open_ms)]
    environment = {**os.environ, **environment_of(kitchen.settings, PLAYHEAD_FAILPOINTS=faults)}

    def run() -> None:
        while not stop.is_set():
            child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while child.poll() is None:
                if stop.wait(0.05):
                    child.kill()
                    child.wait()
                    return
            ended.append(child.returncode)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield ended
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()


def disturb(kitchen: Kitchen, dice: random.Random, until: float) -> Sequence[str]:
    """What can happen to Valkey, one after the other; returns what was done."""
    done: list[str] = []
    while time.monotonic() < until:
        time.sleep(dice.uniform(1.0, 12.0))
        what = dice.choice(("kill", "freeze shortly", "freeze", "evict", "evict", "flush"))
        done.append(what)
        match what:
            case "kill":
                kitchen.server.kill()
                time.sleep(dice.uniform(0.0, 0.5))
                kitchen.server.start()
            case "freeze" | "freeze shortly":
                kitchen.server.pause()
                time.sleep(dice.uniform(2.0, 3.0) if what == "freeze" else dice.uniform(0.05, 0.6))
                kitchen.server.resume()
            case "evict":
                client = kitchen.client()
                for key in client.scan_iter("playhead:*", count=1_000):
                    if dice.random() < 0.3:
                        client.delete(key)
                client.connection_pool.disconnect()
            case _:
                kitchen.clear()
    return done


def evict_answers(kitchen: Kitchen, dice: random.Random, until: float) -> None:
    """Answers and tokens go away under memory pressure; now and then the relay gets to work."""
    relay = kitchen.relay()
    client = kitchen.client()
    while time.monotonic() < until:
        time.sleep(dice.uniform(0.0, 0.3))
        for key in client.scan_iter(dice.choice(("playhead:entry:*", "playhead:fill:*")), count=1_000):
            if dice.random() < 0.3:
                client.delete(key)
        if dice.random() < 0.1:
            relay.publish_some()
    client.connection_pool.disconnect()
    relay.close()


def hits() -> float:
    found = 0.0
    for metric in metrics.CACHE_READS.collect():
        found += sum(one.value for one in metric.samples if one.labels.get("outcome") == "hit" and "total" in one.name)
    return found
