"""Subsonic and OpenSubsonic: Navidrome, gonic, supysonic and their kin, as one account sees them.

Credentials travel in a form body, never in an address. Answers are returned as the JSON objects under
``subsonic-response``; what positions and times in them mean is for the parsers of reports to say.

Seen on real servers: an API error is HTTP 200, an unknown method 404 (supysonic, Navidrome) or error 70 "view not
found" (gonic); a token login is error 0 or 10 where only passwords are taken (supysonic); an empty list may be
absent, an empty object or an empty list.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from streams.upstream.errors import BadAnswer, CredentialsRefused, NotOffered, TooLarge, UpstreamError
from streams.upstream.http import Pairs, Upstream

Login: TypeAlias = Literal["token", "password", "api_key"]
"""token: MD5 of password and salt, which most take; password: as it is, hex-encoded; api_key: OpenSubsonic's."""
Json: TypeAlias = dict[str, Any]

VERSION: Final = "1.16.1"
CLIENT: Final = "playhead"
PAGE: Final = 500
PAGES_MAX: Final = 2_000
_NOT_FOUND: Final = 70


@dataclass(frozen=True, slots=True)
class ListState:
    """``mark`` differs after a scan of the server, where it tells. ``count``: songs, None when it does not tell."""

    scanning: bool
    count: int | None
    mark: str


class Subsonic:
    """Reads as one account. Every method raises UpstreamError; NotOffered where this server lacks the method."""

    def __init__(
        self,
        upstream: Upstream,
        user: str,
        secret: str,
        login: Login = "token",
        *,
        salt: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self.user = user
        self._upstream = upstream
        self._secret = secret
        self._login = login
        self._salt = salt

    async def now_playing(self) -> list[Json]:
        """Entries of everybody who plays now; servers without states tell a song and a minute only."""
        return _objects(await self._ask("getNowPlaying"), "nowPlaying", "entry")

    async def bookmarks(self) -> list[Json]:
        return _objects(await self._ask("getBookmarks"), "bookmarks", "bookmark")

    async def song(self, identifier: str) -> Json:
        """One song, with this account's playCount and played. NotOffered when there is none."""
        found = _object(await self._ask("getSong", ("id", identifier)), "song")
        if found is None:
            raise NotOffered("no such song")
        return found

    async def create_bookmark(self, song: str, position_ms: int) -> None:
        """Where it goes on, in place of what was there."""
        await self._ask("createBookmark", ("id", song), ("position", str(position_ms)), ("comment", CLIENT))

    async def delete_bookmark(self, song: str) -> None:
        await self._ask("deleteBookmark", ("id", song))

    async def scrobble(self, song: str, played_at_ms: int) -> None:
        """One more play, each time it is said: a session that asks once only must say it (Limits.attempts)."""
        await self._ask("scrobble", ("id", song), ("time", str(played_at_ms)), ("submission", "true"))

    async def play_queue(self) -> Json | None:
        """The saved queue, None when there is none."""
        return _object(await self._ask("getPlayQueue"), "playQueue")

    async def recently_played(self, albums: int) -> AsyncIterator[Json]:
        """Songs of the albums that were played last, with this account's playCount and played."""
        found = _objects(
            await self._ask("getAlbumList2", ("type", "recent"), ("size", str(albums))), "albumList2", "album"
        )
        for album in found:
            identifier = album.get("id")
            if isinstance(identifier, str | int):
                for song in _objects(await self._ask("getAlbum", ("id", str(identifier))), "album", "song"):
                    yield song

    async def songs(self) -> AsyncIterator[Json]:
        """Every song a search for nothing finds (gonic leaves out what has no tags).

        Ends at an empty page, and at one that brings nothing new: then pages repeat or are not kept apart.
        """
        seen: set[str] = set()
        for page in range(PAGES_MAX):
            answer = await self._ask(
                "search3",
                ("query", ""),
                ("artistCount", "0"),
                ("albumCount", "0"),
                ("songCount", str(PAGE)),
                ("songOffset", str(page * PAGE)),
            )
            fresh = [song for song in _objects(answer, "searchResult3", "song") if str(song.get("id")) not in seen]
            if not fresh:
                return
            seen.update(str(song.get("id")) for song in fresh)
            for song in fresh:
                yield song

    async def search_page(self, offset: int) -> list[Json]:
        """At most PAGE songs of those a search for nothing finds, from ``offset`` on."""
        answer = await self._ask(
            "search3",
            ("query", ""),
            ("artistCount", "0"),
            ("albumCount", "0"),
            ("songCount", str(PAGE)),
            ("songOffset", str(offset)),
        )
        return _objects(answer, "searchResult3", "song")

    async def album_page(self, offset: int) -> list[Json]:
        """At most PAGE albums by name, from ``offset`` on."""
        answer = await self._ask(
            "getAlbumList2", ("type", "alphabeticalByName"), ("size", str(PAGE)), ("offset", str(offset))
        )
        return _objects(answer, "albumList2", "album")

    async def album(self, identifier: str) -> list[Json]:
        """Songs of an album."""
        return _objects(await self._ask("getAlbum", ("id", identifier)), "album", "song")

    async def top_folders(self) -> tuple[list[str], list[Json]]:
        """Ids of the folders (or artists) at the top, and songs that lie beside them."""
        indexes = await self._ask("getIndexes")
        top = _objects(indexes, "indexes", "index")
        artists = [artist for index in top for artist in _objects({"index": index}, "index", "artist")]
        songs = _objects(indexes, "indexes", "child")
        return [str(artist["id"]) for artist in artists if isinstance(artist.get("id"), str | int)], songs

    async def folder(self, identifier: str) -> list[Json]:
        """What is right in a folder: songs, and folders with ``isDir``."""
        return _objects(await self._ask("getMusicDirectory", ("id", identifier)), "directory", "child")

    async def state(self) -> ListState:
        """What tells whether the whole list moved meanwhile; what the account may not ask is None."""
        try:
            status = _object(await self._ask("getScanStatus"), "scanStatus") or {}
        except NotOffered:
            status = {}
        mark = status.get("lastScan")
        if mark is None:
            try:
                mark = (_object(await self._ask("getIndexes"), "indexes") or {}).get("lastModified")
            except (NotOffered, TooLarge):
                mark = None
        count = status.get("count")
        return ListState(
            status.get("scanning") is True,
            count if isinstance(count, int) and count > 0 else None,  # 0 is said when idle, too
            str(mark),
        )

    async def _ask(self, method: str, *parameters: tuple[str, str]) -> Json:
        answer = await self._upstream.post_form(
            f"/rest/{method}", [*self._credentials(), ("v", VERSION), ("c", CLIENT), ("f", "json"), *parameters]
        )
        response = _object(answer.value, "subsonic-response") if isinstance(answer.value, dict) else None
        if response is None:
            raise NotOffered("unknown method") if answer.status == 404 else BadAnswer("no subsonic-response")
        if response.get("status") == "ok":
            return response
        raise self._error(answer.status, (_object(response, "error") or {}).get("code"))

    def _error(self, status: int, code: object) -> UpstreamError:
        match code:
            case 40 | 44:
                return CredentialsRefused(f"error {code}: wrong account, password or key")
            case 41 | 42 | 43:
                return CredentialsRefused(f"error {code}: this server wants another login than '{self._login}'")
            case 50:
                return NotOffered("error 50: not for this account")
            case 30 | 70:
                return NotOffered(f"error {code}")
            case 0 if status == 404:
                return NotOffered("unknown method")
            case 0 | 10 if self._login == "token":
                # Nothing that is asked here lacks a parameter, unless the server looks for another login.
                return CredentialsRefused(f"error {code}: it may take no tokens, then log in with 'password'")
            case int():
                return BadAnswer(f"error {code}")
            case _:
                return BadAnswer("failed without a code")

    def _credentials(self) -> Pairs:
        match self._login:
            case "api_key":
                return [("apiKey", self._secret)]
            case "password":
                return [("u", self.user), ("p", "enc:" + self._secret.encode().hex())]
            case "token":
                salt = self._salt()
                # The protocol's own choice of hash.
                digest = hashlib.md5((self._secret + salt).encode(), usedforsecurity=False).hexdigest()
                return [("u", self.user), ("t", digest), ("s", salt)]


def _object(parent: Json, name: str) -> Json | None:
    value = parent.get(name)
    return value if isinstance(value, dict) else None


def _objects(response: Json, parent: str, name: str) -> list[Json]:
    """The objects of a list; one object alone is a list of it, anything else is none."""
    value = (_object(response, parent) or {}).get(name)
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]
