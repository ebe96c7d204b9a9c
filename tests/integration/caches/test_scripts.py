"""What is decided inside Valkey, each rule by itself; readers are the test's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from valkey import Valkey

from streams.local.valkey import ValkeyServer
from streams.runtime import cache as runtime
from streams.runtime import cache_scripts as scripts
from streams.runtime.cache import Answer, Cache, Stamp
from streams.runtime.clock import FakeClock

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("caches")]
KEY, OTHER = "progress:ana:film", "item:film"
LONG_MS = 600_000


class Shelf:
    """An open cache without a keeper, and what was read: version → how often."""

    def __init__(self, server: ValkeyServer) -> None:
        self.server = server
        self.client = Valkey.from_url(server.url, socket_timeout=5)
        self.client.flushall()
        self.open()
        self.reads = 0

    def script(self, text: str, *arguments: Any) -> Any:
        return self.client.register_script(text)(args=list(arguments))

    def open(self) -> str:
        run_id, newest, *_ = self.script(scripts.JOIN)
        self.generation = f"{int(newest or b'0', 16) + 1:x}"
        said = self.script(
            scripts.OPEN, run_id, self.generation, LONG_MS, scripts.BUCKET_S, json.dumps({"0": 5}), "topic", newest
        )
        assert said == b"opened"
        return self.generation

    def raise_to(self, key: str, version: int) -> object:
        return self.script(scripts.RAISE, self.generation, "{}", key, str(Stamp(1, 1, version)))

    def renew(self) -> object:
        return self.script(scripts.RENEW, self.generation, LONG_MS, scripts.BUCKET_S)

    def reader(self, version: int, other: int = 0) -> Callable[[], Awaitable[Answer[int]]]:
        async def read() -> Answer[int]:
            self.reads += 1
            deps = [(KEY, Stamp(1, 1, version)), (OTHER, Stamp(1, 1, other))]
            return Answer(version, version, deps, [(KEY, Stamp(1, 1, version))])

        return read


@pytest.fixture
def shelf(valkey: ValkeyServer) -> Iterator[Shelf]:
    made = Shelf(valkey)
    yield made
    made.client.flushall()
    made.client.connection_pool.disconnect()


def _plain(document: object) -> int:
    assert isinstance(document, int)
    return document


async def read(shelf: Shelf, version: int, other: int = 0, *, fresh: bool = False, variant: str = "") -> int:
    """What somebody is shown when PostgreSQL has ``version``."""
    async with Cache(shelf.server.url) as cache:
        return await cache.through(KEY, variant, shelf.reader(version, other), _plain, fresh=fresh)


def shown(shelf: Shelf, version: int, other: int = 0, *, fresh: bool = False, variant: str = "") -> int:
    return asyncio.run(read(shelf, version, other, fresh=fresh, variant=variant))


@pytest.mark.parametrize(("most", "seen"), [(2, [1, 1]), (1, [1, 2])])
def test_as_many_dependencies_as_may_be_are_kept_and_no_more(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, most: int, seen: list[int]
) -> None:
    monkeypatch.setattr(runtime, "DEPS_MAX", most)
    assert [shown(shelf, 1), shown(shelf, 2)] == seen


def test_what_was_read_is_shown_until_a_floor_rises_above_it(shelf: Shelf) -> None:
    assert [shown(shelf, 1), shown(shelf, 2), shown(shelf, 3)] == [1, 1, 1]
    shelf.raise_to(KEY, 1)
    assert shown(shelf, 4) == 1
    shelf.raise_to(KEY, 2)
    assert [shown(shelf, 5), shown(shelf, 6)] == [5, 5]


def test_what_depends_on_another_key_falls_with_it(shelf: Shelf) -> None:
    assert shown(shelf, 1, other=7) == 1
    shelf.raise_to(OTHER, 7)
    assert shown(shelf, 2, other=7) == 1
    shelf.raise_to(OTHER, 8)
    assert shown(shelf, 2, other=8) == 2


def test_a_read_from_below_a_floor_is_answered_and_not_kept(shelf: Shelf) -> None:
    shelf.raise_to(OTHER, 3)
    assert shown(shelf, 1, other=2) == 1
    assert shown(shelf, 2, other=3) == 2


def test_versions_of_a_newer_model_or_log_go_before_higher_offsets(shelf: Shelf) -> None:
    assert shown(shelf, 900) == 900
    shelf.script(scripts.RAISE, shelf.generation, "{}", KEY, "1.2.0")
    assert shown(shelf, 901) == 901, "the older log's answers are no more"
    shelf.script(scripts.RAISE, shelf.generation, "{}", KEY, "1.1.5000")
    floors: object = shelf.client.hget(_floors(shelf), KEY)
    assert floors == b"1.2.0"


def test_who_reads_anew_is_not_followed_by_what_was_kept_before(shelf: Shelf) -> None:
    assert shown(shelf, 1) == 1
    assert shown(shelf, 2, fresh=True) == 2
    assert shown(shelf, 3) == 2


def test_a_slow_answer_is_not_kept_when_somebody_was_shown_newer_meanwhile(shelf: Shelf) -> None:
    async def play() -> list[int]:
        under_way, go_on = asyncio.Event(), asyncio.Event()

        async def slowly() -> Answer[int]:
            answer = await shelf.reader(1)()
            under_way.set()
            await go_on.wait()
            return answer

        async with Cache(shelf.server.url) as cache:
            slow = asyncio.create_task(cache.through(KEY, "", slowly, _plain))
            await under_way.wait()
            newer = await read(shelf, 2, fresh=True)
            # What the newer one left there is evicted: only the token is left to tell.
            shelf.client.delete(f"playhead:entry:{shelf.generation}:{KEY}")
            for floors in shelf.client.scan_iter("playhead:floors:*"):
                shelf.client.hdel(floors, KEY)
            go_on.set()
            return [newer, await slow, await read(shelf, 3)]

    assert asyncio.run(play()) == [2, 1, 3]


def test_a_slow_answer_without_a_token_ends_what_is_older(shelf: Shelf) -> None:
    async def play() -> list[int]:
        under_way, go_on = asyncio.Event(), asyncio.Event()

        async def slowly() -> Answer[int]:
            answer = await shelf.reader(2)()
            under_way.set()
            await go_on.wait()
            return answer

        async with Cache(shelf.server.url) as cache:
            slow = asyncio.create_task(cache.through(KEY, "", slowly, _plain))
            await under_way.wait()
            shelf.client.delete(f"playhead:fill:{shelf.generation}:{KEY}")
            kept = await read(shelf, 1)
            go_on.set()
            return [kept, await slow, await read(shelf, 3)]

    assert asyncio.run(play()) == [1, 2, 3]


def test_answers_of_other_sizes_are_of_one_version(shelf: Shelf) -> None:
    assert shown(shelf, 1, variant="10") == 1
    assert shown(shelf, 2, variant="50") == 2
    assert shown(shelf, 3, variant="10") == 3, "the older page is gone"
    assert shown(shelf, 3, variant="10") == 3


def test_many_who_miss_at_once_read_once(shelf: Shelf) -> None:
    async def play() -> list[int]:
        async def slowly() -> Answer[int]:
            answer = await shelf.reader(1)()
            await asyncio.sleep(0.05)
            return answer

        async with Cache(shelf.server.url) as cache:
            return await asyncio.gather(*(cache.through(KEY, "", slowly, _plain) for _ in range(30)))

    assert asyncio.run(play()) == [1] * 30
    assert shelf.reads == 1


def test_who_waited_in_vain_for_another_reads_as_well(shelf: Shelf) -> None:
    shelf.client.set(f"playhead:fill:{shelf.generation}:{KEY}", "somebody who died", px=LONG_MS)
    assert [shown(shelf, 1), shown(shelf, 2)] == [1, 1]


def test_nobody_waits_for_what_is_not_kept(shelf: Shelf) -> None:
    fill = f"playhead:fill:{shelf.generation}:{KEY}"

    async def nothing() -> Answer[int]:
        assert shelf.client.exists(fill)
        return Answer(0)

    async def ask() -> int:
        async with Cache(shelf.server.url) as cache:
            return await cache.through(KEY, "", nothing, _plain)

    assert asyncio.run(ask()) == 0
    assert not shelf.client.exists(fill)
    assert [shown(shelf, 1), shown(shelf, 2)] == [1, 1], "nothing is known of it"


def test_a_server_that_comes_back_with_its_content_shows_none_of_it(shelf: Shelf) -> None:
    assert shown(shelf, 1) == 1
    state = shelf.client.get("playhead:state")
    assert isinstance(state, bytes)
    run_id, rest = state.split(b" ", 1)
    shelf.client.set("playhead:state", b"0" * len(run_id) + b" " + rest)
    assert [shown(shelf, 2), shown(shelf, 3)] == [2, 3]
    assert shelf.raise_to(KEY, 4) == b"closed"
    assert shelf.renew() == b"lapsed"
    shelf.open()
    assert [shown(shelf, 5), shown(shelf, 6)] == [5, 5]


def test_floors_that_were_evicted_close_the_cache(shelf: Shelf) -> None:
    assert shown(shelf, 1) == 1
    shelf.client.delete(_floors(shelf))
    assert [shown(shelf, 2), shown(shelf, 3)] == [2, 3]
    assert shelf.raise_to(KEY, 4) == b"closed"
    assert shelf.renew() == b"lapsed"


def test_a_floor_holds_when_the_next_half_hour_begins(shelf: Shelf) -> None:
    assert shown(shelf, 1) == 1
    state = shelf.client.get("playhead:state")
    assert isinstance(state, bytes)
    run_id, generation, bucket = state.decode().split()
    # As if it had been opened half an hour ago.
    for number in (int(bucket) - 1, int(bucket)):
        shelf.client.rename(_floors_of(generation, number), _floors_of(generation, number - 1))
    shelf.client.set("playhead:state", f"{run_id} {generation} {int(bucket) - 1}")
    shelf.raise_to(KEY, 2)
    assert shelf.renew() == b"renewed"
    assert shelf.client.get("playhead:state") == state
    shelf.client.hset(f"playhead:entry:{generation}:{KEY}", mapping={"own": "1.1.1", "value:": "1"})
    shelf.client.hset(f"playhead:entry:{generation}:{KEY}", "deps:", json.dumps([[KEY, "1.1.1"]]))
    assert shown(shelf, 3) == 3


def test_a_worker_that_comes_late_finds_the_cache_open_by_another(shelf: Shelf) -> None:
    run_id, newest, *found = shelf.script(scripts.JOIN)
    assert newest.decode() == shelf.generation
    assert dict(zip(found[0][::2], found[0][1::2], strict=True)) == {b"0": b"5", b"topic": b"topic"}
    shelf.script(scripts.RAISE, shelf.generation, json.dumps({"0": 9}), KEY, "1.1.3")
    shelf.script(scripts.RAISE, shelf.generation, json.dumps({"0": 7}), KEY, "1.1.2")
    assert shelf.script(scripts.JOIN)[2][:2] == [b"0", b"9"]
    again = shelf.script(scripts.OPEN, run_id, "f0", LONG_MS, scripts.BUCKET_S, "{}", "topic", newest)
    assert again == b"another"
    shelf.script(scripts.CLOSE, shelf.generation)
    # Opened and closed again since it looked: it must look, and wait, once more.
    assert shelf.script(scripts.OPEN, run_id, "f0", LONG_MS, scripts.BUCKET_S, "{}", "topic", b"other") == b"another"
    assert shelf.script(scripts.OPEN, b"0", "f0", LONG_MS, scripts.BUCKET_S, "{}", "topic", newest) == b"restarted"
    assert shelf.script(scripts.OPEN, run_id, "f0", LONG_MS, scripts.BUCKET_S, "{}", "topic", newest) == b"opened"


def test_what_was_shown_while_valkey_was_away_is_told_before_anything_is_asked(shelf: Shelf) -> None:
    clock = FakeClock()

    async def play() -> list[int]:
        async with Cache(shelf.server.url, clock=clock, timeout_s=0.2) as cache:
            await cache.through(KEY, "", shelf.reader(1), _plain)
            shelf.server.pause()
            try:
                away = await cache.through(KEY, "", shelf.reader(2), _plain)
            finally:
                shelf.server.resume()
            clock.advance(5_000)
            return [away, *[await cache.through(KEY, "", shelf.reader(version), _plain) for version in (3, 4)]]

    assert asyncio.run(play()) == [2, 3, 3]


def test_more_than_can_be_kept_in_mind_closes_the_cache_to_this_reader(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.runtime.cache.OWED_MAX", 0)
    clock = FakeClock()

    async def play() -> list[int]:
        async with Cache(shelf.server.url, clock=clock, timeout_s=0.2) as cache:
            await cache.through(KEY, "", shelf.reader(1), _plain)
            shelf.server.pause()
            try:
                away = await cache.through(KEY, "", shelf.reader(2), _plain)
            finally:
                shelf.server.resume()
            clock.advance(5_000)
            closed = [await cache.through(KEY, "", shelf.reader(version), _plain) for version in (3, 4)]
            shelf.script(scripts.CLOSE, shelf.generation)
            shelf.open()
            return [away, *closed, *[await cache.through(KEY, "", shelf.reader(version), _plain) for version in (5, 6)]]

    assert asyncio.run(play()) == [2, 3, 4, 5, 5]


def test_without_a_cache_every_read_is_a_read(shelf: Shelf) -> None:
    async def play() -> list[int]:
        async with Cache(None) as cache:
            return [await cache.through(KEY, "", shelf.reader(version), _plain) for version in (1, 2)]

    assert asyncio.run(play()) == [1, 2]


def _floors_of(generation: str, bucket: int) -> str:
    return f"playhead:floors:{generation}:{bucket}"


def _floors(shelf: Shelf) -> str:
    state = shelf.client.get("playhead:state")
    assert isinstance(state, bytes)
    return _floors_of(shelf.generation, int(state.split()[2]))
