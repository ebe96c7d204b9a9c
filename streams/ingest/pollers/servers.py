"""The pollers of a source: one for each account, or one for a key that sees everybody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import cast

from streams.ingest.pollers.audiobookshelf import AudiobookshelfPoller
from streams.ingest.pollers.jellyfin import JellyfinPoller
from streams.ingest.pollers.lists import ServerPoller
from streams.ingest.pollers.plex import PlexPoller
from streams.ingest.pollers.subsonic import SubsonicPoller
from streams.runtime.clock import Clock
from streams.runtime.errors import ConfigurationError
from streams.runtime.upstreams import Account, UpstreamEntry
from streams.upstream import audiobookshelf, jellyfin, plex
from streams.upstream.http import Limits, Upstream
from streams.upstream.origin import Origin
from streams.upstream.subsonic import Login, Subsonic


@asynccontextmanager
async def pollers_of(
    entry: UpstreamEntry, clock: Clock, limits: Limits | None = None
) -> AsyncIterator[list[ServerPoller]]:
    """Pollers with a session to the server each. Asks nothing yet.

    Raises NotAllowed for an address nothing may be asked of, ConfigurationError for a secret that can't be read.
    """
    origin = Origin.of(entry.url)
    async with AsyncExitStack() as stack:
        found: list[ServerPoller] = []
        for account in entry.accounts:
            upstream = Upstream(
                origin,
                verify_tls=entry.verify_tls,
                headers=_headers(entry.kind, account),
                limits=limits,
                clock=clock,
            )
            found.append(_poller(entry.kind, account, await stack.enter_async_context(upstream), clock))
        yield found


def _headers(kind: str, account: Account) -> dict[str, str]:
    match kind:
        case "jellyfin":
            return jellyfin.headers(account.reveal())
        case "audiobookshelf":
            return audiobookshelf.headers(account.reveal())
        case "plex":
            return plex.headers(account.reveal())
        case _:
            return {}


def _poller(kind: str, account: Account, upstream: Upstream, clock: Clock) -> ServerPoller:
    match kind:
        case "jellyfin":
            return JellyfinPoller(jellyfin.Jellyfin(upstream), clock)
        case "audiobookshelf":
            return AudiobookshelfPoller(audiobookshelf.Audiobookshelf(upstream, account.reveal()), upstream)
        case "plex":
            return PlexPoller(plex.Plex(upstream), clock)
        case "subsonic":
            login = cast(Login, account.login)
            return SubsonicPoller(Subsonic(upstream, account.name, account.reveal(), login), clock)
        case _:
            raise ConfigurationError(f"a source of kind {kind} can't be polled")
