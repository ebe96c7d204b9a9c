"""A media server as a source: everything it lists is told, with details; the agent compares."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, cast

from streams.effects.scan.ports import Found, Look, Sighting, SourceFailed, Tally
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.errors import ConfigurationError
from streams.runtime.upstreams import Account, UpstreamEntry
from streams.upstream import audiobookshelf, jellyfin
from streams.upstream.errors import UpstreamError
from streams.upstream.http import Limits, Upstream
from streams.upstream.libraries import AudiobookshelfLibrary, JellyfinLibrary, SubsonicLibrary
from streams.upstream.listing import Library, Listed, ServerItem, everything
from streams.upstream.origin import Origin
from streams.upstream.subsonic import Login, Subsonic

LISTABLE: Final = ("subsonic", "jellyfin", "audiobookshelf")


@dataclass(frozen=True, slots=True)
class ServerSource:
    """``entry`` of a kind in LISTABLE; its first account reads. Case never folds: the server knows its names."""

    entry: UpstreamEntry
    clock: Clock
    limits: Limits | None = None

    @contextmanager
    def opened(self) -> Iterator[ServerListing]:
        """Asks nothing yet. Raises SourceFailed(upstream) for an address nothing may be asked of, ConfigurationError
        for a secret that can't be read or a kind that can't be listed."""
        with asyncio.Runner() as runner:
            stack = AsyncExitStack()
            try:
                library = runner.run(self._library(stack))
                yield ServerListing(library, runner, Tally(complete=False))
            except UpstreamError as exc:
                raise SourceFailed("upstream", f"{exc.cause}: {exc}") from exc
            finally:
                runner.run(stack.aclose())

    async def _library(self, stack: AsyncExitStack) -> Library:
        entry = self.entry
        if entry.kind not in LISTABLE or not entry.accounts:
            raise ConfigurationError(
                f"a source of kind {entry.kind} with {len(entry.accounts)} accounts can't be listed"
            )
        account = entry.accounts[0]
        upstream = await stack.enter_async_context(
            Upstream(
                Origin.of(entry.url),
                verify_tls=entry.verify_tls,
                headers=_headers(entry.kind, account),
                limits=self.limits,
                clock=self.clock,
            )
        )
        match entry.kind:
            case "subsonic":
                login = cast(Login, account.login)
                return SubsonicLibrary(Subsonic(upstream, account.name, account.reveal(), login))
            case "jellyfin":
                return JellyfinLibrary(jellyfin.Jellyfin(upstream))
            case _:
                return AudiobookshelfLibrary(audiobookshelf.Audiobookshelf(upstream, account.reveal()))


@dataclass(frozen=True, slots=True)
class ServerListing:
    library: Library
    runner: asyncio.Runner
    tally: Tally
    case_folds: bool = False

    def batches(self, look: Look, *, full: bool) -> Iterator[list[Found]]:  # noqa: ARG002 (both are of files)
        """Raises SourceFailed(upstream): a page that can't be read is never the end of a list."""
        listed = Listed()
        pages = everything(self.library, listed)
        try:
            while (page := self.runner.run(_next(pages))) is not None:
                yield [Sighting(item.locator, item.upstream_id, details=item.details) for item in page]
        except UpstreamError as exc:
            raise SourceFailed("upstream", f"{exc.cause}: {exc}") from exc
        finally:
            self.runner.run(pages.aclose())
        self.tally.complete = listed.complete
        self.tally.skipped |= listed.skipped


async def _next(pages: AsyncGenerator[list[ServerItem], None]) -> list[ServerItem] | None:
    return await anext(pages, None)


def _headers(kind: str, account: Account) -> dict[str, str]:
    match kind:
        case "jellyfin":
            return jellyfin.headers(account.reveal())
        case "audiobookshelf":
            return audiobookshelf.headers(account.reveal())
        case _:
            return {}


def server_source(entry: UpstreamEntry, clock: Clock | None = None, limits: Limits | None = None) -> ServerSource:
    """The source behind an operator's entry."""
    return ServerSource(entry, clock or SystemClock(), limits)
