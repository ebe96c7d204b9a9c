"""The part of the ListenBrainz API that players and servers submit listens with.

The token is one of ours, bound to a person (submissions name none), in ListenBrainz' own header form:
``Authorization: Token ph_…``. Shapes: listenbrainz-server listenbrainz/webserver/views/api.py.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from streams.ingest.door import Door
from streams.ingest.hooks import ParsedReport, Rejected
from streams.ingest.http import examples
from streams.ingest.http.answers import answer, check_content_type, results_of
from streams.runtime.tokens import Principal, Scope, Unauthenticated
from streams.runtime.web import PROBLEM_RESPONSES, Guard, bearer, correlation_id, header_token

# Some submitters send JSON under a form's content type, or none.
_TAKEN = ("application/json", "text/plain", "application/x-www-form-urlencoded")
_LISTEN: dict[str, Any] = {
    "listen_type": "single",
    "payload": [
        {
            "listened_at": 1_796_069_700,
            "track_metadata": {"artist_name": "Ana Ferry", "track_name": "Slow Rivers", "release_name": "Tides"},
        }
    ],
}
_BODY: dict[str, Any] = {
    "required": True,
    "content": {"application/json": {"schema": {"type": "object"}, "example": _LISTEN}},
}


_VALIDITY: dict[int | str, dict[str, Any]] = {
    **{code: PROBLEM_RESPONSES[code] for code in (400, 408, 413, 415, 429, 503)},
    200: {
        "description": "Whether it is.",
        "content": {
            "application/json": {
                "schema": {"type": "object", "required": ["code", "message", "valid"]},
                "examples": {"valid": {"value": examples.VALID}, "invalid": {"value": examples.INVALID}},
            }
        },
    },
}


def token_of(request: Request) -> str | None:
    """``Token …`` as ListenBrainz clients say it, or ``Bearer …``."""
    return header_token(request, "token") or bearer(request)


def router(door: Door, guard: Guard) -> APIRouter:
    routes = APIRouter(tags=["listenbrainz"])

    @routes.post(
        "/1/submit-listens",
        summary="Submit listens",
        responses={
            **PROBLEM_RESPONSES,
            200: {
                "description": "Taken.",
                "content": {"application/json": {"schema": {"type": "object"}, "example": {"status": "ok"}}},
            },
        },
        openapi_extra={"requestBody": _BODY},
    )
    async def submit_listens(
        request: Request,
        principal: Principal = Depends(guard.reading(token_of, Scope.REPORT)),
    ) -> Response:
        """`single`, `playing_now` or `import`. The token must be bound to a person."""
        content_type = check_content_type(request, _TAKEN, needed=False)
        results = await results_of("listenbrainz", request, content_type)
        reports = [one for one in results if isinstance(one, ParsedReport | Rejected)]
        receipt = await door.take(principal, reports, format="listenbrainz", correlation_id=correlation_id(request))
        if receipt.rejected and not receipt.accepted:
            return answer(receipt)
        return JSONResponse({"status": "ok"})

    @routes.get("/1/validate-token", summary="Is this token valid?", responses=_VALIDITY)
    async def validate_token(request: Request) -> Response:
        """Clients ask this before they let a person save the token; the name is the token's public id."""
        try:
            principal = await guard.authenticator.authenticate(token_of(request))
        except Unauthenticated:
            return JSONResponse({"code": 200, "message": "Token invalid.", "valid": False})
        usable = principal.may(Scope.REPORT) and principal.user_ref is not None and principal.source_id is not None
        if not usable:
            return JSONResponse({"code": 200, "message": "Token invalid.", "valid": False})
        name = principal.token_id
        return JSONResponse({"code": 200, "message": "Token valid.", "valid": True, "user_name": name})

    return routes
