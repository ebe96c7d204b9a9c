"""How each kind of server is told: the one place that knows them all."""

from __future__ import annotations

from typing import cast

from streams.effects.forward.audiobookshelf import AudiobookshelfServer
from streams.effects.forward.jellyfin import EmbyServer, JellyfinServer
from streams.effects.forward.listenbrainz import ListenBrainzServer
from streams.effects.forward.plex import PlexServer
from streams.effects.forward.ports import Server
from streams.effects.forward.subsonic import SubsonicServer
from streams.runtime.clock import Clock
from streams.runtime.errors import ConfigurationError
from streams.runtime.upstreams import Account, UpstreamEntry
from streams.upstream import audiobookshelf, emby, jellyfin, listenbrainz, plex
from streams.upstream.http import Limits, Upstream
from streams.upstream.origin import Origin
from streams.upstream.subsonic import Login, Subsonic


def server_of(
    entry: UpstreamEntry, account: Account, secret: str, limits: Limits, clock: Clock
) -> tuple[Upstream, Server]:
    """A session as this account. Asks nothing yet. Raises NotAllowed, ConfigurationError."""
    upstream = Upstream(
        Origin.of(entry.url),
        verify_tls=entry.verify_tls,
        headers=_headers(entry.kind, secret),
        limits=limits,
        clock=clock,
    )
    return upstream, _server(entry.kind, upstream, account, secret)


def _headers(kind: str, secret: str) -> dict[str, str]:
    match kind:
        case "jellyfin":
            return jellyfin.headers(secret)
        case "emby":
            return emby.headers(secret)
        case "audiobookshelf":
            return audiobookshelf.headers(secret)
        case "plex":
            return plex.headers(secret)
        case "listenbrainz":
            return listenbrainz.headers(secret)
        case _:
            return {}


def _server(kind: str, upstream: Upstream, account: Account, secret: str) -> Server:
    match kind:
        case "jellyfin":
            return JellyfinServer(jellyfin.Jellyfin(upstream))
        case "emby":
            return EmbyServer(emby.Emby(upstream))
        case "audiobookshelf":
            return AudiobookshelfServer(audiobookshelf.Audiobookshelf(upstream, secret))
        case "plex":
            return PlexServer(plex.Plex(upstream), account.name)
        case "subsonic":
            return SubsonicServer(Subsonic(upstream, account.name, secret, cast(Login, account.login)))
        case "listenbrainz":
            return ListenBrainzServer(listenbrainz.ListenBrainz(upstream), account.name)
        case _:
            raise ConfigurationError(f"a source of kind {kind} can't be told of progress")
