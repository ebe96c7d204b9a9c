"""Plex: sessions in memory, and a history that only grows."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, Response

TOKEN = "plex-token-of-the-owner"
OWNER, FRIEND = 1, 48211


class FakePlex:
    def __init__(self) -> None:
        self.playing: dict[str, dict[str, Any]] = {}
        self.history: list[dict[str, Any]] = []
        self.repeat_pages = False
        self.app = FastAPI()
        self.app.add_api_route("/status/sessions", self._sessions)
        self.app.add_api_route("/status/sessions/history/all", self._history)

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

    def _json(self, request: Request, items: list[dict[str, Any]]) -> Response:
        if request.headers.get("x-plex-token") != TOKEN:
            return Response("<html>Unauthorized</html>", 401, media_type="text/html")
        container: dict[str, Any] = {"size": len(items)}
        if items:  # the list is absent when there is nothing
            container["Metadata"] = items
        return JSONResponse({"MediaContainer": container})
