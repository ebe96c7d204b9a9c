"""How each kind of server is told: the one place that knows them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streams.effects.forward.jellyfin import JellyfinServer
from streams.effects.forward.ports import Server
from streams.runtime.clock import Clock
from streams.runtime.errors import ConfigurationError
from streams.runtime.upstreams import Account, UpstreamEntry
from streams.upstream import jellyfin
from streams.upstream.http import Limits, Upstream
from streams.upstream.origin import Origin

TOLD: Final = ("jellyfin",)


def server_of(
    entry: UpstreamEntry, account: Account, secret: str, limits: Limits, clock: Clock
) -> tuple[Upstream, Server]:
    """A session as this account. Asks nothing yet. Raises NotAllowed, ConfigurationError."""
    if entry.kind not in TOLD:
        raise ConfigurationError(f"a source of kind {entry.kind} can't be told of progress")
    upstream = Upstream(
        Origin.of(entry.url),
        verify_tls=entry.verify_tls,
        headers=_headers(entry.kind, secret),
        limits=limits,
        clock=clock,
    )
    return upstream, _server(entry.kind, upstream)


def account_for(entry: UpstreamEntry, user: str) -> Account | None:
    """Whose secret tells the server of this person: the person's own, else one that may speak for all."""
    accounts: Sequence[Account] = entry.accounts
    own = next((account for account in accounts if account.name == user), None)
    return own or next((account for account in accounts if not account.name), None)


def _headers(kind: str, secret: str) -> dict[str, str]:
    match kind:
        case "jellyfin":
            return jellyfin.headers(secret)
        case _:
            return {}


def _server(kind: str, upstream: Upstream) -> Server:
    match kind:
        case _:
            return JellyfinServer(jellyfin.Jellyfin(upstream))
