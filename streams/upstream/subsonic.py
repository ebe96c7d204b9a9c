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
from typing import Any, Final, Literal, TypeAlias

from streams.upstream.errors import BadAnswer, CredentialsRefused, NotOffered, UpstreamError
from streams.upstream.http import Pairs, Upstream

Login: TypeAlias = Literal["token", "password", "api_key"]
"""token: MD5 of password and salt, which most take; password: as it is, hex-encoded; api_key: OpenSubsonic's."""
Json: TypeAlias = dict[str, Any]

VERSION: Final = "1.16.1"
CLIENT: Final = "playhead"
PAGE: Final = 500
PAGES_MAX: Final = 2_000
_NOT_FOUND: Final = 70


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
