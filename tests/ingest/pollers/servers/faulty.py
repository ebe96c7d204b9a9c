"""What goes wrong when a server is told something, around a fake that does as it is told."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from fastapi import FastAPI

Fault = Literal["none", "away", "fails", "refuses", "gone", "answer lost", "late", "ignores"]
_WRITES = re.compile(r"/rest/(createBookmark|deleteBookmark|scrobble)|/:/(scrobble|unscrobble|progress|timeline)")


@dataclass
class Faulty:
    """An ASGI application. ``fault`` holds for writes, "away" and "refuses" for everything; ``times``: for so many,
    None for all. ``write_count``: writes that reached the server, whatever became of them."""

    app: FastAPI
    fault: Fault = "none"
    times: int | None = None
    late_s: float = 1.5
    write_count: int = 0
    late: list[asyncio.Task[None]] = field(default_factory=list)
    accepted: bytes = b""
    """The answer of one that ignores what it is told."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"]
        writes = scope["method"] in ("PATCH", "PUT", "DELETE") or _WRITES.match(path) is not None
        writes = writes or (scope["method"] == "POST" and not path.startswith("/rest/"))
        self.write_count += writes
        fault = self._fault(writes)
        match fault:
            case "none":
                await self.app(scope, receive, send)
            case "away":
                await _answer(send, 503)
            case "refuses":
                await _answer(send, 401)
            case "fails":
                await _answer(send, 500)
            case "gone":
                await _answer(send, 404)
            case "ignores":
                await _answer(send, 200 if self.accepted else 204, self.accepted)
            case "answer lost":
                await self.app(scope, receive, _nowhere)
                await _answer(send, 504)
            case "late":
                body = await _body(receive)
                self.late.append(asyncio.create_task(self._later(scope, body)))
                await asyncio.sleep(self.late_s * 2)
                await _answer(send, 504)

    def _fault(self, writes: bool) -> Fault:
        if self.fault == "none" or not (writes or self.fault in ("away", "refuses")):
            return "none"
        if self.times is not None:
            if self.times == 0:
                return "none"
            self.times -= 1
        return self.fault

    async def _later(self, scope: Any, body: bytes) -> None:
        await asyncio.sleep(self.late_s)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, receive, _nowhere)


async def _body(receive: Any) -> bytes:
    taken = b""
    while True:
        message = await receive()
        taken += bytes(message.get("body", b""))
        if not message.get("more_body"):
            return taken


async def _nowhere(message: Any) -> None:
    del message


async def _answer(send: Any, status: int, body: bytes = b"") -> None:
    headers = [(b"content-type", b"application/json")] if body else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
