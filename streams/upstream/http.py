"""The one way out: HTTP requests, and websockets (sockets.py), to a configured media server and to nowhere else.

    circuit → same origin? → address resolved and checked, connected to as resolved → deadline
      → status → body counted as it comes → JSON, depth counted first

Redirects are followed within the origin only. Credentials therefore reach nobody but the configured server, even
when its answers or its name service lie. A failure that may pass is tried again a few times with full jitter; then
the circuit of this server is open for a while and says so at once. Proxies of the environment are not used.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Self, TypeAlias

import httpx
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from streams.runtime.circuit import Circuit
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.failures import failed
from streams.runtime.json_text import BadJson, load
from streams.upstream.errors import (
    BadAnswer,
    CredentialsRefused,
    NotAllowed,
    NotOffered,
    Resting,
    ServerFailed,
    TooLarge,
    UpstreamAway,
    UpstreamError,
)
from streams.upstream.origin import Origin, Resolve, chosen_address, resolve
from streams.upstream.sockets import Socket, SocketLimits, connected

BODY_BYTES_MAX: Final = 8 * 1024 * 1024
REDIRECTS_MAX: Final = 3
RETRY_AFTER_S_MAX: Final = 3_600.0
ETAGS_MAX: Final = 256
Pairs: TypeAlias = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Limits:
    """``timeout_s`` is for a whole request, from name to last byte; ``rest_s`` is how long an open circuit rests."""

    timeout_s: float = 20.0
    body_bytes_max: int = BODY_BYTES_MAX
    attempts: int = 3
    wait_s: float = 0.5
    rest_s: float = 10.0
    socket: SocketLimits = field(default_factory=SocketLimits)


@dataclass(frozen=True, slots=True)
class Answer:
    """``value``: the JSON of the body. ``now_ms``: the server's own clock, epoch ms, to the second, when it told."""

    value: Any
    status: int = 200
    now_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _Content:
    """What goes with a request. ``any_answer``: what comes back need be no JSON."""

    type: str
    data: bytes
    any_answer: bool = False


class NotModified:
    """The server said that nothing changed since what ``Upstream.settle`` was told was taken."""


class Upstream:
    """A session with one server; an async context manager. Entering asks nothing of it."""

    def __init__(
        self,
        origin: Origin,
        *,
        verify_tls: bool = True,
        headers: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
        resolver: Resolve = resolve,
    ) -> None:
        self._origin = origin
        self._verify_tls = verify_tls
        self._headers = dict(headers or {})
        self._resolver = resolver
        self._limits = limits or Limits()
        self._circuit = Circuit("upstream", clock or SystemClock(), rest_s=self._limits.rest_s)
        self._client = httpx.AsyncClient(
            transport=_Pinned(origin, resolver, verify_tls=verify_tls),
            follow_redirects=False,
            trust_env=False,
            timeout=self._limits.timeout_s,
            # What is packed can't be counted before it is unpacked.
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "User-Agent": "playhead",
                **self._headers,
            },
        )
        self._etags: dict[str, str] = {}
        self._unsettled: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._client.aclose()

    async def get(self, path: str, params: Pairs = ()) -> Answer:
        """The JSON at ``path``. Raises UpstreamError of every kind."""
        answer = await self._ask("GET", path, params=params)
        assert isinstance(answer, Answer)
        return _good(answer)

    async def get_changed(self, path: str, params: Pairs = ()) -> Answer | NotModified:
        """As ``get``; NotModified when the server says it is what was settled last (ETag)."""
        answer = await self._ask("GET", path, params=params, conditional=True)
        return answer if isinstance(answer, NotModified) else _good(answer)

    async def post_form(self, path: str, form: Pairs) -> Answer:
        """The JSON that answers a form, even with a 4xx; for reads whose parameters hold secrets. Raises as ``get``."""
        content = _Content("application/x-www-form-urlencoded", str(httpx.QueryParams(list(form))).encode())
        answer = await self._ask("POST", path, content=content)
        assert isinstance(answer, Answer)
        return answer

    async def send(self, method: str, path: str, params: Pairs = (), *, body: object = None) -> Answer:
        """Change something: asked once, never tried again here, for it may have been done though the answer is lost.

        ``body`` goes as JSON. Returns when the server answers well, whatever it says: ``value`` is None when that is no
        JSON. Raises as ``get``.
        """
        data = b"" if body is None else json.dumps(body).encode()
        content = _Content("" if body is None else "application/json", data, any_answer=True)
        answer = await self._ask(method, path, params=params, content=content, once=True)
        assert isinstance(answer, Answer)
        return _good(answer)

    def socket(self, path: str, params: Pairs = ()) -> AbstractAsyncContextManager[Socket]:
        """A websocket at ``path``, with the same headers; entering raises UpstreamError. Not tried again here."""
        return connected(
            self._origin,
            path,
            params,
            headers=self._headers,
            verify_tls=self._verify_tls,
            resolver=self._resolver,
            limits=self._limits.socket,
        )

    def settle(self) -> None:
        """What was read is taken care of: from now on ``get_changed`` may say NotModified of it."""
        self._etags |= self._unsettled
        self._unsettled.clear()
        if len(self._etags) > ETAGS_MAX:
            self._etags.clear()

    def unsettle(self) -> None:
        """What was read was lost: it will be read again in full."""
        self._unsettled.clear()

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Pairs = (),
        content: _Content | None = None,
        conditional: bool = False,
        once: bool = False,
    ) -> Answer | NotModified:
        if not self._circuit.enter():
            raise Resting("the server did not answer a moment ago", retry_after_s=self._circuit.retry_after_s)
        try:
            retrying = AsyncRetrying(
                retry=retry_if_exception_type(UpstreamAway),
                stop=stop_after_attempt(1 if once else self._limits.attempts),
                wait=wait_random_exponential(multiplier=self._limits.wait_s, max=5),
                reraise=True,
            )
            answer: Answer | NotModified = await retrying(self._once, method, path, params, content, conditional)
        except UpstreamAway as exc:
            if once and isinstance(exc, ServerFailed):
                self._circuit.succeeded()  # of one thing it can't do, the others are no worse
            else:
                self._circuit.failed()
            raise
        except asyncio.CancelledError:
            self._circuit.abandoned()
            raise
        except BaseException:
            self._circuit.succeeded()  # it answers, if not what was hoped for
            raise
        self._circuit.succeeded()
        return answer

    async def _once(
        self, method: str, path: str, params: Pairs, content: _Content | None, conditional: bool
    ) -> Answer | NotModified:
        url = httpx.URL(f"{self._origin}{path}", params=list(params)) if params else httpx.URL(f"{self._origin}{path}")
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                for _ in range(REDIRECTS_MAX + 1):
                    outcome = await self._exchange(method, url, content, conditional)
                    if not isinstance(outcome, httpx.URL):
                        return outcome
                    url = outcome
        except TimeoutError:
            failed("upstream", how="timeout")
            raise UpstreamAway("the server's answer took too long") from None
        except UpstreamError as exc:
            failed("upstream", how=exc.cause)
            raise
        except httpx.TransportError as exc:
            failed("upstream", exc)
            raise UpstreamAway(f"the server does not answer: {type(exc).__name__}") from None
        except httpx.HTTPError as exc:
            failed("upstream", how=BadAnswer.cause)
            raise BadAnswer(f"the server's answer can't be read: {type(exc).__name__}") from None
        raise BadAnswer("the server redirects without end")

    async def _exchange(
        self, method: str, url: httpx.URL, content: _Content | None, conditional: bool
    ) -> Answer | NotModified | httpx.URL:
        """One request: its answer, or where within the origin it was sent on to."""
        headers = {}
        if conditional and str(url) in self._etags:
            headers["If-None-Match"] = self._etags[str(url)]
        if content is not None and content.type:
            headers["Content-Type"] = content.type
        data = content.data if content is not None else None
        async with self._client.stream(method, url, headers=headers, content=data) as response:
            if response.status_code == httpx.codes.NOT_MODIFIED and "If-None-Match" in headers:
                return NotModified()
            if response.has_redirect_location:
                return self._within(url, response.headers["location"], content)
            _check_status(response)
            text = await self._body(response)
            etag = response.headers.get("etag", "")
            if conditional and 0 < len(etag) <= 256:
                self._unsettled[str(url)] = etag
            try:
                value = load(text)
            except BadJson as exc:
                if response.status_code >= httpx.codes.BAD_REQUEST:
                    _refuse(response.status_code)
                if content is not None and content.any_answer:
                    return Answer(None, response.status_code, _server_time(response))
                raise BadAnswer(f"the server's answer is no JSON that can be read: {exc}") from None
            return Answer(value, response.status_code, _server_time(response))

    def _within(self, url: httpx.URL, location: str, content: _Content | None) -> httpx.URL:
        try:
            target = url.join(location)
        except (httpx.InvalidURL, ValueError):
            raise BadAnswer("the server redirects to no address") from None
        if not self._origin.holds(target) or target.userinfo:
            raise NotAllowed("the server redirects to another origin: configure that one if it is meant")
        if content is not None:
            raise NotAllowed("the server redirects what is sent: configure the address it redirects to")
        return target

    async def _body(self, response: httpx.Response) -> str:
        limit = self._limits.body_bytes_max
        if response.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
            raise BadAnswer("the server packed its answer though it was asked not to")
        taken = bytearray()
        async for chunk in response.aiter_raw():
            taken += chunk
            if len(taken) > limit:
                raise TooLarge(f"the server's answer is over {limit} bytes")
        try:
            return taken.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise BadAnswer("the server's answer is not UTF-8") from None


class _Pinned(httpx.AsyncBaseTransport):
    """Connects to the address that was checked, not to one that a second look-up might give."""

    def __init__(self, origin: Origin, resolver: Resolve, *, verify_tls: bool) -> None:
        self._origin = origin
        self._resolver = resolver
        # Loading the system's certificates takes a while, and nobody asks for them over plain HTTP.
        verify = verify_tls and origin.scheme == "https"
        self._inner = httpx.AsyncHTTPTransport(verify=verify, trust_env=False, retries=0)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not self._origin.holds(request.url):
            raise NotAllowed("a request would leave the configured origin")
        address = await chosen_address(self._origin, self._resolver)
        extensions = {**request.extensions, "sni_hostname": self._origin.host}
        # The Host header was made from the origin and stays.
        pinned = httpx.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions=extensions,
        )
        return await self._inner.handle_async_request(pinned)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _check_status(response: httpx.Response) -> None:
    """Raise for what no body can change; other errors may carry JSON that says more (Subsonic's unknown method)."""
    status = response.status_code
    if status in (401, 403):
        raise CredentialsRefused(f"the server answers {status}")
    if status == httpx.codes.INTERNAL_SERVER_ERROR:
        raise ServerFailed(f"the server answers {status}", retry_after_s=_retry_after(response))
    if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        raise UpstreamAway(f"the server answers {status}", retry_after_s=_retry_after(response))
    is_json = "json" in response.headers.get("content-type", "").lower()
    if status >= httpx.codes.BAD_REQUEST and not is_json:
        _refuse(status)


def _good(answer: Answer) -> Answer:
    if answer.status >= httpx.codes.BAD_REQUEST:
        _refuse(answer.status)
    return answer


def _refuse(status: int) -> NoReturn:
    if status in (404, 405, 410, 501):
        raise NotOffered(f"the server answers {status}")
    raise BadAnswer(f"the server answers {status}")


def _retry_after(response: httpx.Response) -> float | None:
    text = response.headers.get("retry-after", "")
    try:
        seconds = float(text)
    except ValueError:
        return None
    return min(max(seconds, 0.0), RETRY_AFTER_S_MAX) if math.isfinite(seconds) else None


def _server_time(response: httpx.Response) -> int | None:
    try:
        return int(email.utils.parsedate_to_datetime(response.headers.get("date", "")).timestamp()) * 1000
    except (ValueError, OverflowError, TypeError):
        return None
