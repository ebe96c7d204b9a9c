"""News of the library in hooks: items that a server says it has, or has no more, as observations of the log.

They are seen outside of any scan, so they carry no generation; what they mean, beside what scans saw, is for the
library agent to say. A server's news of what holds others (a series, an album, a folder) is none of an item.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import Final

from schemas.library import ItemDetails, ItemObserved, ItemRemovalObserved, ProviderId
from schemas.topics import LIBRARY_OBSERVED
from streams.ingest.hooks import Observation
from streams.runtime.commands import command_partition
from streams.runtime.contract import Contract
from streams.runtime.publisher import Record
from streams.runtime.tokens import Principal

HOLD_OTHERS: Final = frozenset(
    {
        *("series", "season", "show", "podcast"),
        *("album", "artist", "musicalbum", "musicartist", "musicgenre"),
        *("boxset", "collection", "playlist", "manualplaylistsfolder"),
        *("folder", "aggregatefolder", "basepluginfolder", "collectionfolder", "userrootfolder", "userview"),
        *("channel", "livetvchannel", "livetvprogram", "program"),
        *("genre", "person", "photo", "photoalbum", "studio", "year"),
    }
)
_MEDIA_KINDS: Final = {
    **dict.fromkeys(("movie", "episode", "video", "musicvideo", "clip"), "video"),
    **dict.fromkeys(("audio", "track", "song"), "music"),
    **dict.fromkeys(("audiobook", "book"), "audiobook"),
}
_ITEM_KINDS: Final = {"audio": "track", "song": "track", "audiobook": "book", "clip": "video"}
_PROVIDERS: Final = {
    **{name: name for name in ("imdb", "tmdb", "tvdb", "mbid", "isbn", "asin")},
    "musicbrainztrack": "mbid",
    "musicbrainzrecording": "mbid",
}
PROVIDER_IDS_MAX: Final = 16

Seen = ItemObserved | ItemRemovalObserved


def is_of_an_item(news: Observation) -> bool:
    return news.item_kind not in HOLD_OTHERS


def seen_of(
    news: Observation,
    index: int,
    source_id: str,
    principal: Principal,
    *,
    received_at: int,
    correlation_id: str,
    idempotency_key: str | None,
) -> Seen:
    """The observation that ``news``, the ``index``-th of its request, becomes."""
    event_id = uuid.uuid4().hex
    if idempotency_key is not None:
        text = f"news\0{principal.token_id}\0{idempotency_key}\0{index}"
        event_id = hashlib.sha256(text.encode()).hexdigest()[:32]
    if news.change == "removed":
        return ItemRemovalObserved(
            event_id=event_id,
            correlation_id=correlation_id,
            source_id=source_id,
            received_at=received_at,
            upstream_id=news.upstream_media,
            how="hook",
        )
    return ItemObserved(
        event_id=event_id,
        correlation_id=correlation_id,
        source_id=source_id,
        received_at=received_at,
        how="hook",
        upstream_id=news.upstream_media,
        details=_details(news),
    )


def _details(news: Observation) -> ItemDetails:
    """Only what the hook says; what is not said is null, and no version is known."""
    kind = news.item_kind
    ids = {(_PROVIDERS[name], value) for name, value in news.provider_ids.items() if name in _PROVIDERS}
    return ItemDetails(
        version=None,
        content_hash=None,
        media_kind=_MEDIA_KINDS.get(kind or ""),
        item_kind=None if kind is None else _ITEM_KINDS.get(kind, kind),
        title=news.name,
        duration_ms=None,
        year=None,
        number=None,
        part=None,
        artists=(),
        provider_ids=tuple(ProviderId(name, value) for name, value in sorted(ids)[:PROVIDER_IDS_MAX]),
        collections=(),
    )


def observed_record(contract: Contract, seen: Seen) -> Record:
    """The record of library.observed."""
    key = seen.source_id.encode()
    return Record(LIBRARY_OBSERVED.name, command_partition(seen.source_id), key, contract.encode(seen))
