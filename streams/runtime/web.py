"""One HTTP application for whatever routes a role has: errors, limits, health, metrics and who may call."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import JSONResponse, PlainTextResponse, Response

from streams.runtime import logs, metrics, problems
from streams.runtime.edge import Edge, Limits, too_many
from streams.runtime.errors import Unavailable
from streams.runtime.problems import Problem
from streams.runtime.rates import Rates
from streams.runtime.tokens import Authenticator, Principal, Scope

CHECK_TIMEOUT_S = 3.0
_log = logs.get(__name__)

Check = Callable[[], Awaitable[None]]
"""Returns when a dependency is ready; raises Unavailable otherwise."""


def build_app(
    title: str,
    *,
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]] | None = None,
    limits: Limits | None = None,
    checks: Mapping[str, Check] | None = None,
    version: str = "1",
    description: str = "",
) -> FastAPI:
    """An application without routes of its own but /healthz, /readyz, /metrics and /openapi.json.

    Every error is problem+json, every answer carries X-Correlation-Id (``request.state.correlation_id``
    inside), bodies are held to the limits. ``checks`` are asked by /readyz, each for at most CHECK_TIMEOUT_S.
    """
    app = FastAPI(
        title=title,
        version=version,
        description=description,
        lifespan=lifespan,
        # Their pages load scripts from elsewhere; the document itself is served.
        docs_url=None,
        redoc_url=None,
        # A redirect would repeat the path, token and all.
        redirect_slashes=False,
    )
    problems.install(app)
    _describe_bearer(app)
    app.add_middleware(Edge, limits=limits or Limits())
    app.include_router(_health(dict(checks or {})))
    return app


def _describe_bearer(app: FastAPI) -> None:
    """Routes that read the token themselves refer to the scheme, so it must be there whoever else uses it."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        document = described()
        schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes.setdefault("HTTPBearer", {"type": "http", "scheme": "bearer"})
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _health(checks: Mapping[str, Check]) -> APIRouter:
    router = APIRouter(tags=["health"])
    asking = _Readiness(checks)

    @router.get("/healthz", summary="Is the process alive?")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @router.get("/readyz", summary="Are its dependencies there?", responses={503: {"description": "Some are away."}})
    async def readyz() -> Response:
        results = await asking.results()
        ready = all(state == "ok" for state in results.values())
        document = {"status": "ready" if ready else "waiting", "checks": results}
        return JSONResponse(document, 200 if ready else 503, None if ready else {"Retry-After": "2"})

    @router.get(
        "/metrics",
        summary="Prometheus metrics",
        response_class=PlainTextResponse,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics_text() -> Response:
        return Response(generate_latest(metrics.REGISTRY), media_type=CONTENT_TYPE_LATEST)

    return router


class _Readiness:
    """Asks the dependencies for all who want to know at the same time, so that nobody can make them busy."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks
        self._under_way: asyncio.Task[dict[str, str]] | None = None

    async def results(self) -> dict[str, str]:
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.create_task(self._ask_all())
        # Shielded: one who goes away must not take the answer from the others.
        return await asyncio.shield(self._under_way)

    async def _ask_all(self) -> dict[str, str]:
        answers = await asyncio.gather(*(_ask(check) for check in self._checks.values()))
        return dict(zip(self._checks, answers, strict=True))


async def _ask(check: Check) -> str:
    try:
        await asyncio.wait_for(check(), CHECK_TIMEOUT_S)
    except Unavailable:
        return "away"
    except TimeoutError:
        return "slow"
    except Exception as exc:
        # Readiness is a question, not work: whatever a check trips over, the answer is "no".
        _log.error("readiness check failed", error_class=type(exc).__name__)
        return "failed"
    return "ok"


PrincipalOf = Callable[[Request], AsyncIterator[Principal]]
"""A FastAPI dependency."""


class Guard:
    """Who may call: ``Depends(guard(Scope.READ))`` gives the Principal or ends the request.

    401 for anything but a valid token, 403 for a valid one without the scope, 503 when nobody can tell, 429
    when one token has ``at_once_max`` requests under way or sends more than ``rates`` allow it.
    """

    def __init__(self, authenticator: Authenticator, *, at_once_max: int = 64, rates: Rates | None = None) -> None:
        self.authenticator = authenticator
        self._rates = rates
        self._at_once_max = at_once_max
        self._at_once: Counter[str] = Counter()

    def __call__(self, scope: Scope | str) -> PrincipalOf:
        """A dependency that takes the token from ``Authorization: Bearer``."""
        return self.reading(bearer, scope)

    def with_path_token(self, scope: Scope | str) -> PrincipalOf:
        """The same for senders that can't set headers: the token is the path parameter ``token``."""
        return self.reading(lambda request: str(request.path_params["token"]), scope)

    def reading(self, token_of: Callable[[Request], str | None], scope: Scope | str) -> PrincipalOf:
        """The same with the token from wherever ``token_of`` finds it."""
        wanted = Scope(scope)

        async def principal(request: Request) -> AsyncIterator[Principal]:
            async with self.admitted(request, token_of(request), wanted) as found:
                yield found

        return principal

    def admitted(self, request: Request, token: str | None, scope: Scope) -> Admission:
        """The same as a context manager, for routes whose every request counts: ``async with … as principal``."""
        return Admission(self, request, token, scope)

    async def enter(self, request: Request, token: str | None, scope: Scope) -> Principal:
        """Raises Problem, Unauthenticated or Unavailable; else ``leave`` must be called with what this returns."""
        found = await self.authenticator.authenticate(token)
        request.state.principal = found
        if not found.may(scope):
            raise Problem(403, "forbidden", f"This token lacks the scope {scope.value}.")
        at_once = self._at_once[found.token_id] >= self._at_once_max
        wait_s = 1 if at_once else self._rates.take(found.token_id) if self._rates is not None else 0
        if (problem := too_many(wait_s, "token")) is not None:
            raise problem
        self._at_once[found.token_id] += 1
        return found

    def leave(self, principal: Principal) -> None:
        """One request of this token less is under way."""
        self._at_once[principal.token_id] -= 1
        if not self._at_once[principal.token_id]:
            del self._at_once[principal.token_id]


class Admission:
    """One request's passage through a Guard."""

    __slots__ = ("_asked", "_guard", "_principal")

    def __init__(self, guard: Guard, request: Request, token: str | None, scope: Scope) -> None:
        self._guard = guard
        self._asked = request, token, scope
        self._principal: Principal | None = None

    async def __aenter__(self) -> Principal:
        self._principal = await self._guard.enter(*self._asked)
        return self._principal

    async def __aexit__(self, *exc: object) -> None:
        if self._principal is not None:
            self._guard.leave(self._principal)


BEARER_DOCUMENTED: dict[str, Any] = {"security": [{"HTTPBearer": []}]}
"""For ``openapi_extra`` of routes that read the bearer token themselves; build_app describes the scheme."""


def bearer(request: Request) -> str | None:
    """The token of the Authorization header (RFC 6750), None when there is none."""
    return header_token(request, "bearer")


def header_token(request: Request, scheme: str) -> str | None:
    """What the Authorization header says under ``scheme`` (lower case), None when it says something else."""
    given, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if given.lower() == scheme else None


def correlation_id(request: Request) -> str:
    """The id every record, row and log line of this request carries."""
    return str(request.state.correlation_id)


def problem_response(code: int, text: str) -> dict[str, Any]:
    """How a problem is documented among a route's ``responses``."""
    example = {
        "type": f"urn:playhead:problem:{_KINDS.get(code, 'not_found')}",
        "title": HTTPStatus(code).phrase,
        "status": code,
        "detail": text,
    }
    headers = {
        "Retry-After": {"description": "Seconds, 1 or more.", "schema": {"type": "string", "pattern": "^[1-9][0-9]*$"}}
    }
    return {
        "description": text,
        "content": {problems.MEDIA_TYPE: {"schema": _PROBLEM, "example": example}},
        **({"headers": headers} if code in (429, 503) else {}),
    }


_PROBLEM: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "description": "A URN that ends in a stable word."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}
_KINDS = {
    400: "bad_length",
    401: "unauthenticated",
    403: "forbidden",
    408: "too_slow",
    413: "too_large",
    415: "content_type",
    422: "nothing_accepted",
    429: "too_many_requests",
    503: "unavailable",
}
PROBLEM_RESPONSES: Mapping[int | str, dict[str, Any]] = {
    code: problem_response(code, text)
    for code, text in {
        400: "A header is malformed.",
        401: "No token, or none that counts.",
        403: "The token lacks the scope.",
        408: "The body did not arrive in time.",
        413: "Over a limit of size or number.",
        415: "A content type or encoding that is not taken.",
        422: "Nothing in the request can be used.",
        429: "Too many requests of this token or address; Retry-After says when.",
        503: "A service it needs is away: nothing was accepted for sure, send it again after Retry-After seconds.",
    }.items()
}
"""Documentation of the errors any route may answer, for ``responses=``."""
