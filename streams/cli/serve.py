"""``playhead serve``: the door for reports and webhooks, and the read API, on one port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

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
    server = uvicorn.Server(
        uvicorn.Config(
            application(settings),
            host=settings.http.host,
            port=settings.http.port,
            access_log=False,
            log_config=None,
            server_header=False,
            # Requests under way are answered before the process ends.
            timeout_graceful_shutdown=10,
            limit_concurrency=settings.http.requests_at_once_max * 4,
        )
    )
    server.run()


def application(settings: Settings) -> FastAPI:
    """The HTTP application of this role. Connects when its lifespan begins, not before."""
    from projections.api import Names, ReadModels, api_router
    from streams.ingest.http import ingest_router
    from streams.ingest.wiring import Ingest
    from streams.runtime import failpoints
    from streams.runtime.clock import SystemClock
    from streams.runtime.contract import Contract
    from streams.runtime.database import Database
    from streams.runtime.people import PostgresAliases, PostgresPeople
    from streams.runtime.web import build_app

    clock = SystemClock()
    ingest = Ingest(settings, Contract.of(settings), clock, failpoints.armed(settings.failpoints))
    read = ReadModels(Database(settings.postgres.conninfo("reader"), clock=clock))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with ingest, read:
            yield

    app = build_app(
        "Playhead",
        lifespan=lifespan,
        checks={**ingest.checks, "read models": read.probe},
        description="Media libraries and playback positions, right on every device.",
    )
    app.include_router(ingest_router(ingest.door, ingest.guard))
    names = Names(PostgresPeople(ingest.database), PostgresAliases(ingest.database))
    app.include_router(api_router(read, names, ingest.guard))
    return app
