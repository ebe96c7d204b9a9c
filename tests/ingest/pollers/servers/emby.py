"""Emby: a person's data of an item; what is posted takes the place of all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, Response

from streams.runtime.clock import FakeClock

TOKEN = "emby-key"
USER = "aabbccddeeff00112233445566778899"
_EMPTY: dict[str, Any] = {"PlaybackPositionTicks": 0, "PlayCount": 0, "IsFavorite": False, "Played": False}


class FakeEmby:
    def __init__(self, clock: FakeClock, items: dict[str, int]) -> None:
        self.clock = clock
        self.items = items
        """id → length in ms"""
        self.data: dict[tuple[str, str], dict[str, Any]] = {}
        self.bends: Callable[[int], int] = lambda ticks: ticks
        """What it makes of a position that it is told"""
        self.app = FastAPI()
        self.app.add_api_route("/Users/{user}/Items/{item}", self._item)
        self.app.add_api_route("/Users/{user}/Items/{item}/UserData", self._post, methods=["POST"])

    def of(self, user: str, item: str) -> dict[str, Any]:
        return self.data.setdefault((user, item), dict(_EMPTY))

    async def _item(self, request: Request, user: str, item: str) -> Response:
        if request.headers.get("x-emby-token") != TOKEN:
            return Response(status_code=401)
        if item not in self.items:
            return Response(status_code=404)
        return JSONResponse({"Id": item, "RunTimeTicks": self.items[item] * 10_000, "UserData": self.of(user, item)})

    async def _post(self, request: Request, user: str, item: str) -> Response:
        if request.headers.get("x-emby-token") != TOKEN:
            return Response(status_code=401)
        if item not in self.items:
            return Response(status_code=404)
        data = _EMPTY | await request.json()
        data["PlaybackPositionTicks"] = self.bends(data["PlaybackPositionTicks"])
        self.data[user, item] = data
        return Response(status_code=204)
