"""Collections through the cache, page by page; heavy ones are noted, to be read again before they are asked for.

An item of a page may change without the collection (another name of it, say), so a page depends on each of its items.
The scan that saw an item last moves no version: it is asked for when a kept page is shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from projections.api.library_models import LibraryModels, LibraryPage, Row
from projections.api.versions import Version
from streams.runtime.cache import Answer, Cache, Stamp
from streams.runtime.database import Database
from streams.runtime.settings import Settings

HEAVY_ITEMS: Final = 300
"""Collections of so many items are kept in the cache before anybody asks again."""
PAGE: Final = 101
"""What a page of the default size reads."""
PAUSE_S: Final = 0.02
_PAGES_MAX: Final = 10_000
_STATUSES: Final = ("present", "provisional", "missing", "archived", "deleted")

_COLLECTION = """
SELECT to_jsonb(c) AS collection, c.model_epoch AS list_model_epoch, c.log_epoch AS list_log_epoch,
       c.partition AS list_partition, c.version AS list_version, s.log_epoch AS seen_log_epoch,
       s.version AS seen_version, page.*
FROM api.collections c
LEFT JOIN api.sources s ON s.source_id = c.source_id
LEFT JOIN LATERAL (
    SELECT i.* FROM api.collection_items m JOIN api.items i USING (media_id)
    WHERE m.collection_id = c.collection_id AND (%(after)s::text IS NULL OR i.media_id > %(after)s)
    ORDER BY i.media_id LIMIT %(limit)s
) AS page ON true
WHERE c.collection_id = %(collection)s
ORDER BY page.media_id"""
_FINALIZED = "SELECT finalized_generation FROM api.sources WHERE source_id = %(source)s"
_OF_LIST = frozenset(
    (*(f"list_{name}" for name in ("model_epoch", "log_epoch", "partition", "version")), "collection")
) | {"seen_log_epoch", "seen_version"}

Found = tuple[Row, LibraryPage]


class CachedLibraryModels(LibraryModels):
    def __init__(self, database: Database, cache: Cache) -> None:
        """Both are opened and closed by whoever made them."""
        super().__init__(database)
        self._cache = cache

    async def collection(
        self, collection: str, source: str | None, *, folders: bool, after: str | None, limit: int
    ) -> Found | None:
        kept = True

        async def read() -> Answer[Found | None]:
            nonlocal kept
            kept = False
            return _answer(collection, await self._ask(_COLLECTION, collection=collection, after=after, limit=limit))

        key = f"collection:{collection}"
        found: Found | None = await self._cache.through(key, f"{limit}:{after or ''}", read, _restored)
        # What is kept is everybody's; who may see it is asked of each.
        if (
            found is None
            or source not in (None, found[0]["source_id"])
            or not (folders or found[0]["kind"] != "folder")
        ):
            return None
        row, page = found
        if sum(row[status] for status in _STATUSES) >= HEAVY_ITEMS:
            await self._cache.note_heavy(key)
        if not kept:
            return found
        newest = await self._ask(_FINALIZED, source=row["source_id"])
        finalized = newest[0]["finalized_generation"] if newest else None
        return row, LibraryPage([_seen_last(one, finalized) for one in page.rows], page.version)


def _answer(collection: str, rows: Sequence[Row]) -> Answer[Found | None]:
    if not rows:
        return Answer(None)
    first = rows[0]
    epoch = first["list_model_epoch"]
    version = Version(epoch, first["list_log_epoch"], first["list_partition"], first["list_version"])
    items = [
        {name: value for name, value in row.items() if name not in _OF_LIST}
        for row in rows
        if row["media_id"] is not None
    ]
    found = first["collection"], LibraryPage(items, version)
    if first["seen_version"] is None:
        return Answer(found)
    seen = Stamp(epoch, first["seen_log_epoch"], first["seen_version"])
    keys = [f"collection:{collection}", *(f"item:{row['media_id']}" for row in items)]
    shows = [(f"item:{row['media_id']}", Stamp(epoch, row["log_epoch"], row["version"])) for row in items]
    shows.append((keys[0], Stamp(epoch, version.log_epoch, version.offset)))
    document = {
        "collection": first["collection"],
        "rows": items,
        "version": [version.model_epoch, version.log_epoch, version.partition, version.offset],
    }
    return Answer(found, document, [(key, seen) for key in keys], shows)


def _restored(document: Mapping[str, Any]) -> Found:
    return document["collection"], LibraryPage(document["rows"], Version(*document["version"]))


def _seen_last(row: Row, finalized: int | None) -> Row:
    """As api.items says it: of a present item that can be read the newest finalized scan has seen it too."""
    generation = row["generation"]
    if finalized is None or row["status"] != "present" or not row["readable"]:
        return row
    return {**row, "last_seen_generation": finalized if generation is None else max(generation, finalized)}


def warm(settings: Settings, url: str, collection: str) -> Iterator[int]:
    """Read a collection page by page, so that the cache has it; after each page, how many items it had. Gives others
    time in between. Raises DatabaseAway. What is in the cache already is not read again."""
    with asyncio.Runner() as runner:
        database, cache = Database(settings.postgres.conninfo("worker")), Cache(url)
        runner.run(database.__aenter__())
        try:
            models = CachedLibraryModels(database, cache)
            after: str | None = None
            for _ in range(_PAGES_MAX):
                found = runner.run(models.collection(collection, None, folders=True, after=after, limit=PAGE))
                rows = found[1].rows if found is not None else []
                yield min(len(rows), PAGE - 1)
                if len(rows) < PAGE:
                    return
                # The cursor of the next page is the last entry that was shown.
                after = rows[PAGE - 2]["media_id"]
                time.sleep(PAUSE_S)
        finally:
            runner.run(cache.__aexit__())
            runner.run(database.__aexit__())
