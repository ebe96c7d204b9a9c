"""Errors over HTTP as problem+json (RFC 9457): what went wrong, never what was sent.

Nothing of a request is echoed: paths hold tokens and names of people, bodies hold everything else.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from streams.runtime import logs, metrics
from streams.runtime.errors import Permanent, Unavailable
from streams.runtime.tokens import Unauthenticated

MEDIA_TYPE = "application/problem+json"
CHALLENGE = 'Bearer realm="playhead"'
_log = logs.get(__name__)


class Problem(HTTPException):
    """Raise it anywhere behind a request. ``kind`` is a stable word for programs, ``detail`` one sentence.

    ``more``: extension members of the problem object.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(status, detail, dict(headers) if headers else None)
        self.kind = kind
        self.more = more


def unavailable(error: Unavailable) -> Problem:
    """The 503 of a dependency that is away, counted."""
    dependency = str(getattr(error, "dependency", "other"))
    metrics.UNAVAILABLE.labels(dependency).inc()
    return Problem(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "unavailable",
        "A service this request needs is away; nothing was accepted for sure. Send the same request again.",
        headers={"Retry-After": str(error.retry_after_s)},
        dependency=dependency,
    )


def body_of(problem: Problem) -> bytes:
    """The problem object. ``type`` is a URN of the kind: there is no page behind it to break."""
    status = problem.status_code
    phrase = HTTPStatus(status).phrase if status in {s.value for s in HTTPStatus} else "Error"
    document = {
        "type": f"urn:playhead:problem:{problem.kind}",
        "title": phrase,
        "status": status,
        "detail": problem.detail,
        **problem.more,
    }
    return json.dumps(document, ensure_ascii=True).encode()


def response_of(problem: Problem) -> Response:
    return Response(body_of(problem), problem.status_code, dict(problem.headers or {}), MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer every error of the application with a problem."""

    def http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if isinstance(error, Problem):
            return response_of(error)
        known = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        texts = {"not_found": "There is nothing here.", "method_not_allowed": "Not with this method; see Allow."}
        detail = texts.get(known, "The request could not be handled.")
        return response_of(Problem(error.status_code, known, detail, headers=error.headers))

    def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        errors = [{"at": _place(e["loc"]), "is": str(e["type"])} for e in error.errors()]
        problem = Problem(422, "invalid_request", "Parts of the request are not as described.", errors=errors)
        return response_of(problem)

    def away(_: Request, error: Exception) -> Response:
        assert isinstance(error, Unavailable)
        return response_of(unavailable(error))

    def nobody(_: Request, error: Exception) -> Response:
        assert isinstance(error, Unauthenticated)
        return response_of(unauthenticated())

    def permanent(_: Request, error: Exception) -> Response:
        assert isinstance(error, Permanent)
        return response_of(Problem(422, error.cause, "The request can't be accepted, now or later."))

    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(Unavailable, away)
    app.add_exception_handler(Unauthenticated, nobody)
    app.add_exception_handler(Permanent, permanent)


def unauthenticated() -> Problem:
    """One answer for no token and for any that does not count."""
    return Problem(
        HTTPStatus.UNAUTHORIZED,
        "unauthenticated",
        "A valid token is needed: Authorization: Bearer …, or as the last part of a hook's path.",
        headers={"WWW-Authenticate": CHALLENGE},
    )


def unexpected(error: BaseException) -> Problem:
    """The 500 of a bug, logged by class and place: messages of exceptions quote values, and so people."""
    frames = traceback.extract_tb(error.__traceback__)
    _log.error(
        "unexpected error",
        error_class=type(error).__name__,
        at=[f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames[-12:]],
    )
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "Something unexpected happened here; it is logged.")


def _place(location: Sequence[Any]) -> str:
    """Where a value is wrong, by our own names only: a sender's keys are not repeated."""
    return ".".join(str(part) for part in location[:2])
