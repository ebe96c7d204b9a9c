"""What a poller of one kind of server hands over: its lists, page by page, as statements."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from streams.ingest.hooks.checks import guarded
from streams.ingest.hooks.fields import Fields
from streams.ingest.hooks.result import Ignored, Observation, ParsedReport, Rejected, Result
from streams.ingest.pollers.news import News
from streams.ingest.pollers.statements import Statement, Stopped
from streams.runtime.polls import Key, Seen


@dataclass(frozen=True, slots=True)
class Page:
    """``unusable``: entries that can't be reports (positions of -3 or "abc", no user), left out."""

    statements: tuple[Statement, ...]
    unusable: int = 0


Pages: TypeAlias = AsyncIterator[Page]


@dataclass(frozen=True, slots=True)
class Listing:
    """One list of a server. ``newest_first``: a page without news ends it, unless everything is swept.

    ``whole``: what was seen in the list and is in none of its pages has stopped; ``ended`` says how.
    """

    name: str
    pages: Callable[[], Pages]
    newest_first: bool = False
    whole: bool = False


class ServerPoller(Protocol):
    """A poller of one server. Its pages raise UpstreamError.

    What most servers have nothing special for has its plain answer here, for those that inherit.
    """

    def lists(self, *, sweep: bool) -> list[Listing]:
        """What to read now; with ``sweep`` all there is, else what is likely to have changed."""
        ...

    def speaks_for(self, user: str) -> bool:
        """Whether this poller reads what the person plays; else its silence about them says nothing."""
        ...

    async def stopped(self, key: Key, seen: Seen) -> Stopped:
        """What the server kept of something that plays no more: nothing, unless it says where that ended."""
        del seen
        return Stopped(key)

    def news(self) -> AsyncGenerator[News, None] | None:
        """A connection to the server's push channel: EVERYTHING when it is open, then what changes. None: it has none.

        Ends with an UpstreamError, never otherwise.
        """
        return None

    def settled(self) -> None:
        """Everything that was read is taken care of: nothing to do where answers have no ETag."""
        return

    def unsettled(self) -> None:
        """Some of it may have been lost, and must be read again: as it is anyway where answers have no ETag."""
        return


def usable(results: Iterable[Result]) -> tuple[list[ParsedReport], int]:
    """Reports among the results of a parser, and how many were refused."""
    reports: list[ParsedReport] = []
    refused = 0
    for result in results:
        match result:
            case ParsedReport():
                reports.append(result)
            case Rejected():
                refused += 1
            case Ignored() | Observation():
                pass
    return reports, refused


def read_each(entries: Iterable[object], parse_one: Callable[[Fields], Result]) -> tuple[list[ParsedReport], int]:
    """Each entry on its own, so that a bad one is left out alone."""
    return usable(guarded(parse_one, Fields(entry)) for entry in entries)
