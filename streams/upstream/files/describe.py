"""From tags and place to ItemDetails. What is only a guess stays out: a title from the name is for people, and no
provider id or collection is taken from a name unless its form is the well-known one."""

from __future__ import annotations

import re
from typing import Final

from schemas.library import CollectionRef, ItemDetails, ProviderId
from streams.upstream.details import collection, number_in, text, texts, year_in
from streams.upstream.files.reading.reader import Contents
from streams.upstream.files.walk import MediaFile

_MBID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ISBN: Final = re.compile(r"(?:97[89])?\d{9}[\dX]")
_ASIN: Final = re.compile(r"B0[0-9A-Z]{8}|\d{9}[\dX]")
_IMDB: Final = re.compile(r"tt\d{7,10}")
_NUMBER: Final = re.compile(r"\d{1,10}")
_IN_NAME: Final = re.compile(r"[\[{](imdb|tmdb|tvdb)(?:id)?[-=](tt\d{7,10}|\d{1,10})[\]}]", re.I)
_EPISODE: Final = re.compile(r"(?<![A-Za-z0-9])S(\d{1,3})E(\d{1,4})(?!\d)", re.I)
_SEASON: Final = re.compile(r"(?:season|staffel|saison|temporada|s)[ ._-]*(\d{1,3})|specials", re.I)
_UFID: Final = "http://musicbrainz.org"
_GENRES: Final = {"audiobook": "audiobook", "audiobooks": "audiobook", "podcast": "podcast", "podcasts": "podcast"}


def describe(file: MediaFile, contents: Contents) -> ItemDetails:
    """What is in a file, for the log. ``version``: its mtime, epoch ms."""
    tags = contents.tags
    path = file.path.decode("utf-8", "replace")
    stem = path.rpartition("/")[2].rpartition(".")[0]
    genre = (_first(contents, "genre") or "").strip().lower()
    media_kind = _GENRES.get(genre, file.kind.media_kind) if file.kind.media_kind == "music" else file.kind.media_kind
    item_kind = {"audiobook": "book", "podcast": "episode"}.get(media_kind, file.kind.item_kind)
    number, part = number_in(_first(contents, "track")), number_in(_first(contents, "disc"))
    collections: list[CollectionRef | None] = []
    if media_kind == "video":
        collections, item_kind, number, part = _video(path, stem, item_kind)
    else:
        collections = _audio(contents, media_kind)
    return ItemDetails(
        version=file.mtime_ns // 1_000_000,
        content_hash=contents.content_hash,
        media_kind=media_kind,
        item_kind=item_kind,
        title=text(_first(contents, "title")) or text(stem),
        duration_ms=contents.duration_ms,
        year=year_in(_first(contents, "year")),
        number=number,
        part=part,
        artists=texts([*tags.get("artist", ()), *tags.get("artists", ())]),
        provider_ids=_provider_ids(contents, media_kind, item_kind, stem),
        collections=(*(one for one in collections if one is not None), folder_of(file.path)),
    )


def folder_of(path: bytes) -> CollectionRef:
    """The folder a file is in; its key is its path as text, or a hash of it when that is no text or too long."""
    folder = path.rpartition(b"/")[0]
    found = collection("folder", folder or b".", folder.rpartition(b"/")[2] or b".")
    assert found is not None
    return found


def _audio(contents: Contents, media_kind: str) -> list[CollectionRef | None]:
    artist = _first(contents, "artist")
    of_album = _first(contents, "albumartist") or artist
    album = _first(contents, "album")
    release = _mbid(_first(contents, "musicbrainzalbumid"))
    person = _mbid(_first(contents, "musicbrainzalbumartistid"))
    if media_kind == "audiobook":
        series = _first(contents, "series") or _first(contents, "movementname")
        return [
            collection("author", of_album, of_album),
            collection("series", series and [of_album or "", series], series),
        ]
    return [
        collection("album", f"mbid:{release}" if release else album and [of_album or "", album], album or release),
        collection("artist", f"mbid:{person}" if person else of_album, of_album or person),
    ]


def _video(path: str, stem: str, item_kind: str) -> tuple[list[CollectionRef | None], str, int | None, int | None]:
    """An episode when its name says so; its series by folder when that has the form SERIES/SEASON N/ or SERIES/."""
    found = _EPISODE.search(stem)
    if found is None:
        return [], item_kind, None, None
    season, episode = int(found[1]), int(found[2])
    folders = path.split("/")[:-1]
    if folders and _SEASON.fullmatch(folders[-1]):
        folders.pop()
    if not folders:
        return [], "episode", episode, season
    series, name = "/".join(folders), folders[-1]
    return (
        [collection("series", series, name), collection("season", f"{series}/{season}", f"{name} {season}")],
        "episode",
        episode,
        season,
    )


def _provider_ids(contents: Contents, media_kind: str, item_kind: str, stem: str) -> tuple[ProviderId, ...]:
    """Ids of this very item. A recording's id is on every album it is on, an ISBN on every part of a book."""
    found: dict[str, str] = {}
    if media_kind == "video":
        for provider, pattern in (("imdb", _IMDB), ("tmdb", _NUMBER), ("tvdb", _NUMBER)):
            stated = (_first(contents, provider) or "").removeprefix("movie/")
            if item_kind != "episode" and pattern.fullmatch(stated):
                found[provider] = stated
        for match in _IN_NAME.finditer(stem):
            provider, stated = match[1].lower(), match[2].lower()
            if item_kind != "episode" and (provider == "imdb") == stated.startswith("tt"):
                found.setdefault(provider, stated)
    elif media_kind == "audiobook":
        if (number_in(_first(contents, "tracktotal")) or 1) == 1 and (number_in(_first(contents, "track")) or 1) == 1:
            isbn = re.sub(r"[ -]", "", _first(contents, "isbn") or "").upper()
            asin = (_first(contents, "asin") or _first(contents, "audibleasin") or "").upper()
            found |= {"isbn": isbn} if _ISBN.fullmatch(isbn) else {}
            found |= {"asin": asin} if _ASIN.fullmatch(asin) else {}
    else:
        mbid = (
            _mbid(_first(contents, "musicbrainzreleasetrackid"))
            or _mbid(_first(contents, "musicbrainztrackid"))
            or next(
                (_mbid(rest) for owner, _, rest in (one.partition("\0") for one in contents.tags.get("ufid", ()))
                 if owner == _UFID), None,
            )
        )  # fmt: skip
        found |= {"mbid": mbid} if mbid else {}
    return tuple(ProviderId(provider, stated) for provider, stated in sorted(found.items()))


def _mbid(stated: str | None) -> str | None:
    lower = (stated or "").strip().lower()
    return lower if _MBID.fullmatch(lower) else None


def _first(contents: Contents, name: str) -> str | None:
    values = contents.tags.get(name)
    return values[0] if values else None
