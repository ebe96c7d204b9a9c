"""A socket made without its protocol is accepted without TCP_NODELAY, and each kept connection waits for an ACK."""

from __future__ import annotations

import asyncio
import socket

from streams.cli.serve import listen


def test_the_door_sends_what_it_has_at_once() -> None:
    async def scenario() -> int:
        accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        server = await asyncio.start_server(serve, sock=listen("127.0.0.1", 0))
        async with server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            try:
                return await accepted
            finally:
                writer.close()

    assert asyncio.run(scenario()) != 0
