"""The routes of the library: sources, scans, items, media and collections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal

import xxhash
from fastapi import APIRouter, Depends, Header, Path, Query
from pydantic import BaseModel
from starlette.responses import Response

from projections.api.library_models import LibraryModels, Row
from projections.api.library_shapes import (
    CollectionOut,
    CollectionPage,
    CollectionWithItems,
    ItemOut,
    ItemPage,
    MediaOut,
    ScanOut,
    ScanPage,
    SourceOut,
    SourcesOut,
    version_of,
)
from projections.api.names import Names, not_found
from projections.api.shapes import VersionOut
from projections.api.versions import NOTHING, Version, cursor_of, matches, read_cursor
from schemas.limits import ID_BYTES_MAX
from streams.runtime.commands import parse_scan_id
from streams.runtime.problems import Problem
from streams.runtime.tokens import Principal, Scope
from streams.runtime.web import PROBLEM_RESPONSES, PrincipalOf

ITEMS_DEFAULT = 100
ITEMS_MAX = 1_000
_NAME_CURSOR_MAX = 4_096

_Id = Annotated[str, Path(max_length=ID_BYTES_MAX, pattern="^[^\\x00]+$")]
_ScanId = Annotated[
    str,
    Path(max_length=ID_BYTES_MAX, pattern="^[^\\x00]+$", description="source and generation: `{source}:{generation}`"),
]
_Kind = Annotated[str | None, Query(max_length=ID_BYTES_MAX, pattern="^[^\\x00]+$")]
_ItemKind = Annotated[
    str | None, Query(max_length=ID_BYTES_MAX, pattern="^[^\\x00]+$", description="media_kind or item_kind")
]
_Search = Annotated[
    str | None,
    Query(max_length=ID_BYTES_MAX, pattern="^[^\\x00]+$", description="part of a title or an artist's name"),
]
_Source = Annotated[str | None, Query(max_length=64, pattern="^[^\\x00]+$", description="whose names the path uses")]
_Limit = Annotated[int, Query(ge=1, le=ITEMS_MAX)]
_Cursor = Annotated[str | None, Query(max_length=_NAME_CURSOR_MAX, description="`next` of the page before")]
_IfNoneMatch = Annotated[str | None, Header(max_length=4096)]
_Status = Annotated[
    list[Literal["present", "provisional", "missing", "archived", "deleted"]] | None,
    Query(max_length=5, description="one or several; none: all"),
]

_RESPONSES: dict[int | str, dict[str, Any]] = {
    **{code: PROBLEM_RESPONSES[code] for code in (401, 403, 422, 429, 503)},
    304: {"description": "The version in If-None-Match is still the newest."},
    404: {"description": "Nothing here, or nothing this token may see."},
}


def library_router(read: LibraryModels, names: Names, require: Callable[[Scope], PrincipalOf]) -> APIRouter:
    """GET routes over ``read``. ``require(Scope.READ)`` is the dependency that gives the calling Principal.

    A token of a source sees that source; the others are 404. Paths, and folders as collections, are shown to
    tokens that may operate only, for they can hold names of people. Every answer has an ETag of what it shows.
    """
    router = APIRouter(prefix="/v1", tags=["library"], responses=_RESPONSES)
    caller_of = require(Scope.READ)

    @router.get("/sources", summary="Sources, with what is counted of each", response_model=SourcesOut)
    async def sources(caller: Principal = Depends(caller_of), if_none_match: _IfNoneMatch = None) -> Response:
        found = SourcesOut(items=[SourceOut.of(row) for row in await read.sources(caller.source_id)])
        # Versions of several sources do not compare: the tag is of what is shown.
        text = found.model_dump_json()
        return _tagged(text, f'"{xxhash.xxh3_64_hexdigest(text.encode())}"', if_none_match)

    @router.get("/sources/{source}/scans", summary="Scans of a source, newest first", response_model=ScanPage)
    async def scans(
        source: _Id,
        caller: Principal = Depends(caller_of),
        limit: _Limit = ITEMS_DEFAULT,
        cursor: _Cursor = None,
        if_none_match: _IfNoneMatch = None,
    ) -> Response:
        begin = read_cursor(cursor, int)
        page = await read.scans(_own(names, caller, source), begin[0] if begin else None, limit + 1)
        if page is None:
            raise not_found()
        shown = [ScanOut.of(row) for row in page.rows[:limit]]
        more = cursor_of(shown[-1].generation) if len(page.rows) > limit else None
        found = ScanPage(items=shown, next=more, version=VersionOut.of(page.version))
        return _answer(found, page.version, if_none_match)

    @router.get("/scans/{scan_id}", summary="One scan, and what became of it", response_model=ScanOut)
    async def scan(
        scan_id: _ScanId, caller: Principal = Depends(caller_of), if_none_match: _IfNoneMatch = None
    ) -> Response:
        parsed = parse_scan_id(scan_id)
        if parsed is None:
            raise not_found()
        row = await read.scan(_own(names, caller, parsed[0]), parsed[1])
        if row is None:
            raise not_found()
        return _answer(ScanOut.of(row), version_of(row), if_none_match)

    @router.get("/sources/{source}/items", summary="Items of a source", response_model=ItemPage)
    async def items(
        source: _Id,
        caller: Principal = Depends(caller_of),
        status: _Status = None,
        kind: _ItemKind = None,
        text: _Search = None,
        limit: _Limit = ITEMS_DEFAULT,
        cursor: _Cursor = None,
        if_none_match: _IfNoneMatch = None,
    ) -> Response:
        begin = read_cursor(cursor, str)
        page = await read.items(
            _own(names, caller, source),
            status=status,
            kind=kind,
            text=text,
            after=begin[0] if begin else None,
            limit=limit + 1,
        )
        if page is None:
            raise not_found()
        found = ItemPage(**_items(page.rows, limit), version=VersionOut.of(page.version))
        return _answer(found, page.version, if_none_match, _made_of(page.rows))

    @router.get("/media/{media:path}", summary="One media, by any of its ids", response_model=MediaOut)
    async def media_of(
        media: _Id,
        caller: Principal = Depends(caller_of),
        source: _Source = None,
        if_none_match: _IfNoneMatch = None,
    ) -> Response:
        named = names.source(caller, source)
        row = await read.media(await names.media(media, named), named)
        if row is None:
            raise not_found()
        paths = caller.may(Scope.OPERATE)
        groups = [f"{one['collection']} {one['name']}" for one in row["collections"]]
        made_of = (*_made_of([row]), *_visible(paths), *groups)
        return _answer(MediaOut.of_media(row, paths), version_of(row), if_none_match, made_of)

    @router.get("/sources/{source}/collections", summary="Collections of a source", response_model=CollectionPage)
    async def collections(
        source: _Id,
        caller: Principal = Depends(caller_of),
        kind: _Kind = None,
        gone: Annotated[bool, Query(description="also those without an item that is there")] = False,
        limit: _Limit = ITEMS_DEFAULT,
        cursor: _Cursor = None,
        if_none_match: _IfNoneMatch = None,
    ) -> Response:
        begin = _name_cursor(cursor)
        paths = caller.may(Scope.OPERATE)
        page = await read.collections(
            _own(names, caller, source), kind=kind, folders=paths, gone=gone, after=begin, limit=limit + 1
        )
        if page is None:
            raise not_found()
        shown = [CollectionOut(**CollectionOut.fields_of(row)) for row in page.rows[:limit]]
        last = shown[-1] if len(page.rows) > limit else None
        found = CollectionPage(
            items=shown,
            # As hex: a name may hold what no cursor takes.
            next=None if last is None else cursor_of(last.name.encode().hex(), last.collection),
            version=VersionOut.of(page.version),
        )
        return _answer(found, page.version, if_none_match, _visible(paths))

    @router.get("/collections/{collection}", summary="One collection and its items", response_model=CollectionWithItems)
    async def collection_of(
        collection: _Id,
        caller: Principal = Depends(caller_of),
        limit: _Limit = ITEMS_DEFAULT,
        cursor: _Cursor = None,
        if_none_match: _IfNoneMatch = None,
    ) -> Response:
        begin = read_cursor(cursor, str)
        one = await read.collection(
            collection,
            caller.source_id,
            folders=caller.may(Scope.OPERATE),
            after=begin[0] if begin else None,
            limit=limit + 1,
        )
        if one is None:
            raise not_found()
        row, page = one
        found = CollectionWithItems(**CollectionOut.fields_of(row), **_items(page.rows, limit))
        return _answer(found, page.version, if_none_match, _made_of(page.rows))

    return router


def _own(names: Names, caller: Principal, source: str) -> str:
    """The source a path names; 404 when it is another than the caller's."""
    return names.source(caller, source) or source


def _items(rows: Sequence[Row], limit: int) -> dict[str, Any]:
    """Entries of a page and its ``next``; there is one more row when there is one more page."""
    shown = [ItemOut.of(row) for row in rows[:limit]]
    return {"items": shown, "next": cursor_of(shown[-1].media) if len(rows) > limit else None}


def _name_cursor(cursor: str | None) -> tuple[str, str] | None:
    begin = read_cursor(cursor, str, str)
    if begin is None:
        return None
    try:
        name = bytes.fromhex(begin[0]).decode()
    except ValueError:
        name = "\0"
    if "\0" in name:
        raise Problem(422, "bad_cursor", "This cursor is none that was given out here.")
    return name, begin[1]


def _made_of(rows: Sequence[Row]) -> list[str]:
    """What a list of items shows that its version does not tell: the scan that saw an item last moves no version when
    nothing else changed, and an alias moves that of the item alone."""
    return [f"{row['media_id']} {row['log_epoch']}.{row['version']} {row['last_seen_generation']}" for row in rows]


def _visible(paths: bool) -> tuple[str, ...]:
    return ("paths",) if paths else ()


def _answer(
    body: BaseModel, version: Version | None, if_none_match: str | None, made_of: Iterable[str] = ()
) -> Response:
    """``made_of``: what it depends on besides the version."""
    etag = NOTHING if version is None else version.tag_with(made_of)
    return _tagged(body.model_dump_json(), etag, if_none_match)


def _tagged(text: str, etag: str, if_none_match: str | None) -> Response:
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if matches(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    return Response(text, media_type="application/json", headers=headers)
