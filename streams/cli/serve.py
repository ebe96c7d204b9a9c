"""``playhead serve``: the door for reports and webhooks, and the read API, on one port."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from streams.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from streams.runtime.settings import Settings


def serve() -> None:
    """Answer HTTP until SIGTERM or Ctrl-C: reports and webhooks in, progress, history and explanations out.

    A report is answered with 202 only when Kafka has it on all replicas.

    Example:  PLAYHEAD_HTTP__PORT=8420 playhead serve
    """
    import uvicorn

    from streams.cli import role

    settings = role.begin("serve")
    listening = listen(settings.http.host, settings.http.port)
    app = application(settings)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            access_log=False,
            log_config=None,
            server_header=False,
            # Requests under way are answered before the process ends.
            timeout_graceful_shutdown=10,
            limit_concurrency=settings.http.requests_at_once_max * 4,
        )
    )
    # Those who listen for hours are not waited for.
    app.state.changes.ending = lambda: server.should_exit
    server.run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises ConfigurationError when it can't, saying what to do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, or asyncio leaves Nagle's algorithm on: 40 ms an answer on a connection that is kept.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)
    except OSError as exc:
        listening.close()
        raise ConfigurationError(
            f"can't listen on {host}:{port} ({exc.strerror}): set PLAYHEAD_HTTP__HOST and PLAYHEAD_HTTP__PORT, "
            "or stop what is using it"
        ) from exc
    return listening


def application(settings: Settings) -> FastAPI:
    """The HTTP application of this role. Connects when its lifespan begins, not before."""
    from projections.api import (
        CachedLibraryModels,
        CachedReadModels,
        ChangeHub,
        Names,
        api_router,
        changes_router,
        corrections_router,
        library_router,
    )
    from streams.ingest.http import ingest_router
    from streams.ingest.wiring import Ingest
    from streams.runtime import failpoints
    from streams.runtime.cache import Cache, url_of
    from streams.runtime.clock import SystemClock
    from streams.runtime.contract import Contract
    from streams.runtime.database import Database
    from streams.runtime.edge import Limits
    from streams.runtime.people import PostgresAliases, PostgresPeople
    from streams.runtime.web import build_app

    clock = SystemClock()
    contract = Contract.of(settings)
    ingest = Ingest(settings, contract, clock, failpoints.armed(settings.failpoints))
    reader = Database(settings.postgres.conninfo("reader"), clock=clock)
    cache = Cache(url_of(settings), clock=clock)
    read = CachedReadModels(reader, cache)
    hub = ChangeHub(settings.kafka, contract, cache)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with ingest, read, hub:
            yield

    app = build_app(
        "Playhead",
        lifespan=lifespan,
        limits=Limits(
            requests_at_once_max=settings.http.requests_at_once_max,
            per_address_s=settings.http.requests_per_address_s,
        ),
        checks={**ingest.checks, "read models": read.probe},
        description="Media libraries and playback positions, right on every device.",
    )
    app.include_router(ingest_router(ingest.door, ingest.guard, ingest.commands))
    names = Names(PostgresPeople(ingest.database), PostgresAliases(ingest.database))
    app.include_router(api_router(read, names, ingest.guard))
    app.include_router(corrections_router(read, names, ingest.door, ingest.guard, clock))
    app.include_router(library_router(CachedLibraryModels(reader, cache), names, ingest.guard))
    app.include_router(changes_router(hub, names, ingest.guard, clock=clock))
    app.state.changes = hub
    return app
