"""How each kind of server lists what it has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from streams.upstream import audiobookshelf, jellyfin, subsonic
from streams.upstream.audiobookshelf import Audiobookshelf
from streams.upstream.details import identifier
from streams.upstream.errors import NotOffered
from streams.upstream.jellyfin import Jellyfin
from streams.upstream.listing import PAGES_MAX, Json, Listed, Seen, ServerItem
from streams.upstream.server_items import of_book, of_episode, of_jellyfin, of_subsonic
from streams.upstream.subsonic import Subsonic

FOLDERS_DEEP: Final = 64


@dataclass(frozen=True, slots=True)
class SubsonicLibrary:
    """The search for nothing finds all songs at once, on some servers but those without tags; albums hold some of
    those, folders every file. Albums and folders are walked, with a request for each, only when the server counts more
    songs than were found, or does not count."""

    server: Subsonic

    async def once(self, seen: Seen, listed: Listed) -> AsyncIterator[list[ServerItem]]:
        before = await self.server.state()
        ways = 0
        try:
            async for page in self._search(seen, listed):
                yield page
            ways += 1
        except NotOffered:
            pass
        if not ways or before.count is None or before.count > seen.now:
            try:
                async for page in self._albums(seen, listed):
                    yield page
                ways += 1
            except NotOffered:
                pass
        if not ways or before.count is None or before.count > seen.now:
            try:
                async for page in self._folders(seen, listed):
                    yield page
            except NotOffered:
                if not ways:
                    raise
        after = await self.server.state()
        seen.moved = before != after or after.scanning

    async def _search(self, seen: Seen, listed: Listed) -> AsyncIterator[list[ServerItem]]:
        offset = 0
        for _ in range(PAGES_MAX):
            page = await self.server.search_page(offset)
            if not page:
                return
            met, twice = seen.now, seen.twice
            yield _new(page, seen, listed, own=True)
            if seen.now == met:
                # When one page is all there is, some servers give it again whatever the offset.
                seen.twice = twice or offset >= subsonic.PAGE
                return
            offset += len(page)

    async def _albums(self, seen: Seen, listed: Listed) -> AsyncIterator[list[ServerItem]]:
        known: set[str] = set()
        for _ in range(PAGES_MAX):
            page = await self.server.album_page(len(known))
            fresh = [one for one in map(_id, page) if one is not None and one not in known]
            if not fresh:
                seen.twice = seen.twice or bool(page)
                return
            seen.twice = seen.twice or len(fresh) < len(page)
            known.update(fresh)
            for album in fresh:
                try:
                    songs = await self.server.album(album)
                except NotOffered:
                    seen.moved = True  # it was listed a moment ago
                    continue
                yield _new(songs, seen, listed, own=False)
            if len(page) < subsonic.PAGE:
                return

    async def _folders(self, seen: Seen, listed: Listed) -> AsyncIterator[list[ServerItem]]:
        tops, songs = await self.server.top_folders()
        yield _new(songs, seen, listed, own=False)
        known = set(tops)
        stack = [(top, 1) for top in reversed(tops)]
        while stack:
            folder, depth = stack.pop()
            try:
                children = await self.server.folder(folder)
            except NotOffered:
                seen.moved = True
                continue
            yield _new([child for child in children if not child.get("isDir")], seen, listed, own=False)
            if depth == FOLDERS_DEEP:
                listed.skip("depth")
                continue
            for child in reversed(children):
                inner = _id(child)
                if child.get("isDir") and inner is not None and inner not in known:
                    known.add(inner)
                    stack.append((inner, depth + 1))


@dataclass(frozen=True, slots=True)
class JellyfinLibrary:
    server: Jellyfin

    async def once(self, seen: Seen, listed: Listed) -> AsyncIterator[list[ServerItem]]:
        reader = await self.server.library_reader()
        first_total: int | None = None
        met = 0
        for _ in range(PAGES_MAX):
            page, total = await self.server.library_page(met, reader)
            first_total = total if first_total is None else first_total
            seen.moved = seen.moved or total != first_total
            before = seen.now
            found = []
            for item in page:
                upstream_id = _id(item, "Id")
                if upstream_id is None:
                    listed.skip("bad_id")
                elif seen.add(upstream_id):
                    if item.get("LocationType") == "Virtual":
                        listed.skip("virtual")  # an episode that nobody has
                    else:
                        found.append(of_jellyfin(upstream_id, item))
            yield found
            met += len(page)
            if not page or seen.now == before or len(page) < jellyfin.LIBRARY_PAGE:
                break
        if first_total is not None and seen.now != first_total:
            seen.moved = True


@dataclass(frozen=True, slots=True)
class AudiobookshelfLibrary:
    """Books are in the list; episodes of podcasts are in the item only."""

    server: Audiobookshelf

    async def once(self, seen: Seen, listed: Listed) -> AsyncIterator[list[ServerItem]]:
        for library in await self.server.libraries():
            met: set[str] = set()
            first_total: int | None = None
            for number in range(PAGES_MAX):
                page, total = await self.server.library_page(library, number)
                first_total = total if first_total is None else first_total
                seen.moved = seen.moved or total != first_total
                fresh = [one for one in page if (_id(one) or "") not in met]
                seen.twice = seen.twice or len(fresh) < len(page)
                met.update(_id(one) or "" for one in fresh)
                yield [found for item in fresh for found in await self._items(item, seen, listed)]
                if not fresh or len(page) < audiobookshelf.PAGE:
                    break
            if first_total is not None and len(met) != first_total:
                seen.moved = True

    async def _items(self, item: Json, seen: Seen, listed: Listed) -> list[ServerItem]:
        upstream_id = _id(item)
        if upstream_id is None:
            listed.skip("bad_id")
        elif item.get("isMissing") is True:
            listed.skip("missing_upstream")
        elif item.get("isInvalid") is True:
            listed.skip("invalid_upstream")
        elif item.get("mediaType") == "podcast":
            try:
                item = await self.server.item(upstream_id)
            except NotOffered:
                seen.moved = True
                return []
            episodes = media.get("episodes") if isinstance(media := item.get("media"), dict) else None
            return [
                of_episode(whole_id, item, episode)
                for episode in (episodes if isinstance(episodes, list) else [])
                if isinstance(episode, dict)
                and (whole_id := identifier(f"{upstream_id}/{_id(episode) or ''}")) is not None
                and seen.add(whole_id)
            ]
        elif seen.add(upstream_id):
            return [of_book(upstream_id, item)]
        return []


def _new(songs: list[Json], seen: Seen, listed: Listed, *, own: bool) -> list[ServerItem]:
    found = []
    for song in songs:
        upstream_id = _id(song)
        if upstream_id is None:
            if own:
                listed.skip("bad_id")
        elif seen.add(upstream_id, list_of_its_own=own):
            found.append(of_subsonic(upstream_id, song))
    return found


def _id(item: Json, name: str = "id") -> str | None:
    return identifier(item.get(name))
