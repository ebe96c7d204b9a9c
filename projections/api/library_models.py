"""Questions to the read models of the library, as the reader role may ask them: one statement each, so that rows and
their version are of the same moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.rows import dict_row

from projections.api.versions import Version
from streams.runtime.database import Connection, Database

Row = dict[str, Any]

_SOURCES = """
SELECT s.*, to_jsonb(l) AS last_scan
FROM api.sources s
LEFT JOIN api.scans l ON l.source_id = s.source_id AND l.generation = s.last_generation
WHERE %(source)s::text IS NULL OR s.source_id = %(source)s
ORDER BY s.source_id"""

_SCAN = "SELECT * FROM api.scans WHERE source_id = %(source)s AND generation = %(generation)s"

_SCANS = """
SELECT l.model_epoch AS list_model_epoch, l.log_epoch AS list_log_epoch, l.partition AS list_partition,
       l.version AS list_version, page.*
FROM api.sources l
LEFT JOIN LATERAL (
    SELECT * FROM api.scans s
    WHERE s.source_id = l.source_id AND (%(before)s::bigint IS NULL OR s.generation < %(before)s::bigint)
    ORDER BY s.generation DESC LIMIT %(limit)s
) AS page ON true
WHERE l.source_id = %(source)s
ORDER BY page.generation DESC"""

_ITEMS = """
SELECT l.model_epoch AS list_model_epoch, l.items_log_epoch AS list_log_epoch, l.partition AS list_partition,
       l.items_version AS list_version, page.*
FROM api.sources l
LEFT JOIN LATERAL (
    SELECT * FROM api.items i
    WHERE i.source_id = l.source_id AND (%(after)s::text IS NULL OR i.media_id > %(after)s)
      AND (%(status)s::text[] IS NULL OR i.status = ANY(%(status)s))
      AND (%(kind)s::text IS NULL OR %(kind)s IN (i.item_kind, i.media_kind))
      AND (%(text)s::text IS NULL
           OR strpos(lower(concat_ws(' ', i.title, array_to_string(i.artists, ' '))), lower(%(text)s)) > 0)
    ORDER BY i.media_id LIMIT %(limit)s
) AS page ON true
WHERE l.source_id = %(source)s
ORDER BY page.media_id"""

_MEDIA = """
SELECT * FROM api.media
WHERE asked = ANY(%(media)s) AND (%(source)s::text IS NULL OR source_id = %(source)s)
ORDER BY array_position(%(media)s, asked) LIMIT 1"""

# The list's version is that of everything about items: a collection changes when one of them does.
_COLLECTIONS = """
SELECT l.model_epoch AS list_model_epoch, l.items_log_epoch AS list_log_epoch, l.partition AS list_partition,
       l.items_version AS list_version, page.*
FROM api.sources l
LEFT JOIN LATERAL (
    SELECT * FROM api.collections c
    WHERE c.source_id = l.source_id AND (%(folders)s OR c.kind <> 'folder')
      AND (%(kind)s::text IS NULL OR c.kind = %(kind)s) AND (%(gone)s OR c.present + c.provisional > 0)
      AND (%(name)s::text IS NULL OR (c.name, c.collection_id) > (%(name)s::text, %(after)s::text))
    ORDER BY c.name, c.collection_id LIMIT %(limit)s
) AS page ON true
WHERE l.source_id = %(source)s
ORDER BY page.name, page.collection_id"""

_COLLECTION = """
SELECT to_jsonb(c) AS collection, c.model_epoch AS list_model_epoch, c.log_epoch AS list_log_epoch,
       c.partition AS list_partition, c.version AS list_version, page.*
FROM api.collections c
LEFT JOIN LATERAL (
    SELECT i.* FROM api.collection_items m JOIN api.items i USING (media_id)
    WHERE m.collection_id = c.collection_id AND (%(after)s::text IS NULL OR i.media_id > %(after)s)
    ORDER BY i.media_id LIMIT %(limit)s
) AS page ON true
WHERE c.collection_id = %(collection)s AND (%(source)s::text IS NULL OR c.source_id = %(source)s)
  AND (%(folders)s OR c.kind <> 'folder')
ORDER BY page.media_id"""


@dataclass(frozen=True, slots=True)
class LibraryPage:
    """Rows of a list of something there is, and the version of the whole: None when nothing is known of it yet."""

    rows: Sequence[Row]
    version: Version | None


class LibraryModels:
    """Every question raises DatabaseAway when there is no answer in time."""

    def __init__(self, database: Database) -> None:
        """``database``: as role reader, opened and closed by whoever made it."""
        self._database = database

    async def sources(self, source: str | None) -> list[Row]:
        """All sources, or this one, each with its newest scan."""
        return await self._ask(_SOURCES, source=source)

    async def scan(self, source: str, generation: int) -> Row | None:
        rows = await self._ask(_SCAN, source=source, generation=generation)
        return rows[0] if rows else None

    async def scans(self, source: str, before: int | None, limit: int) -> LibraryPage | None:
        """Scans, newest first, before this generation; None: no such source."""
        return _page(await self._ask(_SCANS, source=source, before=before, limit=limit))

    async def items(
        self,
        source: str,
        *,
        status: Sequence[str] | None,
        kind: str | None,
        text: str | None,
        after: str | None,
        limit: int,
    ) -> LibraryPage | None:
        """Items by media_id, after ``after``; ``text`` is looked for in titles and artists. None: no such source."""
        rows = await self._ask(
            _ITEMS, source=source, status=status and list(status), kind=kind, text=text, after=after, limit=limit
        )
        return _page(rows)

    async def media(self, media: Sequence[str], source: str | None) -> Row | None:
        """What the first of ``media`` means that there is, of ``source`` when given."""
        rows = await self._ask(_MEDIA, media=list(media), source=source)
        return rows[0] if rows else None

    async def collections(
        self,
        source: str,
        *,
        kind: str | None,
        folders: bool,
        gone: bool,
        after: tuple[str, str] | None,
        limit: int,
    ) -> LibraryPage | None:
        """Collections by name, after this (name, collection_id). ``folders``: those too; ``gone``: also those
        without an item that is there. None: no such source."""
        name, its_id = after or (None, None)
        return _page(
            await self._ask(
                _COLLECTIONS,
                source=source,
                kind=kind,
                folders=folders,
                gone=gone,
                name=name,
                after=its_id,
                limit=limit,
            )
        )

    async def collection(
        self, collection: str, source: str | None, *, folders: bool, after: str | None, limit: int
    ) -> tuple[Row, LibraryPage] | None:
        """One collection and its items by media_id, after ``after``."""
        rows = await self._ask(
            _COLLECTION, collection=collection, source=source, folders=folders, after=after, limit=limit
        )
        page = _page(rows)
        return None if page is None else (rows[0]["collection"], page)

    async def _ask(self, query: str, **parameters: Any) -> list[Row]:
        async def work(connection: Connection) -> list[Row]:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(query.encode(), parameters)
            return await cursor.fetchall()

        return await self._database.run(work)


def _page(rows: Sequence[Row]) -> LibraryPage | None:
    if not rows:
        return None
    first = rows[0]
    version = (
        None
        if first["list_version"] is None
        else Version(first["list_model_epoch"], first["list_log_epoch"], first["list_partition"], first["list_version"])
    )
    return LibraryPage([row for row in rows if row["version"] is not None], version)
