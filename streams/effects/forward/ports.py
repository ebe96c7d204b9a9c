"""A media server as the forwarder sees it."""

from __future__ import annotations

from typing import Protocol

from streams.domain.forwarding import Change, Has


class Server(Protocol):
    """One account's way to one server. All methods raise UpstreamError."""

    async def read(self, user: str, media: str) -> Has:
        """How the person's playback of ``media`` stands there. NotOffered when it has no such item."""
        ...

    async def write(self, user: str, media: str, has: Has, change: Change) -> None:
        """Make it so. ``has``: what was read just before. Done once for each call, and never tried again by itself."""
        ...
