"""One item of a server's list, as ItemDetails has it. What the server does not say stays unknown."""

from __future__ import annotations

import datetime
import re
from typing import Any, Final

from schemas.library import CollectionRef, ItemDetails, Locator, ProviderId
from streams.domain.library.limits import PATH_BYTES_MAX
from streams.upstream.details import (
    LIST_MAX,
    collection,
    facts_hash,
    identifier,
    number_in,
    text,
    texts,
    whole,
    year_in,
)
from streams.upstream.listing import Json, ServerItem

_SEQUENCE: Final = re.compile(r" #[^ ]+$")
_JELLYFIN_KINDS: Final = {
    "audio": ("music", "track"),
    "audiobook": ("audiobook", "book"),
    "musicvideo": ("video", "musicvideo"),
}
_SUBSONIC_KINDS: Final = {"podcast": ("podcast", "episode"), "audiobook": ("audiobook", "book")}
_PROVIDERS: Final = {"imdb": "imdb", "tmdb": "tmdb", "tvdb": "tvdb", "musicbrainztrack": "mbid"}


def of_subsonic(upstream_id: str, song: Json) -> ServerItem:
    """A song of any list."""
    duration_s, size = whole(song.get("duration")), whole(song.get("size"))
    artists = texts([_dict(one).get("name") for one in _list(song.get("artists"))]) or texts([song.get("artist")])
    title, album = text(song.get("title")), text(song.get("album"))
    number, part = number_in(song.get("track")), number_in(song.get("discNumber"))
    of_album = text(song.get("displayAlbumArtist")) or (artists[0] if artists else None)
    kinds = ("video", "video") if song.get("isVideo") is True else _SUBSONIC_KINDS.get(str(song.get("type")), None)
    media_kind, item_kind = kinds or ("music", "track")
    mbid = text(song.get("musicBrainzId"))
    return ServerItem(
        upstream_id,
        _locator(song.get("path"), size, None),
        ItemDetails(
            # `created` is the time of import, or of the file at its import: not of the last change.
            version=None,
            content_hash=_facts(
                size, duration_s, song.get("suffix"), song.get("bitRate"), title, artists, album, number, part
            ),
            media_kind=media_kind,
            item_kind=item_kind,
            title=title,
            duration_ms=duration_s * 1000 if duration_s is not None else None,
            year=year_in(song.get("year")),
            number=number,
            part=part,
            artists=artists,
            provider_ids=(ProviderId("mbid", mbid),) if mbid and len(mbid) == 36 else (),
            collections=_collections(
                collection("album", identifier(song.get("albumId")) or (album and [of_album or "", album]), album),
                collection("artist", identifier(song.get("artistId")) or of_album, of_album),
            ),
        ),
    )  # fmt: skip


def of_jellyfin(upstream_id: str, item: Json) -> ServerItem:
    kind = str(item.get("Type", "")).lower()
    media_kind, item_kind = _JELLYFIN_KINDS.get(kind, ("video", kind or None))
    ticks = whole(item.get("RunTimeTicks"))
    duration_ms = whole(ticks // 10_000) if ticks is not None else None
    files = [_dict(one) for one in _list(item.get("MediaSources"))]
    file = files[0] if files else {}
    size = whole(file.get("Size"))
    title, album = text(item.get("Name")), text(item.get("Album"))
    artists = texts(_list(item.get("Artists")))
    number, part = number_in(item.get("IndexNumber")), number_in(item.get("ParentIndexNumber"))
    ids = {_PROVIDERS.get(name.lower()): text(value) for name, value in _dict(item.get("ProviderIds")).items()}
    people = [_dict(one) for one in _list(item.get("AlbumArtists")) or _list(item.get("ArtistItems"))]
    person = people[0] if people else {}
    return ServerItem(
        upstream_id,
        _locator(item.get("Path"), size, None),
        ItemDetails(
            version=_time_ms(item.get("DateLastSaved")),
            content_hash=_facts(
                size, duration_ms, file.get("Container"), file.get("Bitrate"), title, artists, album, number, part
            ),
            media_kind=media_kind,
            item_kind=item_kind,
            title=title,
            duration_ms=duration_ms,
            year=year_in(item.get("ProductionYear")),
            number=number,
            part=part,
            artists=artists,
            provider_ids=tuple(ProviderId(name, value) for name, value in sorted(
                (name, value) for name, value in ids.items() if name and value and identifier(value))),
            collections=_collections(
                collection("album", identifier(item.get("AlbumId")), album),
                collection("artist", identifier(person.get("Id")), text(person.get("Name"))),
                collection("series", identifier(item.get("SeriesId")), text(item.get("SeriesName"))),
                collection("season", identifier(item.get("SeasonId")), text(item.get("SeasonName"))),
            ),
        ),
    )  # fmt: skip


def of_book(upstream_id: str, item: Json) -> ServerItem:
    media = _dict(item.get("media"))
    meta = _dict(media.get("metadata"))
    size = whole(item.get("size")) or whole(media.get("size"))
    duration_ms = _seconds(media.get("duration"))
    # Minified: names in one text, a series with its number behind it.
    authors = texts(str(meta.get("authorName") or "").split(", "))
    title = text(meta.get("title"))
    series = texts(_SEQUENCE.sub("", one) for one in str(meta.get("seriesName") or "").split(", "))
    ids = [(name, text(meta.get(name))) for name in ("asin", "isbn")]
    return ServerItem(
        upstream_id,
        _locator(item.get("path") or item.get("relPath"), size, whole(item.get("mtimeMs"))),
        ItemDetails(
            version=whole(item.get("updatedAt")),
            content_hash=_facts(size, duration_ms, None, media.get("numTracks"), title, authors, None, None, None),
            media_kind="audiobook",
            item_kind="book",
            title=title,
            duration_ms=duration_ms,
            year=year_in(meta.get("publishedYear")),
            number=None,
            part=None,
            artists=authors,
            provider_ids=tuple(ProviderId(name, value) for name, value in ids if value and identifier(value)),
            collections=_collections(
                *(collection("author", author, author) for author in authors),
                *(collection("series", name, name) for name in series),
            ),
        ),
    )


def of_episode(upstream_id: str, item: Json, episode: Json) -> ServerItem:
    file = _dict(episode.get("audioFile"))
    meta = _dict(file.get("metadata"))
    size, title = whole(meta.get("size")) or whole(episode.get("size")), text(episode.get("title"))
    duration_ms = _seconds(file.get("duration")) or _seconds(episode.get("duration"))
    podcast = _dict(_dict(item.get("media")).get("metadata"))
    show, number, part = text(podcast.get("title")), number_in(episode.get("episode")), number_in(episode.get("season"))
    authors = texts([podcast.get("author")])
    return ServerItem(
        upstream_id,
        _locator(meta.get("path"), size, whole(meta.get("mtimeMs"))),
        ItemDetails(
            version=whole(episode.get("updatedAt")),
            content_hash=_facts(
                size, duration_ms, meta.get("ext"), file.get("bitRate"), title, authors, show, number, part
            ),
            media_kind="podcast",
            item_kind="episode",
            title=title,
            duration_ms=duration_ms,
            year=None,
            number=number,
            part=part,
            artists=authors,
            provider_ids=(),
            collections=_collections(collection("series", identifier(item.get("id")), show)),
        ),
    )  # fmt: skip


def _facts(size: int | None, duration: int | None, *others: object) -> str | None:
    """All facts together; without size and duration they are hardly more than a title, which is no evidence."""
    return facts_hash(size, duration, *others) if size is not None and duration is not None else None


def _locator(path: object, size: int | None, mtime_ms: int | None) -> Locator | None:
    if not isinstance(path, str) or not path or "\0" in path:
        return None
    packed = path.encode("utf-8", "replace")
    mtime_ns = mtime_ms * 1_000_000 if mtime_ms is not None and mtime_ms < 2**63 // 1_000_000 else None
    return Locator(packed, size, mtime_ns, None, None) if len(packed) <= PATH_BYTES_MAX else None


def _collections(*found: CollectionRef | None) -> tuple[CollectionRef, ...]:
    return tuple(one for one in found if one is not None)[:LIST_MAX]


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _seconds(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**40:
        return None
    return round(value * 1000) or None


def _time_ms(value: object) -> int | None:
    """An ISO time, with any number of digits of a second; without a zone it is UTC."""
    if not isinstance(value, str) or not 10 <= len(value) <= 40:
        return None
    try:
        found = datetime.datetime.fromisoformat(value)
        return whole((found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
