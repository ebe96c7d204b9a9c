"""A media server as the forwarder sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from streams.domain.forwarding import Change, Has, Play


@dataclass(frozen=True, slots=True)
class Thing:
    """What is told about. ``media``: the server's id of it. ``plays``: those it may be told of. The rest is for servers
    that know no ids of media."""

    media: str
    plays: tuple[Play, ...] = ()
    title: str | None = None
    artists: tuple[str, ...] = ()
    duration_ms: int | None = None
    recording_id: str | None = None


class Server(Protocol):
    """One account's way to one server. All methods raise UpstreamError."""

    async def speaks_for(self, user: str) -> bool:
        """Whether what is written as this account is written to this person's data."""
        ...

    async def read(self, user: str, thing: Thing) -> Has:
        """How the person's playback of it stands there. NotOffered when it has no such item."""
        ...

    async def write(self, user: str, thing: Thing, has: Has, change: Change) -> None:
        """Make it so. ``has``: what was read just before. Each thing is said once, and never again by itself."""
        ...
