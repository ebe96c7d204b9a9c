"""A real supysonic, web server and daemon, polled for what it offers: what somebody streams."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from streams.ingest.pollers import Source
from streams.runtime.upstreams import Account, UpstreamEntry
from streams.upstream.errors import CredentialsRefused, NotOffered
from streams.upstream.http import Limits, Upstream
from streams.upstream.origin import Origin
from streams.upstream.subsonic import Login, Subsonic
from tests.ingest.fakes import HASH_KEY
from tests.ingest.pollers.lab import Lab, summary
from tests.integration.pollers import supysonic
from tests.integration.pollers.supysonic import PASSWORD, USER, Supysonic

pytestmark = pytest.mark.services
PATIENT = Limits(timeout_s=60, attempts=1, rest_s=0)
FOUND_S = 120.0


@pytest.fixture(scope="module")
def programs() -> Path:
    try:
        return supysonic.installed()
    except supysonic.NotInstallable as exc:
        # CI has the network it takes; there its absence is a failure.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"supysonic can't be installed here: {exc}")


@pytest.fixture
def server(programs: Path) -> Iterator[Supysonic]:
    with supysonic.running(programs) as running:
        yield running


def client(server: Supysonic, login: Login = "password") -> tuple[Upstream, Subsonic]:
    upstream = Upstream(Origin.of(server.url), limits=PATIENT)
    return upstream, Subsonic(upstream, USER, PASSWORD, login)


async def the_song(server: Supysonic) -> str:
    """The id of the one song, as soon as the daemon has found it."""
    upstream, reader = client(server)
    async with upstream, asyncio.timeout(FOUND_S):
        while True:
            async for song in reader.songs():
                return str(song["id"])
            await asyncio.sleep(0.2)


def test_what_is_streamed_is_told_once_and_nothing_else_is(server: Supysonic) -> None:
    async def scenario() -> None:
        server.add_song("hour", 61)
        song = await the_song(server)
        lab = Lab()
        entry = UpstreamEntry("home", "subsonic", server.url, 30, True, (Account(USER, "password", PASSWORD),))
        source = Source(entry, lab.world.door, lab.store, HASH_KEY, lab.clock, limits=PATIENT)
        async with source, httpx.AsyncClient(trust_env=False, timeout=60) as listener:
            assert await lab.poll(source=source) == []
            assert lab.last.cause is None, "no bookmarks, no queue, no counts: that is no fault"
            login = {"u": USER, "p": PASSWORD, "v": "1.10.0", "c": "probe"}
            bytes_of_it = await listener.get(f"{server.url}/rest/stream", params={**login, "id": song})
            assert bytes_of_it.content[:4] == b"RIFF"
            (told,) = await lab.poll(source=source)
            assert (told.upstream_media, told.kind, told.position_ms) == (song, "start", None)
            assert (told.duration_ms, told.media_kind, told.device_id) == (61_000, "music", "0"), (
                "it tells no player apart"
            )
            assert summary(await lab.poll(source=source, sweep=True)) == []

    asyncio.run(scenario())


def test_it_takes_passwords_and_no_tokens_and_has_no_bookmarks(server: Supysonic) -> None:
    async def scenario() -> None:
        upstream, reader = client(server)
        async with upstream:
            assert await reader.now_playing() == []
            for missing in (reader.bookmarks, reader.play_queue):
                with pytest.raises(NotOffered):
                    await missing()
        upstream, reader = client(server, "token")
        async with upstream:
            with pytest.raises(CredentialsRefused):
                await reader.now_playing()

    asyncio.run(scenario())
