"""What Jellyfin and Emby share: ids, item types and library news of their common ancestor MediaBrowser."""

from __future__ import annotations

import re
from typing import Final, Literal

from streams.ingest.hooks.checks import Refuse
from streams.ingest.hooks.fields import Fields, provider_ids
from streams.ingest.hooks.result import MediaKind, Observation

_GUID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
_NO_GUID: Final = "0" * 32

_MEDIA_KINDS: Final[dict[str, MediaKind]] = {
    "movie": "video",
    "episode": "video",
    "video": "video",
    "musicvideo": "video",
    "trailer": "video",
    "recording": "video",
    "audio": "music",
    "audiobook": "audiobook",
    "podcast": "podcast",
    "livetv": "live",
    "livetvchannel": "live",
    "livetvprogram": "live",
    "tvchannel": "live",
    "channel": "live",
    "program": "live",
}
# Things that hold playable things. Their parts are told one by one, so their own news would count twice.
CONTAINERS: Final = frozenset(
    {"series", "season", "boxset", "folder", "collectionfolder", "userview", "playlist", "musicalbum"}
    | {"musicartist", "musicgenre", "genre", "studio", "person", "photoalbum", "aggregatefolder"}
)


def canonical_guid(identifier: str | None) -> str | None:
    """One spelling for one guid: 32 lower-case hex digits, for REST and templates differ in hyphens.

    The guid of zeros names nothing: None. What is no guid stays as it is.
    """
    if identifier is None or not _GUID.fullmatch(identifier):
        return identifier
    plain = identifier.replace("-", "").lower()
    return None if plain == _NO_GUID else plain


def media_kind(item_type: str | None) -> MediaKind | None:
    """The kind of media behind an item type; None for types that tell nothing (Book, Photo)."""
    return _MEDIA_KINDS.get((item_type or "").lower())


def nested_observation(item: Fields, change: Literal["added", "removed"]) -> Observation:
    """Library news about an item in the servers' own object shape."""
    identifier = canonical_guid(item.identifier("Id"))
    if identifier is None:
        raise Refuse("missing_media", "the payload names no item")
    item_type = item.word("Type")
    providers = item.child("ProviderIds")
    return Observation(
        change=change,
        upstream_media=identifier,
        name=item.text("Name"),
        item_kind=item_type.lower() if item_type else None,
        provider_ids=provider_ids({name: providers.raw(name) for name in providers.names()}),
    )
