"""A server on loopback that answers exactly the bytes a test gives it, as slowly as the test likes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

Answer: TypeAlias = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
"""Takes the request's head and body as text, and writes what it likes."""


@dataclass
class Loopback:
    port: int = 0
    requests: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def http(body: bytes | str, status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer; header names with underscores for dashes."""
    content = body.encode() if isinstance(body, str) else body
    fields = {"content-type": "application/json", "content-length": str(len(content)), "connection": "close"}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + content


@asynccontextmanager
async def answering(*answers: bytes | Answer) -> AsyncIterator[Loopback]:
    """The answers in turn, the last one for ever."""
    server = Loopback()
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = next(
                (int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0
            )
            body = (await reader.readexactly(length)).decode("latin-1")
            server.requests.append(head + body)
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(head + body, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has heard enough
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server
