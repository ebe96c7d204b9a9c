"""``POST /hooks/{format}/{token}``: where media servers send their webhooks.

Most of them can set no header, so the token may be the last part of the path; nothing logs it. They do not
send again after an error either, so all that can be used of a call is used.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Security
from fastapi.security import HTTPBearer
from starlette.responses import JSONResponse, Response

from streams.ingest.door import Door
from streams.ingest.hooks import Ignored, Observation, ParsedReport, Rejected
from streams.ingest.http import examples
from streams.ingest.http.answers import HookAnswer, IdempotencyKey, answer, check_content_type, checked_key, results_of
from streams.runtime import metrics
from streams.runtime.problems import Problem
from streams.runtime.tokens import Principal, Scope
from streams.runtime.web import PROBLEM_RESPONSES, Guard, correlation_id, problem_response

# Jellyfin's plugin says text/plain of JSON, Emby 4.8 sends a form, Plex several parts.
_TAKEN = ("application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data")


FORMATS = ("jellyfin", "plex", "emby", "audiobookshelf")
Format = Annotated[str, Path(description="Which server is calling.", json_schema_extra={"enum": list(FORMATS)})]


_BODY: dict[str, Any] = {
    "required": True,
    "description": "As the server sends it.",
    "content": {
        "application/json": {
            "schema": {"type": "object"},
            "examples": examples.HOOKS,
        },
        "text/plain": {"schema": {"type": "string"}},
        "multipart/form-data": {"schema": {"type": "object"}},
        "application/x-www-form-urlencoded": {"schema": {"type": "object"}},
    },
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    **PROBLEM_RESPONSES,
    200: {
        "description": "Understood; it carries nothing that is used.",
        "model": HookAnswer,
        "content": {"application/json": {"example": examples.NO_NEWS}},
    },
    202: {
        "description": "Accepted, some of it at least: on disk, whatever happens next.",
        "content": {"application/json": {"example": examples.TAKEN}},
    },
    404: problem_response(404, "No such format."),
}


def router(door: Door, guard: Guard) -> APIRouter:
    routes = APIRouter(tags=["ingest"])

    async def take(name: str, request: Request, principal: Principal, idempotency_key: str | None) -> Response:
        if name not in FORMATS:
            raise Problem(404, "unknown_format", f"The formats are {', '.join(FORMATS)}.")
        key = checked_key(idempotency_key)
        content_type = check_content_type(request, _TAKEN, needed=False)
        results = await results_of(name, request, content_type)
        ignored = [one for one in results if isinstance(one, Ignored)]
        news = [one for one in results if isinstance(one, Observation)]
        told = await door.tell(principal, news, correlation_id=correlation_id(request), idempotency_key=key)
        for one in ignored:
            metrics.HOOKS_IGNORED.labels(name, one.reason).inc()
        metrics.HOOKS_IGNORED.labels(name, "observation").inc(told.unused)
        metrics.OBSERVATIONS_ACCEPTED.labels(name).inc(told.taken)
        reports = [one for one in results if isinstance(one, ParsedReport | Rejected)]
        more = {
            "ignored": [{"reason": one.reason, "detail": one.detail} for one in ignored],
            "observations": told.taken,
            "observations_ignored": told.unused,
        }
        if not reports:
            document = {"accepted": 0, "event_ids": [], "rejected": [], **more}
            return JSONResponse(document, 202 if told.taken else 200)
        receipt = await door.take(
            principal, reports, format=name, correlation_id=correlation_id(request), idempotency_key=key
        )
        return answer(receipt, **more)

    documented: dict[str, Any] = {
        "status_code": 202,
        "response_model": HookAnswer,
        "responses": _RESPONSES,
        "openapi_extra": {"requestBody": _BODY},
    }

    @routes.post("/hooks/{format}/{token}", summary="A media server's webhook, token in the path", **documented)
    async def hook_with_token(
        format: Format,
        token: Annotated[str, Path(description="The source's token. Access logs of proxies should drop it.")],
        request: Request,
        principal: Principal = Depends(guard.with_path_token(Scope.REPORT)),
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Give a server this address when it can set no header (Plex)."""
        del token  # read by the guard
        return await take(format, request, principal, idempotency_key)

    @routes.post(
        "/hooks/{format}",
        summary="A media server's webhook, token as bearer",
        dependencies=[Security(HTTPBearer(auto_error=False))],
        **documented,
    )
    async def hook(
        format: Format,
        request: Request,
        principal: Principal = Depends(guard(Scope.REPORT)),
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Better where the server can set a header (Jellyfin): nothing secret in an address."""
        return await take(format, request, principal, idempotency_key)

    return routes
