"""The push channel of a media server: one websocket to the configured origin, and to nowhere else.

    address resolved and checked, connected to as resolved → handshake, no redirect → deadline
      → text messages, bytes counted as they come, read no faster than MESSAGES_PER_S and BYTES_PER_S

What is not read yet waits in the buffers of the network, so a server that floods waits too. Silence is broken by
pings; a server that answers none is away. Nothing is packed: what is packed can't be counted before it is unpacked.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver, ResolveResult

from streams.upstream.errors import (
    BadAnswer,
    CredentialsRefused,
    NotAllowed,
    NotOffered,
    TooLarge,
    UpstreamAway,
    UpstreamError,
)
from streams.upstream.origin import Origin, Resolve, chosen_address

MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
MESSAGES_PER_S: Final = 50
BYTES_PER_S: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """``timeout_s`` is for the handshake and for each message sent; ``heartbeat_s``: silence before it is pinged."""

    timeout_s: float = 20.0
    heartbeat_s: float = 30.0
    message_bytes_max: int = MESSAGE_BYTES_MAX


class Socket:
    """An open connection, read by one task."""

    def __init__(self, connection: aiohttp.ClientWebSocketResponse[bool], limits: SocketLimits) -> None:
        self._connection = connection
        self._limits = limits
        self._paid_until = 0.0

    async def receive(self, within_s: float | None = None) -> str | None:
        """The next text; None when none came ``within_s`` seconds. What is no text is left out.

        Raises UpstreamAway when the connection has ended, TooLarge and BadAnswer, after which it has too.
        """
        try:
            async with asyncio.timeout(within_s):
                while True:
                    await self._pace()
                    message = await self._connection.receive()
                    match message.type:
                        case aiohttp.WSMsgType.TEXT:
                            text = str(message.data)
                            self._pay(len(text))
                            return text
                        case aiohttp.WSMsgType.BINARY:
                            self._pay(len(message.data))
                        case aiohttp.WSMsgType.PING:
                            self._pay(0)
                            await self._connection.pong(message.data)
                        case aiohttp.WSMsgType.PONG:
                            self._pay(0)
                        case aiohttp.WSMsgType.ERROR:
                            raise self._broken(message.data)
                        case _:
                            raise UpstreamAway("the server ended the connection")
        except TimeoutError:
            return None
        except (aiohttp.ClientError, OSError) as exc:
            raise UpstreamAway(f"the connection broke: {type(exc).__name__}") from None

    async def send(self, text: str) -> None:
        """Raises UpstreamAway when the server takes it no more."""
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                await self._connection.send_str(text)
        except TimeoutError:
            raise UpstreamAway("the server reads nothing") from None
        except (aiohttp.ClientError, OSError) as exc:
            raise UpstreamAway(f"the connection broke: {type(exc).__name__}") from None

    def _pay(self, size: int) -> None:
        """A second's worth may come at once."""
        now = asyncio.get_running_loop().time()
        self._paid_until = max(self._paid_until, now - 1.0) + max(1 / MESSAGES_PER_S, size / BYTES_PER_S)

    async def _pace(self) -> None:
        ahead_s = self._paid_until - asyncio.get_running_loop().time()
        if ahead_s > 0:
            await asyncio.sleep(ahead_s)

    def _broken(self, exc: object) -> UpstreamError:
        if not isinstance(exc, aiohttp.WebSocketError):
            return UpstreamAway(f"the connection broke: {type(exc).__name__}")
        if exc.code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
            return TooLarge(f"a message of the server is over {self._limits.message_bytes_max} bytes")
        return BadAnswer("the server's messages can't be read")


@asynccontextmanager
async def connected(
    origin: Origin,
    path: str,
    params: Sequence[tuple[str, str]],
    *,
    headers: Mapping[str, str],
    verify_tls: bool,
    resolver: Resolve,
    limits: SocketLimits,
) -> AsyncIterator[Socket]:
    """A connection as long as it is entered. Raises UpstreamError: NotOffered when the server speaks no websocket
    there, NotAllowed when it redirects, CredentialsRefused, UpstreamAway."""
    session: aiohttp.ClientSession | None = None
    connection: aiohttp.ClientWebSocketResponse[bool] | None = None
    try:
        try:
            async with asyncio.timeout(limits.timeout_s):
                session = _session(origin, await chosen_address(origin, resolver), headers, verify_tls=verify_tls)
                connection = await session.ws_connect(
                    f"{origin}{path}",
                    params=list(params),
                    # Pings are answered by Socket: no faster than it reads.
                    autoping=False,
                    heartbeat=limits.heartbeat_s,
                    max_msg_size=limits.message_bytes_max,
                )
        except TimeoutError:
            raise UpstreamAway("the server's answer took too long") from None
        except aiohttp.WSServerHandshakeError as exc:
            raise _refused(exc.status) from None
        except (aiohttp.ClientError, OSError) as exc:
            raise UpstreamAway(f"the server does not answer: {type(exc).__name__}") from None
        yield Socket(connection, limits)
    finally:
        try:
            # It is told, and its answer not waited for: until that comes it could say whatever it likes.
            async with asyncio.timeout(0):
                if connection is not None:
                    await connection.close()
        except TimeoutError:
            pass
        finally:
            if session is not None:
                await session.close()


def _session(origin: Origin, address: str, headers: Mapping[str, str], *, verify_tls: bool) -> aiohttp.ClientSession:
    async def within(request: aiohttp.ClientRequest, ask: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        if not origin.holds(httpx.URL(str(request.url))):
            raise NotAllowed("a connection would leave the configured origin")
        response = await ask(request)
        if 300 <= response.status < 400:
            response.close()
            raise NotAllowed("the server redirects its push channel: configure the address it redirects to")
        return response

    # Loading certificates takes a while, and nobody asks for them over plain HTTP. The same as for requests.
    tls = httpx.create_ssl_context(verify=verify_tls, trust_env=False) if origin.scheme == "https" else False
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            resolver=_Pinned(address), use_dns_cache=False, force_close=True, limit=1, ssl=tls
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "playhead", **headers},
        middlewares=(within,),
        trust_env=False,
    )


class _Pinned(AbstractResolver):
    """Tells the address that was checked, not what a second look-up might give. TLS verifies the name."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        del family
        return [
            ResolveResult(
                hostname=host,
                host=self._address,
                port=port,
                family=socket.AF_INET6 if ":" in self._address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        return


def _refused(status: int) -> UpstreamError:
    if status in (401, 403):
        return CredentialsRefused(f"the server answers {status}")
    if status == 429 or status >= 500:
        return UpstreamAway(f"the server answers {status}")
    return NotOffered(f"the server answers {status} and opens no websocket")
