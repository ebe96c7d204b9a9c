"""``GET /v1/changes``: what became stale, as server-sent events (WHATWG HTML, 9.2), to those who may see it.

An event carries no content: who wants it reads it. Its id is where the listener stands in the log, and a browser or
any other client that connects again with it misses nothing. ``reset`` says that something may have been missed: read
what you show anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from projections.api.change_hub import Change, ChangeHub, End, Listener, News, Reset
from projections.api.change_ids import ID_CHARS_MAX, Place, read_place
from projections.api.names import Names
from schemas.events import CacheInvalidated
from schemas.limits import ID_BYTES_MAX
from streams.runtime import logs, metrics
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.errors import Unavailable
from streams.runtime.memory import Memory
from streams.runtime.problems import Problem
from streams.runtime.tokens import Principal, Scope, Unauthenticated
from streams.runtime.web import BEARER_DOCUMENTED, PROBLEM_RESPONSES, Guard, bearer

LISTENERS_MAX: Final = 400
LISTENERS_PER_TOKEN_MAX: Final = 32
HEARTBEAT_S: Final = 15.0
RETRY_MS: Final = 1_000
_KNOWN_S: Final = 60.0
_KNOWN_MAX: Final = 10_000
_PERSONAL: Final = frozenset({"progress", "continue"})
_SHARED: Final = frozenset({"item", "collection"})

_Text = Annotated[str | None, Query(max_length=ID_BYTES_MAX, pattern="^[^\\x00]+$")]
_Source = Annotated[str | None, Query(max_length=64, pattern="^[^\\x00]+$", description="whose names these are")]
_Since = Annotated[
    str | None,
    Header(alias="Last-Event-ID", max_length=ID_CHARS_MAX, description="`id` of the last event: what came since"),
]

_EXAMPLE = (
    'id: topic:0,0,7\nevent: change\ndata: {"kind":"progress","user":"…","media":"…",'
    '"version":{"model_epoch":1,"log_epoch":1,"partition":2,"offset":6},"reason":"progress accepted"}\n\n'
)
_RESPONSES: dict[int | str, dict[str, Any]] = {
    **{code: PROBLEM_RESPONSES[code] for code in (401, 403, 422, 429, 503)},
    200: {"description": "Events, until either side ends it.", "content": {"text/event-stream": {"example": _EXAMPLE}}},
    404: {"description": "Nobody of this name, or nobody this token may see."},
}
_log = logs.get(__name__)


def changes_router(hub: ChangeHub, names: Names, guard: Guard, *, clock: Clock | None = None) -> APIRouter:
    """A token bound to a person hears of that person only, one of a source of that source's people and library."""
    router = APIRouter(prefix="/v1", tags=["changes"], responses=_RESPONSES)
    clock = clock or SystemClock()
    sight = Sight(names, clock)
    per_token: Counter[str] = Counter()

    @router.get(
        "/changes", summary="What became stale, as it happens", response_class=Response, openapi_extra=BEARER_DOCUMENTED
    )
    async def changes(
        request: Request, user: _Text = None, source: _Source = None, last_event_id: _Since = None
    ) -> Response:
        token = bearer(request)
        async with guard.admitted(request, token, Scope.READ) as caller:
            named = names.source(caller, source)
            only = caller.user_ref if user is None else await names.user(caller, user, named)
            if per_token[caller.token_id] >= LISTENERS_PER_TOKEN_MAX:
                raise Problem(
                    429, "too_many_listeners", "Too many listeners of this token.", headers={"Retry-After": "5"}
                )
            if hub.listening >= LISTENERS_MAX:
                raise Unavailable("too many listeners")
            per_token[caller.token_id] += 1
        try:
            listener = await hub.listen(lambda event: wanted(event, caller, only), _since(last_event_id))
        except BaseException:
            per_token[caller.token_id] -= 1
            raise

        def left() -> None:
            hub.leave(listener)
            per_token[caller.token_id] -= 1

        async def allowed() -> bool:
            try:
                return (await guard.authenticator.authenticate(token)).may(Scope.READ)
            except Unauthenticated:
                return False

        return EventStream(events(hub, listener, sight, caller, allowed, clock), listener, left)

    return router


def _since(last_event_id: str | None) -> Place | None:
    """What was never said here counts as a place in another log: its reader begins anew."""
    if not last_event_id:
        return None
    return read_place(last_event_id) or Place("", {})


def wanted(event: CacheInvalidated, caller: Principal, only: str | None) -> bool:
    """Whether the caller may hear of it, as far as that can be told without asking whose people there are."""
    kind, _, rest = event.cache_key.partition(":")
    if kind in _PERSONAL:
        return only is None or rest.partition(":")[0] == only
    return kind in _SHARED and caller.source_id in (None, event.source_id)


class Sight:
    """Which people a source's token may hear of."""

    def __init__(self, names: Names, clock: Clock) -> None:
        self._names = names
        self._known = Memory[tuple[str, str], bool](clock, size=_KNOWN_MAX, fresh_s=_KNOWN_S)

    async def may_see(self, caller: Principal, event: CacheInvalidated) -> bool:
        """Raises DatabaseAway when only the absent database could tell."""
        kind, _, rest = event.cache_key.partition(":")
        if kind not in _PERSONAL or caller.source_id is None or caller.user_ref is not None:
            return True
        pair = caller.source_id, rest.partition(":")[0]
        known = self._known.fresh(pair)
        if known is None:
            known = await self._names.knows(*pair)
            self._known.learn(pair, known)
        return known


async def events(
    hub: ChangeHub,
    listener: Listener,
    sight: Sight,
    caller: Principal,
    allowed: Callable[[], Awaitable[bool]],
    clock: Clock,
) -> AsyncIterator[bytes]:
    """The bytes of the stream; ends when the caller is to connect again, or may not listen any more: that is asked
    every HEARTBEAT_S, however much there is to say."""
    asked = clock.monotonic()
    # Who has to begin anew comes again from where it stood, unless it has heard so.
    stands = "" if any(isinstance(one, Reset) for one in listener.backlog) else _id(listener)
    yield f"retry: {RETRY_MS}\n{stands}: listening\n\n".encode()
    while True:
        news = await _next(listener)
        if news is None or clock.monotonic() - asked >= HEARTBEAT_S:
            if not await allowed():
                return
            asked = clock.monotonic()
        match news:
            case None:
                if listener.queue.empty():
                    listener.place = dict(hub.place().offsets)
                # An id without data moves the client's place and is no event to it.
                yield f"{_id(listener)}: alive\n\n".encode()
            case Change():
                listener.place[news.partition] = news.offset + 1
                if await sight.may_see(caller, news.event):
                    metrics.CHANGES_SENT.labels("change").inc()
                    _log.debug("change sent", correlation_id=news.event.correlation_id)
                    yield f"{_id(listener)}event: change\ndata: {_data(news.event)}\n\n".encode()
            case Reset() | End(reason=str()):
                # Who reads everything anew from here on needs what comes from here on.
                metrics.CHANGES_SENT.labels("reset").inc()
                place = news.place if isinstance(news, Reset) else hub.place().offsets
                listener.place = dict(place) or listener.place
                yield f"{_id(listener)}event: reset\ndata: {json.dumps({'reason': news.reason})}\n\n".encode()
                if isinstance(news, End):
                    return
            case End():
                return


async def _next(listener: Listener) -> News | None:
    """What comes next; None: nothing for HEARTBEAT_S."""
    if listener.backlog:
        return listener.backlog.pop(0)
    try:
        return await asyncio.wait_for(listener.queue.get(), HEARTBEAT_S)
    except TimeoutError:
        return None


def _id(listener: Listener) -> str:
    return f"id: {Place(listener.topic_id, listener.place)}\n"


def _data(event: CacheInvalidated) -> str:
    """One line. What a key is made of, never what it stands for."""
    kind, _, rest = event.cache_key.partition(":")
    named: dict[str, Any] = {"kind": kind}
    match kind:
        case "progress":
            named["user"], _, named["media"] = rest.partition(":")
        case "continue":
            named["user"] = rest
        case "item":
            named["media"] = rest
        case _:
            named[kind] = rest
    version = {
        "model_epoch": event.model_epoch,
        "log_epoch": event.log_epoch,
        "partition": event.partition,
        "offset": event.version,
    }
    return json.dumps(named | {"version": version, "reason": event.reason}, separators=(",", ":"))


class EventStream(Response):
    """Sends until the events end or the client is gone; ``left`` is called in any case, once."""

    media_type = "text/event-stream"

    def __init__(self, body: AsyncIterator[bytes], listener: Listener, left: Callable[[], None]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._body = body
        self._listener = listener
        self._left = left

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        del scope
        sending = self._listener.task = asyncio.create_task(self._send(send))
        gone = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, gone):
                task.cancel()
            self._left()
            with contextlib.suppress(asyncio.CancelledError, OSError, Unavailable):
                await sending

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for part in self._body:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
