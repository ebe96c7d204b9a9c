"""Fake media servers on loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp


@asynccontextmanager
async def running(app: ASGIApp, port: int = 0) -> AsyncIterator[str]:
    """The address of ``app`` while it answers."""
    # With its protocol named: only then asyncio sends small writes at once (TCP_NODELAY).
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    server = uvicorn.Server(
        # Without a date: where a server tells the time, the fake does, by its own clock.
        uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", date_header=False, ws="none")
    )
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        while not server.started:
            await asyncio.sleep(0.005)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        server.force_exit = True
        await serving
        listening.close()
