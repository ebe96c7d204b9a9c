"""The names of fields that payloads are known to have, and the count of those that are not among them.

A field nobody here has heard of is tolerated, and counted: a server's newer version may tell something worth
reading. Looked at are the places that tell of playback; what describes the item itself (titles, streams, tags) is
as long as each server likes and left out. Sources: jellyfin-plugin-webhook Helpers/DataObjectHelpers.cs, Plex'
webhook page, Emby's and Audiobookshelf's payloads as seen, ListenBrainz' and OpenSubsonic's documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Final, TypeAlias

from streams.ingest.hooks.result import ParsedReport

NAMES_MAX: Final = 64

Path: TypeAlias = tuple[str, ...]
"""Names from the root to the objects meant; lists on the way are gone through."""

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


class Census:
    """Counts unknown fields over any number of payloads; `names` holds the first of them, plain ones only."""

    __slots__ = ("names", "unknown")

    def __init__(self) -> None:
        self.unknown = 0
        self.names: set[str] = set()

    def count(self, format: str, document: object) -> None:
        """Count the unknown fields of one payload's JSON value, or of a call's parameters as a mapping."""
        for name in _strangers(format, document):
            self.unknown += 1
            if len(self.names) < NAMES_MAX and _PLAIN.fullmatch(name):
                self.names.add(name)


def count(census: Census | None, format: str, document: object) -> None:
    if census is not None:
        census.count(format, document)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_JELLYFIN: Final = _words("""
    serverid servername serverversion serverurl notificationtype timestamp utctimestamp name overview tagline itemid
    itemtype runtimeticks runtime year premieredate genres aspectratio seriesname seriesid seasonid seriespremieredate
    seasonnumber seasonnumber00 seasonnumber000 episodenumber episodenumber00 episodenumber000 episodenumberend
    episodenumberend00 episodenumberend000 airtime album artist playbackpositionticks playbackposition mediasourceid
    ispaused isautomated deviceid devicename clientname playmethod notificationusername userid playedtocompletion
    likes rating playcount favorite played audiostreamindex subtitlestreamindex lastplayeddate savereason
    remoteendpoint lastactivitydate lastlogindate id playsessionid applicationversion
    event item user session server additionaldata series
""")
_EMBY_SESSION: Final = _words("RemoteEndPoint Client DeviceName DeviceId ApplicationVersion Id Protocol")
_ABS: Final = _words("""
    id userId libraryId libraryItemId bookId episodeId mediaItemId mediaItemType mediaType mediaMetadata chapters
    displayTitle displayAuthor coverPath duration playMethod mediaPlayer deviceInfo serverVersion date dayOfWeek
    timeListening timeListened startTime currentTime startedAt updatedAt audioTracks libraryItem progress isFinished
    hideFromContinueListening ebookLocation ebookProgress finishedAt lastUpdate markAsFinishedTimeRemaining
    sessions mediaProgress event data
""")
_LISTEN_EXTRA: Final = _words("""
    recording_mbid release_mbid release_group_mbid artist_mbids artist_names track_mbid work_mbids isrc tracknumber
    tags duration duration_ms media_player media_player_version submission_client submission_client_version
    music_service music_service_name origin_url spotify_id spotify_artist_ids spotify_album_id artist_name
    discnumber listening_from release_artist_name release_artist_names
""")
_CALL: Final = _words("""
    u p t s apiKey c v f method callback id time submission current position currentIndex comment mediaId mediaType
    positionMs state playbackRate ignoreScrobble
""")

_KNOWN: Final[Mapping[str, Mapping[Path, frozenset[str]]]] = {
    "jellyfin": {
        (): _JELLYFIN,
        ("session", "playstate"): _words("""
            positionticks canseek ispaused ismuted volumelevel audiostreamindex subtitlestreamindex mediasourceid
            playmethod repeatmode playbackorder livestreamid
        """),
    },
    "plex": {
        (): _words("event user owner rating Account Server Player Metadata"),
        ("Account",): _words("id thumb title"),
        ("Server",): _words("title uuid"),
        ("Player",): _words("local publicAddress title uuid"),
    },
    "emby": {
        (): _words("Title Description Date Event Severity User Item Server Session PlaybackInfo"),
        ("User",): _words("Name Id"),
        ("Session",): _EMBY_SESSION,
        ("PlaybackInfo",): _words("PositionTicks PlaylistIndex PlaylistLength PlaySessionId PlayedToCompletion"),
    },
    "audiobookshelf": {
        (): _ABS | _words("deviceDescription"),
        ("sessions",): _ABS,
        ("mediaProgress",): _ABS,
    },
    "listenbrainz": {
        (): _words("listen_type payload"),
        ("payload",): _words("listened_at track_metadata user_name inserted_at recording_msid"),
        ("payload", "track_metadata"): _words("artist_name track_name release_name additional_info mbid_mapping"),
        ("payload", "track_metadata", "additional_info"): _LISTEN_EXTRA,
    },
    "subsonic": {
        (): _CALL | {"subsonic-response"},
        ("subsonic-response", "bookmarks", "bookmark"): _words("position username comment created changed entry"),
        ("subsonic-response", "playQueue"): _words("current position username changed changedBy entry"),
        ("subsonic-response", "playQueueByIndex"): _words("currentIndex position username changed changedBy entry"),
    },
    "native": {
        (): frozenset(field.name for field in fields(ParsedReport)) | {"reports", "logged_at"},
        ("reports",): frozenset(field.name for field in fields(ParsedReport)) | {"logged_at"},
    },
}
# Jellyfin: one field each for every provider and stream. Its templates, and its other plugin, choose their own case.
_FOLDED: Final = frozenset({"jellyfin"})
_NUMBERED: Final = re.compile(r"(?:provider|audio|video|subtitle)_.+")


def _strangers(format: str, document: object) -> Iterator[str]:
    folded = format in _FOLDED
    for path, names in _KNOWN[format].items():
        for found in _at(document, path, folded=folded):
            for name in found:
                spelled = name.lower() if folded else name
                if spelled not in names and not (folded and _NUMBERED.match(spelled)):
                    yield name


def _at(value: object, path: Path, *, folded: bool) -> Iterable[dict[str, object]]:
    """The objects that a path leads to."""
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield from _at(item, path, folded=folded)
    elif isinstance(value, dict):
        if not path:
            yield value
            return
        for name, inner in value.items():
            if (name.lower() if folded else name) == path[0]:
                yield from _at(inner, path[1:], folded=folded)
