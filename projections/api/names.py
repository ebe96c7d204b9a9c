"""Who and what a path means: ids of ours, or ids of the source the caller speaks for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from streams.domain.identity import media_id
from streams.runtime.people import AliasStore, PeopleStore
from streams.runtime.problems import Problem
from streams.runtime.tokens import Principal

_OURS = re.compile(r"[0-9a-f]{32}")


class Names:
    """Looks names up, makes none. Methods raise DatabaseAway."""

    def __init__(self, people: PeopleStore, aliases: AliasStore) -> None:
        self._people = people
        self._aliases = aliases

    def source(self, caller: Principal, asked: str | None) -> str | None:
        """The source that names are of: the caller's own, else the one asked for. 404 for another than its own."""
        if caller.source_id is not None and asked not in (None, caller.source_id):
            raise not_found()
        return caller.source_id or asked

    async def user(self, caller: Principal, user: str, source: str | None) -> str:
        """The user_ref a path names: as the source calls the person, or by user_ref.

        A caller with a source sees that source's people, one bound to a person only that person: everybody else
        does not exist for it (404, never 403, so that nobody can try out who is known).
        """
        if source is not None:
            person = (await self._people.find(source, [user])).get(user)
            ref = None if person is None else person.user_ref
        elif _OURS.fullmatch(user):
            ref = user
        else:
            raise Problem(422, "source_needed", "This token has no source: say whose name this is with ?source=.")
        if ref is None or caller.user_ref not in (None, ref):
            raise not_found()
        return ref

    async def media(self, media: str, source: str | None) -> list[str]:
        """The media_ids a path may mean, likeliest first: an alias, an id of ours, the id computed for the source."""
        if source is None:
            if not _OURS.fullmatch(media):
                raise Problem(422, "source_needed", "This token has no source: say whose id this is with ?source=.")
            return [media]
        known = (await self._aliases.find(source, [media])).get(media)
        if known is not None:
            return [known]
        computed = media_id(source, media)
        return [media, computed] if _OURS.fullmatch(media) else [computed]

    async def knows(self, source: str, ref: str) -> bool:
        """Whether this is one of the source's people."""
        return any(one.user_ref == ref for one in (await self._people.find(source, [ref])).values())

    async def upstream(self, media: Sequence[str], source: str | None) -> Mapping[str, str]:
        """media_id → what the source calls it, of those it has named; nothing without a source."""
        return await self._aliases.upstream(source, media) if source is not None and media else {}


def not_found() -> Problem:
    """One answer for what is not there and for what the caller may not see."""
    return Problem(404, "not_found", "There is nothing here, or nothing this token may see.")
