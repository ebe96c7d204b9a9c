"""Fake media servers whose push channels are real: websockets beside the routes of a FastAPI application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import httpx
import socketio
from aiohttp import WSMsgType, web
from fastapi import FastAPI

from tests.ingest.pollers.servers import audiobookshelf, jellyfin


class Channel(Protocol):
    def attach(self, app: web.Application) -> None: ...


@asynccontextmanager
async def pushing(rest: FastAPI, channel: Channel | None = None) -> AsyncIterator[str]:
    """The address of both while they answer."""
    app = web.Application()
    if channel is not None:
        channel.attach(app)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(rest), base_url="http://fake") as client:

        async def pass_on(request: web.Request) -> web.Response:
            answer = await client.request(
                request.method, request.path_qs, headers=dict(request.headers), content=await request.read()
            )
            headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
            return web.Response(status=answer.status_code, body=answer.content, headers=headers)

        app.router.add_route("*", "/{path:.*}", pass_on)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


class JellyfinSocket:
    """Jellyfin's websocket. What happens in the server is not told by itself: the test says when."""

    def __init__(self, server: jellyfin.FakeJellyfin) -> None:
        self._server = server
        self.asked: list[str] = []
        """Path and query of each request."""
        self.tokens: list[str] = []
        self.heard: list[dict[str, Any]] = []
        self.open: list[web.WebSocketResponse] = []
        self.subscribed: list[web.WebSocketResponse] = []
        self.keep_alive_s = 60
        self.on_open: Callable[[web.WebSocketResponse], Awaitable[None]] | None = None

    def attach(self, app: web.Application) -> None:
        app.router.add_get("/socket", self._handle)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        if f'Token="{jellyfin.TOKEN}"' not in request.headers.get("authorization", ""):
            return web.Response(status=403)
        connection = web.WebSocketResponse(max_msg_size=65_536)
        await connection.prepare(request)
        self.open.append(connection)
        try:
            await connection.send_json({"MessageType": "ForceKeepAlive", "Data": self.keep_alive_s})
            if self.on_open is not None:
                await self.on_open(connection)
            async for message in connection:
                if message.type is WSMsgType.TEXT and not await self._hear(connection, json.loads(message.data)):
                    break
        except ConnectionError:
            pass  # the client is gone
        finally:
            self.open.remove(connection)
            if connection in self.subscribed:
                self.subscribed.remove(connection)
        return connection

    async def _hear(self, connection: web.WebSocketResponse, message: dict[str, Any]) -> bool:
        self.heard.append(message)
        match message["MessageType"]:
            case "KeepAlive":
                await connection.send_json({"MessageType": "KeepAlive"})
            case "SessionsStart":
                if self._server.person is not None:
                    return False  # it ends the connection
                self.subscribed.append(connection)
        return True

    async def tell_sessions(self) -> None:
        for connection in list(self.subscribed):
            await connection.send_json({"MessageType": "Sessions", "Data": self._server.sessions()})

    async def tell_user_data(self, user: str, item: str) -> None:
        data = {"UserId": user, "UserDataList": [{"ItemId": item, "Key": item}]}
        await self.say(json.dumps({"MessageType": "UserDataChanged", "MessageId": "1", "Data": data}))

    async def say(self, message: str | bytes) -> None:
        for connection in list(self.open):
            await (connection.send_str(message) if isinstance(message, str) else connection.send_bytes(message))

    def drop(self) -> None:
        """Without a word, as when a cable is pulled out and plugged in again."""
        for connection in list(self.open):
            transport = connection._req.transport if connection._req is not None else None
            assert transport is not None
            transport.abort()


class AudiobookshelfSocket:
    """Audiobookshelf's Socket.IO, by an implementation of both protocols that is not ours."""

    def __init__(self, server: audiobookshelf.FakeAudiobookshelf) -> None:
        self._server = server
        self.asked: list[str] = []
        self.people: list[str] = []
        """Connections whose token was right."""
        self.token = audiobookshelf.TOKEN
        self.io = socketio.AsyncServer(async_mode="aiohttp", ping_interval=1, ping_timeout=5)
        self.io.on("connect", self._connected)
        self.io.on("disconnect", self._gone)
        self.io.on("auth", self._auth)

    def attach(self, app: web.Application) -> None:
        self.io.attach(app)

    async def _connected(self, sid: str, environ: dict[str, Any], auth: object = None) -> None:
        self.asked.append(f"{environ['PATH_INFO']}?{environ['QUERY_STRING']}")

    async def _gone(self, sid: str, reason: object = None) -> None:
        if sid in self.people:
            self.people.remove(sid)

    async def _auth(self, sid: str, token: object) -> None:
        if token != self.token:
            await self.io.emit("invalid_token", to=sid)
            return
        await self.io.emit("init", {"userId": audiobookshelf.USER, "username": "ana"}, to=sid)
        self.people.append(sid)

    async def tell(self, event: str, data: object = None) -> None:
        for sid in list(self.people):
            await self.io.emit(event, data, to=sid)

    async def tell_user(self) -> None:
        """The whole user, with the token."""
        user = {"id": audiobookshelf.USER, "token": audiobookshelf.TOKEN, "mediaProgress": self._server.progress}
        await self.tell("user_updated", user)

    async def drop(self) -> None:
        await asyncio.gather(*(self.io.disconnect(sid) for sid in list(self.people)))
