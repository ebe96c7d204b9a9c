"""Plex: sessions in memory, a history that only grows, and how far somebody is with each item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, Response

from streams.runtime.clock import FakeClock

TOKEN = "plex-token-of-the-owner"
OWNER, FRIEND = 1, 48211


class FakePlex:
    """``items``: rating key → length in ms; ``views``: what the person whose token it is has of them."""

    def __init__(self, clock: FakeClock | None = None, items: dict[str, int] | None = None) -> None:
        self.clock = clock or FakeClock()
        self.items = items or {}
        self.views: dict[str, dict[str, Any]] = {}
        self.bends: Callable[[int], int] = lambda position: position
        """What it makes of a position that it is told"""
        self.playing: dict[str, dict[str, Any]] = {}
        self.history: list[dict[str, Any]] = []
        self.repeat_pages = False
        self.app = FastAPI()
        self.app.add_api_route("/status/sessions", self._sessions)
        self.app.add_api_route("/status/sessions/history/all", self._history)
        self.app.add_api_route("/library/metadata/{key}", self._item)
        self.app.add_api_route("/:/{call}", self._write)

    def play(self, user: int, key: str, offset_ms: int, state: str = "playing", player: str = "tv") -> None:
        self.playing[player] = {
            "ratingKey": key,
            "type": "movie",
            "title": "Film",
            "duration": 6_600_000,
            "viewOffset": offset_ms,
            "User": {"id": str(user), "title": "name"},
            "Player": {"machineIdentifier": player, "state": state, "address": "192.168.1.7"},
            "Session": {"id": f"session-{player}"},
        }

    def finish(self, user: int, key: str, viewed_at_s: int) -> None:
        number = len(self.history) + 1
        self.history.append(
            {
                "historyKey": f"/status/sessions/history/{number}",
                "ratingKey": key,
                "type": "movie",
                "viewedAt": viewed_at_s,
                "accountID": user,
                "deviceID": 3,
            }
        )

    async def _sessions(self, request: Request) -> Response:
        return self._json(request, list(self.playing.values()))

    async def _history(self, request: Request) -> Response:
        start = int(request.query_params["X-Plex-Container-Start"])
        size = int(request.query_params["X-Plex-Container-Size"])
        order = sorted(self.history, key=lambda entry: -int(entry["viewedAt"]))
        return self._json(request, order[:size] if self.repeat_pages else order[start : start + size])

    async def _item(self, request: Request, key: str) -> Response:
        if key not in self.items:
            return Response("<html>Not Found</html>", 404, media_type="text/html")
        item = {"ratingKey": key, "type": "movie", "duration": self.items[key], **self.views.get(key, {})}
        return self._json(request, [item])

    async def _write(self, request: Request, call: str) -> Response:
        """Answers nothing, whatever it is told. From 90 % on a position is a view."""
        asked = request.query_params
        refused = self._json(request, [])
        if refused.status_code != 200:
            return refused
        assert asked["identifier"] == "com.plexapp.plugins.library"
        key = asked["key"]
        if key not in self.items:
            return Response(status_code=404)
        view = self.views.setdefault(key, {})
        now_s = self.clock.now_ms() // 1000
        position = self.bends(int(asked.get("time", 0)))
        if call == "unscrobble":
            view.clear()
        elif call == "scrobble" or position >= self.items[key] * 0.9:
            view.pop("viewOffset", None)
            view |= {"viewCount": view.get("viewCount", 0) + 1, "lastViewedAt": now_s}
        else:
            view |= {"viewOffset": position, "lastViewedAt": now_s}
        return Response(status_code=200)

    def _json(self, request: Request, items: list[dict[str, Any]]) -> Response:
        if request.headers.get("x-plex-token") != TOKEN:
            return Response("<html>Unauthorized</html>", 401, media_type="text/html")
        container: dict[str, Any] = {"size": len(items)}
        if items:  # the list is absent when there is nothing
            container["Metadata"] = items
        return JSONResponse({"MediaContainer": container})
