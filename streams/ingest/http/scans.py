"""``POST /v1/sources/{id}/scans`` and ``POST /v1/scans/{id}/confirm``: operators' commands."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from schemas.limits import ID_BYTES_MAX
from streams.ingest.commands import Commands
from streams.ingest.http import examples
from streams.runtime.commands import parse_scan_id, scan_id
from streams.runtime.problems import Problem
from streams.runtime.tokens import Principal, Scope
from streams.runtime.trees import SCANNABLE
from streams.runtime.web import PROBLEM_RESPONSES, Guard, correlation_id, problem_response

_Id = Annotated[str, Path(max_length=ID_BYTES_MAX, pattern="^[^\\x00]+$")]


class ScanWanted(BaseModel):
    model_config = ConfigDict(extra="forbid")

    full: bool = Field(False, description="Read the details of unchanged items as well.")


class ScanAccepted(BaseModel):
    """The command is in the log. ``GET /v1/scans/{id}`` tells what became of it, once a worker has begun it."""

    scan: str = Field(description="The scan's id.", examples=["music:41"])
    source: str = Field(examples=["music"])
    generation: int = Field(examples=[41])


_RESPONSES: dict[int | str, dict[str, Any]] = {
    **PROBLEM_RESPONSES,
    202: {
        "description": "Asked for: acknowledged by Kafka on all replicas.",
        "content": {"application/json": {"example": examples.SCAN}},
    },
    404: problem_response(404, "No such source or scan, or none this token may speak of."),
    409: problem_response(409, "A source of this kind can't be scanned."),
}


def router(commands: Commands, guard: Guard) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["library"], responses=_RESPONSES)

    async def hold_to(principal: Principal, source_id: str) -> None:
        if principal.source_id not in (None, source_id):
            raise _nothing()
        kind = await commands.kinds.kind_of(source_id)
        if kind is None:
            raise _nothing()
        if kind not in SCANNABLE:
            raise Problem(409, "not_scannable", f"Only sources of these kinds are scanned: {', '.join(SCANNABLE)}.")

    @routes.post("/sources/{source}/scans", summary="Ask for a scan", status_code=202, response_model=ScanAccepted)
    async def request_scan(
        source: _Id,
        request: Request,
        wanted: Annotated[ScanWanted | None, Body(openapi_examples=examples.SCAN_WANTED)] = None,
        principal: Principal = Depends(guard(Scope.OPERATE)),
    ) -> Response:
        """Asking while a scan waits is the same scan; while one runs, one more after it."""
        await hold_to(principal, source)
        generation = await commands.request_scan(
            source, full=wanted is not None and wanted.full, correlation_id=correlation_id(request)
        )
        return _accepted(source, generation)

    @routes.post("/scans/{scan}/confirm", summary="Confirm a held scan", status_code=202, response_model=ScanAccepted)
    async def confirm_scan(
        scan: _Id, request: Request, principal: Principal = Depends(guard(Scope.OPERATE))
    ) -> Response:
        """What it found missing is missing. Everything is checked once more; a scan that is not held stays as it is."""
        named = parse_scan_id(scan)
        if named is None:
            raise _nothing()
        source, generation = named
        await hold_to(principal, source)
        await commands.confirm_scan(source, generation, correlation_id=correlation_id(request))
        return _accepted(source, generation)

    return routes


def _accepted(source_id: str, generation: int) -> Response:
    scan = scan_id(source_id, generation)
    document = {"scan": scan, "source": source_id, "generation": generation}
    return JSONResponse(document, 202, headers={"Location": f"/v1/scans/{scan}"})


def _nothing() -> Problem:
    return Problem(404, "not_found", "There is nothing here, or nothing this token may speak of.")
