"""All of ingest's routes."""

from __future__ import annotations

from fastapi import APIRouter

from streams.ingest.commands import Commands
from streams.ingest.door import Door
from streams.ingest.http import hooks, listenbrainz, playback, scans
from streams.runtime.web import Guard


def ingest_router(door: Door, guard: Guard, commands: Commands) -> APIRouter:
    """Mount it into an application of streams.runtime.web.build_app; ``door`` must be open when requests come."""
    router = APIRouter()
    router.include_router(playback.router(door, guard))
    router.include_router(hooks.router(door, guard))
    router.include_router(listenbrainz.router(door, guard))
    router.include_router(scans.router(commands, guard))
    return router
