"""The outermost layer of HTTP, in plain ASGI: limits before work, one line in the log after it.

    rate of the address → size and encoding → places at once → correlation id → the application
                                                                   → headers, metrics, access line
                                         body counted as it comes, with a deadline

The access line names the route as declared (``/hooks/{format}/{token}``), never the path as asked for.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schemas.limits import BODY_BYTES_MAX
from streams.runtime import logs, metrics
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.errors import Unavailable
from streams.runtime.problems import Problem, response_of, unavailable, unexpected
from streams.runtime.rates import Rates, network_of

CORRELATION_HEADER = "X-Correlation-Id"
HEALTH_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
STREAM_PATHS = frozenset({"/v1/changes"})
"""Answers that last for hours: they take no place, and have limits of their own."""
BODY_TIMEOUT_S = 20.0
_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """``requests_at_once_max``: more are answered 503 at once, so that what is under way stays quick.
    ``per_address_s``: requests a second of one address, more are answered 429; 0: no limit."""

    requests_at_once_max: int = 256
    per_address_s: float = 0.0
    body_bytes_max: int = BODY_BYTES_MAX
    body_timeout_s: float = BODY_TIMEOUT_S


class Edge:
    """ASGI middleware; put it outside of everything else."""

    def __init__(self, app: ASGIApp, limits: Limits, clock: Clock | None = None) -> None:
        self._app = app
        self._limits = limits
        self._rates = Rates(clock or SystemClock(), limits.per_address_s)
        self._at_once = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get(CORRELATION_HEADER, "")
        correlation_id = given if _SANE_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["correlation_id"] = correlation_id
        answer = _Answer(send, correlation_id)
        started = time.monotonic()
        with logs.correlated(correlation_id):
            try:
                await self._within_limits(scope, headers, receive, answer)
            finally:
                _account(scope, answer.status, time.monotonic() - started)

    async def _within_limits(self, scope: Scope, headers: Headers, receive: Receive, answer: _Answer) -> None:
        problem = self._too_many(scope) or self._refusal(headers)
        if problem is not None:
            await response_of(problem)(scope, receive, answer)
            return
        if scope["path"] in HEALTH_PATHS or scope["path"] in STREAM_PATHS:
            await self._run(scope, receive, answer)
            return
        if self._at_once >= self._limits.requests_at_once_max:
            busy = unavailable(Busy("too many requests at once", retry_after_s=1))
            await response_of(busy)(scope, receive, answer)
            return
        self._at_once += 1
        try:
            await self._run(scope, receive, answer)
        finally:
            self._at_once -= 1

    def _too_many(self, scope: Scope) -> Problem | None:
        client = scope.get("client")
        if client is None or scope["path"] in HEALTH_PATHS:
            return None
        return too_many(self._rates.take(network_of(client[0])), "address")

    def _refusal(self, headers: Headers) -> Problem | None:
        if headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
            return Problem(415, "content_encoding", "Send the body as it is, without Content-Encoding.", headers=_CLOSE)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            return Problem(400, "bad_length", "Content-Length is not a number.", headers=_CLOSE)
        # Digits are counted first: int() of a megabyte of digits would be work of its own.
        if len(length.lstrip("0")) > 15 or int(length.lstrip("0") or "0") > self._limits.body_bytes_max:
            return self._too_large()
        return None

    def _too_large(self) -> Problem:
        return Problem(
            413, "too_large", f"At most {self._limits.body_bytes_max} bytes a request are taken.", headers=_CLOSE
        )

    async def _run(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        try:
            await self._app(scope, self._counted(receive), answer)
        except Exception as exc:
            problem = exc if isinstance(exc, Problem) else unexpected(exc)
            if answer.status is not None:
                raise  # the answer is under way: cutting the connection is the only honest sign left
            await response_of(problem)(scope, receive, answer)

    def _counted(self, receive: Receive) -> Receive:
        """``receive``, refusing once the body is over the limit or late."""
        taken = 0
        done = False
        deadline = time.monotonic() + self._limits.body_timeout_s

        async def counted() -> Message:
            nonlocal taken, done
            if done:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                raise Problem(408, "too_slow", "The body did not arrive in time.", headers=_CLOSE) from None
            taken += len(message.get("body", b""))
            done = not message.get("more_body", False)
            if taken > self._limits.body_bytes_max:
                raise self._too_large()
            return message

        return counted


def too_many(wait_s: int, of: str) -> Problem | None:
    """The 429 of a sender who has to wait ``wait_s`` seconds, counted; None for 0."""
    if not wait_s:
        return None
    metrics.LIMITED.labels(of).inc()
    return Problem(429, "too_many_requests", f"Too many requests of this {of}.", headers={"Retry-After": str(wait_s)})


class Busy(Unavailable):
    dependency = "places"


class _Answer:
    """The application's answer on its way out: status remembered, headers added."""

    def __init__(self, send: Send, correlation_id: str) -> None:
        self._send = send
        self._correlation_id = correlation_id
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            headers = MutableHeaders(scope=message)
            headers[CORRELATION_HEADER] = self._correlation_id
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)


# What is left of a refused body is not read, so the connection can't be used again.
_CLOSE = {"Connection": "close"}


def _account(scope: Scope, status: int | None, seconds: float) -> None:
    route = getattr(scope.get("route"), "path", None) or "unmatched"
    method = scope["method"] if scope["method"] in _METHODS else "other"
    code = str(status or HTTPStatus.INTERNAL_SERVER_ERROR.value)
    metrics.REQUEST_SECONDS.labels(f"{method} {route}", code).observe(seconds)
    if route in HEALTH_PATHS and code == "200":
        return
    principal = scope.get("state", {}).get("principal")
    logs.quick(
        "playhead.access",
        "request",
        method=method,
        route=route,
        status=int(code),
        ms=round(seconds * 1000, 1),
        token_id=getattr(principal, "token_id", None),
    )
