"""Limits as a real HTTP server keeps them: refused before the body is read, and slow senders let go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

import uvicorn

from streams.runtime.edge import Limits
from tests.ingest.fakes import World, progress

T = TypeVar("T")
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def serving(world: World, scene: Callable[[Callable[[], Awaitable[Connection]]], Awaitable[T]]) -> T:
    """``scene`` with a function that opens connections to a server of the world's application."""

    async def inside() -> T:
        config = uvicorn.Config(world.app, port=0, log_config=None, access_log=False, lifespan="off")
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            return await scene(lambda: asyncio.open_connection("127.0.0.1", port))
        finally:
            server.should_exit = True
            await task

    return asyncio.run(inside())


def head(world: World, *lines: str, token: str | None = None) -> bytes:
    first = ["POST /v1/playback HTTP/1.1", "Host: door", f"Authorization: Bearer {token or world.report}"]
    return "\r\n".join([*first, "Content-Type: application/json", *lines, "", ""]).encode()


async def status_of(reader: asyncio.StreamReader) -> int:
    line = await asyncio.wait_for(reader.readline(), 10)
    return int(line.split()[1])


def test_a_length_over_the_limit_is_refused_before_a_byte_of_the_body() -> None:
    world = World()

    async def scene(connect: Callable[[], Awaitable[Connection]]) -> tuple[int, bytes]:
        reader, writer = await connect()
        writer.write(head(world, "Content-Length: 1048577"))
        status = await status_of(reader)
        rest = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return status, rest

    status, rest = serving(world, scene)
    assert status == 413
    assert b"application/problem+json" in rest


def test_an_endless_chunked_body_is_cut_at_the_limit() -> None:
    world = World()

    async def scene(connect: Callable[[], Awaitable[Connection]]) -> int:
        reader, writer = await connect()
        writer.write(head(world, "Transfer-Encoding: chunked"))
        chunk = b"10000\r\n" + b"[" * 0x10000 + b"\r\n"
        for _ in range(20):
            writer.write(chunk)
        status = await status_of(reader)
        writer.close()
        return status

    assert serving(world, scene) == 413


def test_a_sender_that_stops_in_the_middle_gets_408_and_its_place_is_free_again() -> None:
    world = World(limits=Limits(requests_at_once_max=1, body_timeout_s=0.2))

    async def scene(connect: Callable[[], Awaitable[Connection]]) -> list[int]:
        reader, writer = await connect()
        writer.write(head(world, "Content-Length: 1000") + b"{")
        statuses = [await status_of(reader)]
        body = json.dumps(progress()).encode()
        second, again = await connect()
        again.write(head(world, f"Content-Length: {len(body)}") + body)
        statuses.append(await status_of(second))
        writer.close()
        again.close()
        return statuses

    assert serving(world, scene) == [408, 202]


def test_a_sender_that_hangs_up_in_the_middle_leaves_nothing_behind() -> None:
    world = World(limits=Limits(requests_at_once_max=1))

    async def scene(connect: Callable[[], Awaitable[Connection]]) -> int:
        _, writer = await connect()
        writer.write(head(world, "Content-Length: 1000") + b"{")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        body = json.dumps(progress()).encode()
        status = 503
        while status == 503:
            reader, again = await connect()
            again.write(head(world, f"Content-Length: {len(body)}") + body)
            status = await status_of(reader)
            again.close()
        return status

    assert serving(world, scene) == 202
    assert len(world.reported()) == 1


def test_nesting_just_over_32_is_refused_and_a_megabyte_of_it_too() -> None:
    world = World()
    for depth in (33, 40, 500_000):
        body = b"[" * depth + b"]" * depth
        answer = asyncio.run(
            world.post("/v1/playback", content=body, token=world.report, Content_Type="application/json")
        )
        assert (answer.status_code, answer.json()["rejected"][0]["reason"]) == (422, "too_deep")
