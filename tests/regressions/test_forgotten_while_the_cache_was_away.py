"""What a process shows while Valkey is away it has to tell before it asks again. Of that some was lost: what was shown
anew while the telling was under way, what a slower and older answer took the place of, and everything when it was too
much to keep in mind and Valkey had not been seen yet, or had begun anew meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from valkey.exceptions import ConnectionError as Away

from schemas.events import WHOLE_MODEL
from streams.runtime import cache as runtime
from streams.runtime import cache_scripts as scripts
from streams.runtime.cache import REST_S, Answer, Cache, Stamp
from streams.runtime.clock import FakeClock

KEY, OTHER, ITEM = "progress:ana:film", "progress:ana:song", "item:film"


def at(version: int) -> Stamp:
    return Stamp(1, 1, version)


@dataclass
class FakeValkey:
    """The scripts by what they promise. ``away``: it does not answer. ``held``: the next call waits for it."""

    away: bool = False
    held: asyncio.Event | None = None
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    generation: str = "1"
    floors: dict[str, Stamp] = field(default_factory=dict)
    entries: dict[str, tuple[dict[str, Stamp], bytes]] = field(default_factory=dict)

    def begin_anew(self, generation: str) -> None:
        self.generation = generation
        self.floors.clear()
        self.entries.clear()

    def keep(self, version: int, item: int = 0) -> None:
        """What another process, that was shown nothing newer, has read and left here."""
        self.entries[KEY] = ({KEY: at(version), ITEM: at(item), WHOLE_MODEL: Stamp(1, 2**31, 0)}, str(version).encode())

    def register_script(self, text: str) -> Callable[..., Awaitable[Any]]:
        async def call(args: Sequence[Any]) -> Any:
            if self.held is not None:
                held, self.held = self.held, None
                self.reached.set()
                await held.wait()
            if self.away:
                raise Away
            match text:
                case scripts.LOOK:
                    return self._look(args[0])
                case scripts.OFFER:
                    self._offer(*args[:6], *args[7:])
                    return b"told"
                case _:
                    self._raise(args[2:])
                    return b"raised"

        return call

    def _look(self, key: str) -> list[bytes]:
        deps, value = self.entries.get(key, ({}, b""))
        if deps and all(stamp >= self.floors.get(name, at(-1)) for name, stamp in deps.items()):
            return [b"hit", self.generation.encode(), value]
        return [b"fill", self.generation.encode()]

    def _offer(self, key: str, _: str, token: str, generation: str, deps: str, value: str, *shows: str) -> None:
        self._raise(shows)
        read_at = {name: _stamp(stamp) for name, stamp in json.loads(deps)}
        known = self.entries.get(key, ({}, b""))[0]
        if token and generation == self.generation:
            self.entries[key] = read_at, value.encode()
        elif any(stamp > known.get(name, at(-1)) for name, stamp in read_at.items()):
            self.entries.pop(key, None)

    def _raise(self, newer: Sequence[str]) -> None:
        for key, text in zip(newer[::2], newer[1::2], strict=True):
            self.floors[key] = max(_stamp(text), self.floors.get(key, at(-1)))

    async def aclose(self, **_: Any) -> None:
        pass


def _stamp(text: str) -> Stamp:
    return Stamp(*map(int, text.split(".")))


class Process:
    """One process that reads through the cache; PostgreSQL has the version each of its questions names."""

    def __init__(self, valkey: FakeValkey) -> None:
        self.valkey = valkey
        self.clock = FakeClock()
        self.cache = Cache("valkey://nowhere", clock=self.clock)

    async def shown(self, version: int, key: str = KEY, item: int = 0, after: asyncio.Event | None = None) -> int:
        async def read() -> Answer[int]:
            if after is not None:
                await after.wait()
            own = key, at(version)
            return Answer(version, version, [own, (ITEM, at(item))], [own])

        def restore(document: Any) -> int:
            assert isinstance(document, int)
            return document

        return await self.cache.through(key, "", read, restore)

    def back(self) -> None:
        """Valkey answers again, and its time to be asked has come."""
        self.valkey.away = False
        self.clock.advance(int(REST_S * 1_000))


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    valkey = FakeValkey()
    monkeypatch.setattr("valkey.asyncio.Valkey.from_pool", lambda _: valkey)
    return Process(valkey)


def test_what_is_shown_while_the_former_is_told_is_told_as_well(process: Process) -> None:
    async def play() -> list[int]:
        process.valkey.away = True
        seen = [await process.shown(8)]
        process.back()
        process.valkey.keep(9)
        process.valkey.held = go_on = asyncio.Event()
        trial = asyncio.create_task(process.shown(1, OTHER))
        await process.valkey.reached.wait()
        seen.append(await process.shown(10))
        go_on.set()
        await trial
        return [*seen, await process.shown(11)]

    assert asyncio.run(play()) == [8, 10, 11]


def test_a_slow_older_answer_does_not_take_the_place_of_a_newer_one(process: Process) -> None:
    async def play() -> list[int]:
        process.valkey.away = True
        read = asyncio.Event()
        slow = asyncio.create_task(process.shown(8, after=read))
        seen = [await process.shown(10)]
        read.set()
        seen.append(await slow)
        process.back()
        process.valkey.keep(9)
        return [*seen, await process.shown(11)]

    assert asyncio.run(play()) == [10, 8, 11]


def test_what_was_told_of_is_not_less_than_what_was_shown(process: Process) -> None:
    async def play() -> list[int]:
        process.valkey.away = True
        await process.cache.raise_floors([(KEY, at(10)), (OTHER, at(1))])
        seen = [await process.shown(8)]
        process.back()
        process.valkey.keep(9)
        return [*seen, await process.shown(11)]

    assert asyncio.run(play()) == [8, 11]


def test_what_an_answer_depends_on_counts_as_well(process: Process) -> None:
    async def play() -> list[int]:
        process.valkey.away = True
        await process.shown(8, item=6)
        process.back()
        process.valkey.keep(8, item=5)
        await process.shown(8, item=7)
        read_at = process.valkey.entries[KEY][0]
        return [read_at[KEY].offset, read_at[ITEM].offset]

    assert asyncio.run(play()) == [8, 7]


def test_much_is_told_in_parts_and_all_of_it(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_PAID_AT_ONCE", 2)

    async def play() -> None:
        process.valkey.away = True
        for number in range(5):
            await process.shown(number, f"progress:ana:{number}")
        process.back()
        await process.shown(1)

    asyncio.run(play())
    assert [process.valkey.floors[f"progress:ana:{number}"].offset for number in range(5)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("met", [False, True])
def test_more_than_can_be_kept_in_mind_closes_what_is_open_afterwards_until_it_begins_anew(
    process: Process, monkeypatch: pytest.MonkeyPatch, met: bool
) -> None:
    monkeypatch.setattr(runtime, "OWED_MAX", 0)

    async def play() -> list[int]:
        if met:
            await process.shown(8)
        process.valkey.away = True
        seen = [await process.shown(10)]
        if met:
            process.valkey.begin_anew("2")
        process.valkey.keep(9)
        process.back()
        seen += [await process.shown(11), await process.shown(12)]
        process.valkey.begin_anew("3")
        process.valkey.keep(13)
        return [*seen, await process.shown(14)]

    assert asyncio.run(play()) == [10, 11, 12, 13]
