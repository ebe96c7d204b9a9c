"""One work in many editions: its id follows from the ids catalogues give it."""

from __future__ import annotations

import xxhash

from schemas.library import ItemDetails, ProviderId

#: Strongest first; a catalogue that is not named here says nothing about works.
_CATALOGUES = ("imdb", "tmdb", "tvdb", "mbid", "isbn", "asin")
#: These number films apart from series.
_BY_KIND = frozenset(("tmdb", "tvdb"))


def work_id(details: ItemDetails | None) -> str | None:
    """32 hex digits, the same for all media with this catalogue id, in every source; None without one."""
    if details is None:
        return None
    for catalogue in _CATALOGUES:
        for found in details.provider_ids:
            if found.provider == catalogue:
                return str(xxhash.xxh3_128_hexdigest("\0".join(("work", *_named(found, details))).encode()))
    return None


def provider_keys(details: ItemDetails | None) -> list[bytes]:
    """What each catalogue id is found by."""
    if details is None:
        return []
    return [
        "\0".join(_named(found, details)).encode() for found in details.provider_ids if found.provider in _CATALOGUES
    ]


def _named(found: ProviderId, details: ItemDetails) -> tuple[str, str, str]:
    return found.provider, (details.item_kind or "") if found.provider in _BY_KIND else "", found.id
