"""The routes of the read API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query
from pydantic import BaseModel
from starlette.responses import Response

from projections.api.names import Names, not_found
from projections.api.read_models import ReadModels, Row
from projections.api.shapes import (
    ContinueOut,
    ContinuePage,
    EventOut,
    HistoryOut,
    HistoryPage,
    ProgressOut,
    ProgressPage,
    VersionOut,
)
from projections.api.versions import NOTHING, Version, cursor_of, matches, read_cursor
from schemas.limits import ID_BYTES_MAX
from streams.runtime.problems import Problem
from streams.runtime.tokens import Principal, Scope
from streams.runtime.web import PROBLEM_RESPONSES, PrincipalOf

PAGE_DEFAULT = 50
PAGE_MAX = 500
AFTER_WAIT_S = 2.0
_POLL_FIRST_S = 0.01
_POLL_MAX_S = 0.05

_Id = Annotated[str, Path(max_length=ID_BYTES_MAX, pattern="^[^\\x00]+$")]
_Text = Annotated[str | None, Query(max_length=ID_BYTES_MAX, pattern="^[^\\x00]+$")]
_Source = Annotated[str | None, Query(max_length=64, pattern="^[^\\x00]+$", description="whose names the path uses")]
_Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
_Cursor = Annotated[str | None, Query(max_length=1024, description="`next` of the page before")]
_After = Annotated[
    str | None,
    Query(
        max_length=ID_BYTES_MAX,
        pattern="^[^\\x00]+$",
        description="an event_id: answer when its decision can be read here, or 504 after 2 s",
    ),
]
_IfNoneMatch = Annotated[str | None, Header(max_length=4096)]

_RESPONSES: dict[int | str, dict[str, Any]] = {
    **{code: PROBLEM_RESPONSES[code] for code in (401, 403, 422, 429, 503)},
    304: {"description": "The version in If-None-Match is still the newest."},
    404: {"description": "Nothing here, or nothing this token may see."},
    504: {"description": "The event of ?after= has not been decided within 2 s: ask again."},
}


def api_router(read: ReadModels, names: Names, require: Callable[[Scope], PrincipalOf]) -> APIRouter:
    """GET routes over ``read``. ``require(Scope.READ)`` is the dependency that gives the calling Principal.

    Every answer carries the version of what it shows as an ETag. A token of a source sees that source's people,
    one bound to a person only that person; the others are 404.
    """
    router = APIRouter(prefix="/v1", tags=["playback"], responses=_RESPONSES)
    caller_of = require(Scope.READ)

    @router.get("/users/{user}/progress", summary="All playback of a person", response_model=ProgressPage)
    async def progress_list(
        user: _Id,
        caller: Principal = Depends(caller_of),
        source: _Source = None,
        limit: _Limit = PAGE_DEFAULT,
        cursor: _Cursor = None,
        after: _After = None,
        if_none_match: _IfNoneMatch = None,
    ) -> Response:
        begin = read_cursor(cursor, str)
        named = names.source(caller, source)
        ref = await names.user(caller, user, named)
        await _wait_for(read, after, ref)
        page = await read.progress_page(ref, begin[0] if begin else None, limit + 1)
        upstream = await names.upstream([row["media_id"] for row in page.rows], named)
        items = [ProgressOut(**ProgressOut.fields_of(row, upstream)) for row in page.rows[:limit]]
        more = len(page.rows) > limit
        found = ProgressPage(
            items=items, next=cursor_of(items[-1].media) if more else None, version=VersionOut.of(page.version)
        )
        return _answer(found, page.version, if_none_match, _made_of(page.rows, upstream))

    @router.get("/users/{user}/progress/{media:path}", summary="One media of a person", response_model=ProgressOut)
    async def progress_of(
        user: _Id,
        media: _Id,
        caller: Principal = Depends(caller_of),
        source: _Source = None,
        after: _After = None,
        if_none_match: _IfNoneMatch = None,
    ) -> Response:
        named = names.source(caller, source)
        ref = await names.user(caller, user, named)
        ids = await names.media(media, named)
        await _wait_for(read, after, ref)
        found = await read.progress(ref, ids, fresh=after is not None)
        if found is None:
            raise not_found()
        row, version = found
        upstream = await names.upstream([row["media_id"]], named)
        made_of = (*row["joined"], *upstream, *upstream.values())
        return _answer(ProgressOut(**ProgressOut.fields_of(row, upstream)), version, if_none_match, made_of)

    @router.get("/users/{user}/continue", summary="What to go on with, newest first", response_model=ContinuePage)
    async def continue_list(
        user: _Id,
        caller: Principal = Depends(caller_of),
        source: _Source = None,
        limit: _Limit = PAGE_DEFAULT,
        cursor: _Cursor = None,
        after: _After = None,
        if_none_match: _IfNoneMatch = None,
    ) -> Response:
        begin = read_cursor(cursor, int, str)
        named = names.source(caller, source)
        ref = await names.user(caller, user, named)
        await _wait_for(read, after, ref)
        page = await read.continue_page(
            ref, (begin[0], begin[1]) if begin else None, limit + 1, fresh=after is not None
        )
        upstream = await names.upstream([row["media_id"] for row in page.rows], named)
        items = [ContinueOut(**ContinueOut.fields_of(row, upstream)) for row in page.rows[:limit]]
        more = len(page.rows) > limit
        found = ContinuePage(
            items=items,
            next=cursor_of(items[-1].event_time, items[-1].media) if more else None,
            version=VersionOut.of(page.version),
        )
        return _answer(found, page.version, if_none_match, _made_of(page.rows, upstream))

    @router.get("/users/{user}/history/{media:path}", summary="What happened, newest first", response_model=HistoryPage)
    async def history_list(
        user: _Id,
        media: _Id,
        caller: Principal = Depends(caller_of),
        source: _Source = None,
        limit: _Limit = PAGE_DEFAULT,
        cursor: _Cursor = None,
        after: _After = None,
        if_none_match: _IfNoneMatch = None,
    ) -> Response:
        begin = read_cursor(cursor, int, int)
        named = names.source(caller, source)
        ref = await names.user(caller, user, named)
        ids = await names.media(media, named)
        await _wait_for(read, after, ref)
        found = await read.history_page(ref, ids, (begin[0], begin[1]) if begin else None, limit + 1)
        if found is None:
            raise not_found()
        shown = found.rows[:limit]
        last = shown[-1] if len(found.rows) > limit else None
        history = HistoryPage(
            user=ref,
            media=found.media_id,
            items=[HistoryOut.of(row) for row in shown],
            next=None if last is None else cursor_of(last["log_epoch"], last["version"]),
            version=VersionOut.of(found.version),
        )
        return _answer(history, found.version, if_none_match, found.joined)

    @router.get(
        "/events/{event_id:path}",
        summary="What became of a report, and why",
        response_model=EventOut,
        responses={
            409: {"description": "Several reports have this id: say which with ?source=, ?user=, ?media=."},
            410: {
                "description": "Older than 30 days: the explanation is gone, the decision is still in the log. Known "
                "when ?user= or the token says whose it is, else 404."
            },
        },
    )
    async def event(
        event_id: _Id,
        caller: Principal = Depends(caller_of),
        source: _Source = None,
        user: _Text = None,
        media: _Text = None,
    ) -> Response:
        named = names.source(caller, source)
        ref = caller.user_ref if user is None else await names.user(caller, user, named)
        ids = None if media is None else await names.media(media, named)
        rows = await read.events(event_id, source=named, user=ref, media=ids)
        if not rows and ref is not None and await read.in_history(event_id, source=named, user=ref):
            raise _expired()
        if not rows:
            raise not_found()
        if len(rows) > 1:
            which = [{"source": r["source_id"], "user": r["user_ref"], "media": r["media_id"]} for r in rows]
            raise Problem(
                409, "ambiguous", "Several reports have this id: say which with ?source=, ?user=, ?media=.", which=which
            )
        if rows[0]["expired"]:
            raise _expired()
        return _json(EventOut.of(rows[0]), {"Cache-Control": "private, no-cache"})

    return router


def _expired() -> Problem:
    return Problem(410, "expired", "Older than 30 days: the explanation is gone, the decision is still in the log.")


async def _wait_for(read: ReadModels, event_id: str | None, user: str) -> None:
    """Return when the read model has the decision of this report, or nobody asked for that.

    Raises Problem 504 after AFTER_WAIT_S: an answer without the caller's own report would pass for one with it.
    """
    if event_id is None:
        return
    deadline = time.monotonic() + AFTER_WAIT_S
    pause = _POLL_FIRST_S
    while not await read.decided(event_id, user):
        if time.monotonic() + pause > deadline:
            raise Problem(
                504,
                "not_decided_yet",
                "The event of ?after= is not in the read model yet: ask again, or without ?after= for what is known.",
                headers={"Retry-After": "1"},
            )
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _POLL_MAX_S)


def _made_of(rows: Sequence[Row], upstream: Mapping[str, str]) -> list[str]:
    """What a list depends on besides its version: which media it shows, which are in them, and what the caller's
    source calls them now."""
    return [name for row in rows for name in (row["media_id"], *row["joined"], "", upstream.get(row["media_id"], ""))]


def _answer(
    body: BaseModel, version: Version | None, if_none_match: str | None, made_of: Iterable[str] = ()
) -> Response:
    etag = NOTHING if version is None else version.tag_with(made_of)
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if matches(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    return _json(body, headers)


def _json(body: BaseModel, headers: dict[str, str]) -> Response:
    return Response(body.model_dump_json(), media_type="application/json", headers=headers)
