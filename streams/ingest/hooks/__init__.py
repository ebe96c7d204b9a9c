"""Parsers of what media servers and players send: bytes in, results out, nothing else.

`parse` is pure and total: any bytes give a list of results, no input raises, and nothing of a secret or
an address in the input is in the output. One module per format; README.md tells how to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from streams.ingest.hooks import audiobookshelf, emby, jellyfin, listenbrainz, native, plex, subsonic
from streams.ingest.hooks.known import Census
from streams.ingest.hooks.result import (
    Ignored,
    Listen,
    Observation,
    ParsedReport,
    Rejected,
    Result,
    as_json,
)

__all__ = [
    "FORMATS",
    "Census",
    "Ignored",
    "Listen",
    "Observation",
    "ParsedReport",
    "Rejected",
    "Result",
    "as_json",
    "parse",
]


Parser: TypeAlias = Callable[[bytes, Census | None], list[Result]]
"""What each format's module offers as `parse`."""

FORMATS: Final[Mapping[str, Parser]] = MappingProxyType(
    {
        "jellyfin": jellyfin.parse,
        "plex": plex.parse,
        "emby": emby.parse,
        "audiobookshelf": audiobookshelf.parse,
        "listenbrainz": listenbrainz.parse,
        "subsonic": subsonic.parse,
        "native": native.parse,
    }
)


def parse(
    format: str,
    body: bytes,
    content_type: str | None = None,  # noqa: ARG001 - tells nothing: the Jellyfin plugin says text/plain of its JSON
    census: Census | None = None,
) -> list[Result]:
    """The results of one body, in the order of the input; at least one for all formats but native,
    whose empty {"reports": []} has none. An unknown format is one Rejected. `census` counts unknown fields.
    The body decides, whatever its content type says."""
    parser = FORMATS.get(format)
    if parser is None:
        return [Rejected("unknown_format", f"the formats are {', '.join(FORMATS)}")]
    return parser(body, census)
