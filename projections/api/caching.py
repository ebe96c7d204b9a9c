"""Questions to the read models through the cache. The answers are those of ``ReadModels``, no less and no older.

What an answer depends on is read with it, in one statement: every cache key that would be invalidated if it changed,
each with the version of everything applied so far in that key's home partition. An invalidation above that version is
news to the answer; one up to it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from projections.api.read_models import CONTINUE_PAGE, Page, ReadModels, Row, page_of
from projections.api.versions import Version
from streams.runtime.cache import Answer, Cache, Stamp
from streams.runtime.database import Database

# Media of another name lead to the one that stays, whose row joins theirs: their keys count as well.
_PROGRESS = """
WITH found AS MATERIALIZED (SELECT * FROM api.progress_of(%(user)s, %(media)s) ORDER BY place LIMIT 1)
SELECT f.*, v.log_epoch AS seen_log_epoch, v.version AS seen_version,
       (SELECT jsonb_agg(jsonb_build_array(i.media_id, i.log_epoch, i.version))
        FROM api.seen_items(%(media)s || f.media_id || f.joined) AS i) AS seen_items
FROM found f JOIN api.user_versions v ON v.user_ref = %(user)s"""

_CONTINUE_PAGE = f"""
WITH page AS MATERIALIZED ({CONTINUE_PAGE})
SELECT page.*,
       (SELECT jsonb_agg(jsonb_build_array(i.media_id, i.log_epoch, i.version))
        FROM api.seen_items(ARRAY(
            SELECT unnest(p.joined || p.media_id) FROM page p WHERE p.media_id IS NOT NULL)) AS i) AS seen_items
FROM page ORDER BY page.event_time DESC, page.media_id DESC"""  # noqa: S608 - from constants

_SEEN = ("seen_log_epoch", "seen_version", "seen_items")


class CachedReadModels(ReadModels):
    """Of what is asked most: one media of a person, and the first page of what to go on with."""

    def __init__(self, database: Database, cache: Cache) -> None:
        """``cache``: opened and closed with this."""
        super().__init__(database)
        self._cache = cache

    async def __aenter__(self) -> Self:
        await self._cache.__aenter__()
        return await super().__aenter__()

    async def __aexit__(self, *exc: object) -> None:
        await super().__aexit__(*exc)
        await self._cache.__aexit__(*exc)

    async def progress(self, user: str, media: Sequence[str], *, fresh: bool = False) -> tuple[Row, Version] | None:
        async def read() -> Answer[Row | None]:
            rows = await self._ask(_PROGRESS, user=user, media=list(media))
            if not rows:
                return Answer(None)
            row = rows[0]
            seen = Stamp(row["model_epoch"], row["seen_log_epoch"], row["seen_version"])
            items = _items(row["model_epoch"], row["seen_items"])
            own = f"progress:{user}:{media[0]}"
            deps = dict.fromkeys((own, *(f"progress:{user}:{one}" for one in items)), seen)
            shown = {name: value for name, value in row.items() if name not in _SEEN}
            return Answer(shown, shown, [*deps.items(), *_item_deps(items)], _shown(user, [row]))

        key = f"progress:{user}:{media[0]}"
        row = await self._cache.through(key, ",".join(media[1:]), read, dict, fresh=fresh)
        if row is None:
            return None
        return row, Version(row["model_epoch"], row["log_epoch"], row["partition"], row["version"])

    async def progress_page(self, user: str, after: str | None, limit: int) -> Page:
        page = await super().progress_page(user, after, limit)
        await self._cache.raise_floors(_shown(user, page.rows))
        return page

    async def continue_page(self, user: str, after: tuple[int, str] | None, limit: int, *, fresh: bool = False) -> Page:
        if after is not None:
            page = await super().continue_page(user, after, limit)
            await self._cache.raise_floors(_shown(user, page.rows))
            return page

        async def read() -> Answer[Page]:
            rows = await self._ask(_CONTINUE_PAGE, user=user, time=None, after=None, limit=limit)
            page = page_of([{name: value for name, value in row.items() if name != "seen_items"} for row in rows])
            if page.version is None:
                return Answer(page)
            version = page.version
            items = _items(version.model_epoch, rows[0]["seen_items"] or ())
            own = (f"continue:{user}", Stamp(version.model_epoch, version.log_epoch, version.offset))
            document = {"rows": list(page.rows), "version": [*_parts(version)]}
            return Answer(page, document, [own, *_item_deps(items)], [*_shown(user, page.rows), own])

        def restore(document: Mapping[str, Any]) -> Page:
            return Page(document["rows"], Version(*document["version"]))

        return await self._cache.through(f"continue:{user}", str(limit), read, restore, fresh=fresh)


def _shown(user: str, rows: Iterable[Row]) -> list[tuple[str, Stamp]]:
    """What who gets these rows has seen: a decision makes its row and the person's list stale, at one version."""
    found: dict[str, Stamp] = {}
    for row in rows:
        stamp = Stamp(row["model_epoch"], row["log_epoch"], row["version"])
        found[f"progress:{user}:{row['media_id']}"] = stamp
        found[f"continue:{user}"] = max(stamp, found.get(f"continue:{user}", stamp))
    return list(found.items())


def _items(model_epoch: int, seen: Sequence[Sequence[Any]]) -> dict[str, Stamp]:
    return {media: Stamp(model_epoch, log_epoch, version) for media, log_epoch, version in seen}


def _item_deps(items: Mapping[str, Stamp]) -> list[tuple[str, Stamp]]:
    return [(f"item:{media}", stamp) for media, stamp in items.items()]


def _parts(version: Version) -> tuple[int, int, int, int]:
    return version.model_epoch, version.log_epoch, version.partition, version.offset
