"""Corrections by a person: an earlier position restored, a wrong finish undone, a conflict resolved.

All of them go through the door as commands, so that they are in the log, decided by the rules, and safe to repeat.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import Response

from projections.api.names import Names, not_found
from projections.api.read_models import ReadModels, Row
from projections.api.undoing import (
    FINISHED,
    BeforeFinish,
    Command,
    before_finish,
    entry_named,
    occurred_at,
    position,
    undo,
)
from schemas.limits import ID_BYTES_MAX
from streams.ingest.door import Door, Receipt
from streams.ingest.draft import keyed_event_id
from streams.ingest.hooks import ParsedReport
from streams.ingest.http.answers import Accepted, IdempotencyKey, answer, checked_key
from streams.runtime.clock import Clock
from streams.runtime.problems import Problem
from streams.runtime.tokens import Principal, Scope
from streams.runtime.web import PROBLEM_RESPONSES, PrincipalOf, correlation_id, problem_response

PAGE: Final = 500
PAGES_MAX: Final = 40
"""Of history that is looked through for an earlier finish."""

_Id = Annotated[str, Path(max_length=ID_BYTES_MAX, pattern="^[^\\x00]+$")]
_Source = Annotated[str | None, Query(max_length=64, pattern="^[^\\x00]+$", description="whose names the path uses")]


class RestoreWanted(BaseModel):
    """One of both."""

    model_config = ConfigDict(extra="forbid")

    entry: str | None = Field(None, max_length=64, description="`id` of a history entry: back to the position after it")
    before: Literal["finish"] | None = Field(
        None, description="`finish`: as before the newest finish, which was none; also no longer played, if it is that"
    )

    @model_validator(mode="after")
    def _one(self) -> RestoreWanted:
        if (self.entry is None) == (self.before is None):
            raise ValueError("give either entry or before")
        return self


class ResolveWanted(BaseModel):
    model_config = ConfigDict(extra="forbid")

    take: Literal["conflict", "position"] = Field(
        description="`conflict`: the other device's position; `position`: the one that is shown"
    )
    position_ms: int | None = Field(
        None, ge=0, le=2**53, description="What the chosen side showed: when it has changed since, 409 and no change."
    )


class Corrected(Accepted):
    """The commands are on disk; read with `?after=` of the last event id to see what they led to."""

    position_ms: int = Field(description="The position that was commanded.")


_RESPONSES: dict[int | str, dict[str, Any]] = {
    **PROBLEM_RESPONSES,
    404: problem_response(404, "No such entry, or none this token may see."),
    409: problem_response(409, "There is nothing to correct here, or it has changed since it was looked at."),
}


def corrections_router(
    read: ReadModels, names: Names, door: Door, require: Callable[[Scope], PrincipalOf], clock: Clock
) -> APIRouter:
    """POST routes over ``door``. A token needs the scopes report and read."""
    router = APIRouter(prefix="/v1", tags=["playback"], responses=_RESPONSES)
    caller_of = require(Scope.REPORT)

    async def reader(caller: Principal = Depends(caller_of)) -> AsyncIterator[Principal]:
        if not caller.may(Scope.READ):
            raise Problem(403, "forbidden", "This token lacks the scope read.")
        yield caller

    async def found(caller: Principal, user: str, media: str, source: str | None) -> tuple[Row, list[str]]:
        named = names.source(caller, source)
        ref = await names.user(caller, user, named)
        ids = await names.media(media, named)
        progress = await read.progress(ref, ids, fresh=True)
        if progress is None:
            raise not_found()
        return progress[0], ids

    async def history(row: Row, ids: Sequence[str]) -> AsyncIterator[Row]:
        before: tuple[int, int] | None = None
        for _ in range(PAGES_MAX):
            page = await read.history_page(row["user_ref"], ids, before, PAGE)
            rows = page.rows if page is not None else ()
            for one in rows:
                yield one
            if len(rows) < PAGE:
                return
            before = rows[-1]["log_epoch"], rows[-1]["version"]

    async def entry_of(row: Row, ids: Sequence[str], entry: str) -> Row:
        place = entry_named(entry)
        if place is None:
            raise not_found()
        log_epoch, _, version = place
        page = await read.history_page(row["user_ref"], ids, (log_epoch, version + 1), 1)
        rows = page.rows if page is not None else ()
        if not rows or (rows[0]["log_epoch"], rows[0]["partition"], rows[0]["version"]) != place:
            raise not_found()
        return rows[0]

    async def given(caller: Principal, row: Row, key: str | None) -> Response | None:
        """The answer to a request that was taken before under the same key, whatever it changed since."""
        ids: list[str] = []
        while key is not None and await read.decided(
            event_id := keyed_event_id(caller, key, len(ids)), row["user_ref"]
        ):
            ids.append(event_id)
        return answer(Receipt(tuple(ids), ()), position_ms=row["position_ms"]) if ids else None

    async def give(
        request: Request, caller: Principal, source: str | None, row: Row, ids: Sequence[str],
        commands: Sequence[Command], key: str | None,
    ) -> Response:  # fmt: skip
        whose = names.source(caller, source)
        if whose is None:
            # An operator's: the command is of the source that spoke of it last.
            newest = await read.history_page(row["user_ref"], ids, None, 1)
            if newest is None or not newest.rows:
                raise Problem(422, "source_needed", "This token has no source: say for which one with ?source=.")
            whose = newest.rows[0]["source_id"]
        at = occurred_at(clock.now_ms(), row["event_time"])
        reports = [
            ParsedReport(
                source=whose if caller.source_id is None else None,
                user=row["user_ref"],
                media=row["media_id"],
                kind=command.kind,
                position_ms=command.position_ms,
                occurred_at=at,
                origin="command",
            )
            for command in commands
        ]
        receipt = await door.take(
            caller, reports, format="native", correlation_id=correlation_id(request), idempotency_key=key
        )
        return answer(receipt, position_ms=commands[-1].position_ms or 0)

    @router.post(
        "/users/{user}/progress/{media:path}/restore",
        summary="Go back to where it was",
        status_code=202,
        response_model=Corrected,
    )
    async def restore(
        user: _Id,
        media: _Id,
        request: Request,
        wanted: Annotated[
            RestoreWanted,
            Body(
                openapi_examples={
                    "entry": {"summary": "The position after a history entry", "value": {"entry": "1.4.120"}},
                    "finish": {"summary": "It was not finished", "value": {"before": "finish"}},
                }
            ),
        ],
        caller: Principal = Depends(reader),
        source: _Source = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """To the position after an entry of the history, or to what stood before a finish that was none."""
        key = checked_key(idempotency_key)
        row, ids = await found(caller, user, media, source)
        if (before := await given(caller, row, key)) is not None:
            return before
        if wanted.entry is not None:
            commands = position((await entry_of(row, ids, wanted.entry))["position_ms"])
        else:
            if row["phase"] != FINISHED:
                raise Problem(409, "not_finished", "It is not finished: there is nothing to undo.")
            stood = await _before(history(row, ids))
            if stood is None:
                raise Problem(409, "not_in_history", "The history does not reach back to what stood before it.")
            commands = undo(stood)
        return await give(request, caller, source, row, ids, commands, key)

    @router.post(
        "/users/{user}/progress/{media:path}/resolve",
        summary="Pick a side of a conflict",
        status_code=202,
        response_model=Corrected,
    )
    async def resolve(
        user: _Id,
        media: _Id,
        request: Request,
        wanted: Annotated[
            ResolveWanted,
            Body(openapi_examples={"conflict": {"value": {"take": "conflict", "position_ms": 3_600_000}}}),
        ],
        caller: Principal = Depends(reader),
        source: _Source = None,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Another device was further, later than it could move the position: take its position, or keep this one."""
        key = checked_key(idempotency_key)
        row, ids = await found(caller, user, media, source)
        if (before := await given(caller, row, key)) is not None:
            return before
        conflict = row["conflict"]
        if conflict is None:
            raise Problem(409, "no_conflict", "There is no conflict: it was resolved, or the position has passed it.")
        if wanted.take == "position" and row["phase"] == FINISHED:
            raise Problem(409, "finished", "It is finished, and stays so without a word: playing it again drops this.")
        side = conflict["position_ms"] if wanted.take == "conflict" else row["position_ms"]
        if wanted.position_ms is not None and wanted.position_ms != side:
            raise Problem(409, "changed", "That side has changed since it was looked at.", position_ms=side)
        return await give(request, caller, source, row, ids, position(side), key)

    return router


async def _before(rows: AsyncIterator[Row]) -> BeforeFinish | None:
    return before_finish([row async for row in rows])
