"""The demo's media servers are Jellyfins as Playhead's own client and poller know them."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest

from streams.cli.demo_jellyfins import MINUTE, TICKS, Film, Server, answering
from streams.domain.forwarding import Change
from streams.effects.forward.jellyfin import JellyfinServer
from streams.effects.forward.ports import Thing
from streams.ingest.hooks import ParsedReport
from streams.ingest.hooks.jellyfin import parse
from streams.upstream.errors import CredentialsRefused, NotOffered
from streams.upstream.http import Upstream
from streams.upstream.jellyfin import Jellyfin, headers
from streams.upstream.origin import Origin

USER, FILM, OTHER = "d" * 32, "a" * 32, "c" * 32
BEGAN = 1_796_000_000_000


def on_a_loop(test: Callable[[Server], Coroutine[Any, Any, None]]) -> Callable[[Server], None]:
    @functools.wraps(test)
    def run(server: Server) -> None:
        asyncio.run(test(server))

    return run


@pytest.fixture
def server() -> Iterator[Server]:
    films = (Film(FILM, "The Paper Lantern", "tt1", 100 * MINUTE), Film(OTHER, "Salt Roads", "tt2", 90 * MINUTE))
    one = Server("den", USER, films)
    with answering(one):
        yield one


@asynccontextmanager
async def client(server: Server, key: str = "") -> AsyncIterator[Jellyfin]:
    async with Upstream(Origin.of(server.url), headers=headers(key or server.key)) as upstream:
        yield Jellyfin(upstream)


@on_a_loop
async def test_the_library_has_all_films_with_their_catalogue_ids(server: Server) -> None:
    async with client(server) as jellyfin:
        items, total = await jellyfin.library_page(1, None)
        assert await jellyfin.library_reader() is None
    assert (total, [item["Id"] for item in items]) == (2, [OTHER])
    assert items[0]["ProviderIds"] == {"Imdb": "tt2"}


@on_a_loop
async def test_what_is_told_is_kept_and_read_back_and_nothing_else_is_lost(server: Server) -> None:
    thing, at = Thing(FILM), BEGAN + 7
    async with client(server) as jellyfin:
        told = JellyfinServer(jellyfin)
        has = await told.read(USER, thing)
        assert (has.position_ms, has.played, has.at) == (0, False, None)
        await told.write(USER, thing, has, Change(at=at, position_ms=42 * MINUTE))
        found = await told.read(USER, thing)
    assert (found.position_ms, found.played, found.at, found.play_count) == (42 * MINUTE, False, at, 0)


@on_a_loop
async def test_what_was_begun_can_be_resumed_and_is_not_played(server: Server) -> None:
    server.watch(server.film("tt1"), BEGAN, 0, 30 * MINUTE, hooks_are_lost=True)
    server.watch(server.film("tt2"), BEGAN, 0, 4 * MINUTE, hooks_are_lost=True)
    async with client(server) as jellyfin:
        begun = [item async for item in jellyfin.resumable(USER)]
        played = [item async for item in jellyfin.played(USER)]
        assert (await jellyfin.sessions()).entries == []
        assert await jellyfin.users() == [USER]
    assert [item["Id"] for item in begun] == [FILM]
    assert begun[0]["UserData"]["PlaybackPositionTicks"] == 30 * MINUTE * TICKS
    assert played == []


@on_a_loop
async def test_another_key_and_another_item_are_refused(server: Server) -> None:
    async with client(server, "another") as jellyfin:
        with pytest.raises(CredentialsRefused):
            await jellyfin.users()
    async with client(server) as jellyfin:
        for ask in (jellyfin.user_data(USER, "e" * 32), jellyfin.set_user_data(USER, "e" * 32, {})):
            with pytest.raises(NotOffered):
                await ask


def test_its_webhooks_are_read_as_an_evening_unless_they_get_lost(server: Server) -> None:
    with door(202, {"event_ids": ["e"]}) as (server.hook, bodies):
        server.watch(server.film("tt1"), BEGAN, 0, 40 * MINUTE)
        server.watch(server.film("tt1"), BEGAN + 60 * MINUTE, 40 * MINUTE, 50 * MINUTE, hooks_are_lost=True)
    results = [one for body in bodies for one in parse(body)]
    reports = [one for one in results if isinstance(one, ParsedReport)]
    assert len(reports) == len(results)
    assert [(one.kind, one.position_ms, one.occurred_at) for one in reports] == [
        ("start", 0, BEGAN),
        ("progress", 20 * MINUTE, BEGAN + 20 * MINUTE),
        ("stop", 40 * MINUTE, BEGAN + 40 * MINUTE),
    ]
    assert {(one.upstream_user, one.upstream_media, one.duration_ms) for one in reports} == {(USER, FILM, 100 * MINUTE)}
    assert server.data[FILM]["PlayCount"] == 2


@pytest.mark.parametrize(("status", "body"), [(503, {}), (200, {"event_ids": []})])
def test_a_webhook_that_is_refused_or_says_nothing_ends_the_demo(
    server: Server, status: int, body: dict[str, Any]
) -> None:
    with door(status, body) as (server.hook, _), pytest.raises(RuntimeError, match="answered a webhook"):
        server.watch(server.film("tt1"), BEGAN, 0, 40 * MINUTE)


def test_it_is_on_loopback_and_gone_when_the_block_ends() -> None:
    one = Server("attic", USER, ())
    with answering(one):
        assert one.url.startswith("http://127.0.0.1:")
        assert httpx.get(f"{one.url}/Users").status_code == 401
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{one.url}/Users")
    assert one.key not in repr(one)


@contextmanager
def door(status: int, answer: dict[str, Any]) -> Iterator[tuple[str, list[bytes]]]:
    """Where webhooks go, and their bodies."""
    bodies: list[bytes] = []

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            content = json.dumps(answer).encode()
            self.send_response_only(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    http = HTTPServer(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}/hooks/jellyfin/token", bodies
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
