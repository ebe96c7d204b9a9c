"""Plex, polled with the owner's token: everybody's sessions and history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from streams.runtime.upstreams import Account
from tests.ingest.pollers.lab import MINUTE, Lab, scene, summary
from tests.ingest.pollers.servers.plex import FRIEND, OWNER, TOKEN, FakePlex


@asynccontextmanager
async def polled(lab: Lab) -> AsyncIterator[FakePlex]:
    fake = FakePlex()
    async with lab.polling(fake.app, "plex", Account("", "api_key", TOKEN)):
        yield fake


def test_each_change_is_picked_up_once_and_a_second_poll_adds_nothing() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            assert await lab.poll() == []
            fake.play(OWNER, "81", 10 * MINUTE)
            fake.finish(FRIEND, "82", lab.clock.now_ms() // 1000 - 60)
            first = await lab.poll()
            assert sorted(summary(first), key=str) == [("81", "progress", 10 * MINUTE), ("82", "finish", None)]
            assert len({event.user_ref for event in first}) == 2
            assert await lab.poll() == []
            assert await lab.poll_as_new() == []
            lab.clock.advance(MINUTE)
            fake.play(OWNER, "81", 11 * MINUTE, "paused")
            assert summary(await lab.poll()) == [("81", "pause", 11 * MINUTE)]
            fake.playing.clear()
            assert summary(await lab.poll()) == [("81", "stop", None)]
            assert await lab.poll() == []
            assert lab.states()["81"].position_ms == 11 * MINUTE
            assert lab.states()["82"].play_count == 1
            assert lab.last.cause is None

    scene(play)


def test_an_older_history_and_repeated_pages_add_no_play() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            now_s = lab.clock.now_ms() // 1000
            for number in range(230):
                fake.finish(OWNER, str(number), now_s - 1_000 + number)
            assert len(await lab.poll()) == 230
            before = {media: state.play_count for media, state in lab.states().items()}
            del fake.history[100:]
            lab.forget()
            again = await lab.poll_as_new()
            assert len(again) == 100
            fake.repeat_pages = True
            assert await asyncio.wait_for(lab.poll(sweep=True), 20) == []
            assert {media: state.play_count for media, state in lab.states().items()} == before

    scene(play)
