"""Audiobookshelf 2.36 as it was seen to answer. Clients' calls are methods, reads go over HTTP."""

from __future__ import annotations

import copy
import hashlib
import json
import uuid
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import PlainTextResponse, Response

from streams.runtime.clock import FakeClock

TOKEN = "eyJhbGciOi.abs.key"
USER = "30ce40c2-299e-4b63-8e68-27ecbb0dadbf"
ALMOST_S = 10


class FakeAudiobookshelf:
    def __init__(self, clock: FakeClock, durations: dict[str, float]) -> None:
        self.clock = clock
        self.durations = durations
        self.progress: list[dict[str, Any]] = []
        self.sessions: dict[str, dict[str, Any]] = {}
        self.open: set[str] = set()
        self.requests: list[str] = []
        self.not_modified = 0
        self.titles: dict[str, str] = {}
        self.isbns: dict[str, str] = {}
        self.paths: dict[str, str] = {}
        self.missing: set[str] = set()
        """Flagged by the server: gone from its disk, and still listed"""
        self.podcasts: dict[str, list[dict[str, Any]]] = {}
        """item → episodes, in a library of their own"""
        self.repeat_pages = False
        self.reverse = False
        self.bends: Callable[[float], float] = lambda seconds: seconds
        """What it makes of a position that it is told"""
        self.app = FastAPI()
        self.app.add_api_route("/api/me", self._get_me)
        self.app.add_api_route("/api/me/progress", self._get_progress)
        self.app.add_api_route("/api/me/progress/{item}", self._get_one)
        self.app.add_api_route("/api/me/progress/{item}", self._patch, methods=["PATCH"])
        self.app.add_api_route("/api/me/listening-sessions", self._get_sessions)
        self.app.add_api_route("/api/libraries", self._get_libraries)
        self.app.add_api_route("/api/libraries/{library}/items", self._get_items)
        self.app.add_api_route("/api/items/{item}", self._get_item)

    # -- what clients do ---------------------------------------------------------------------------------------

    def patch(self, item: str, **changes: Any) -> None:
        """Takes anything: -3, "abc", smaller ones, a lastUpdate of the past, which sets it back. The same value again
        changes nothing. isFinished false resets the position to 0, even if one is sent."""
        row = self._row(item)
        before = copy.deepcopy(row)
        if changes.get("isFinished") is False and row["isFinished"]:
            changes |= {"currentTime": 0}
        row |= changes
        duration = row["duration"] or 0
        at = row["currentTime"]
        if "isFinished" not in changes and isinstance(at, int | float):
            row["isFinished"] = bool(duration) and duration - at < ALMOST_S
        if row != before:
            row["lastUpdate"] = changes.get("lastUpdate", self.clock.now_ms())

    def play(self, item: str, device: str = "probe-dev") -> str:
        """A second play on the same device closes the first session."""
        identifier = str(uuid.UUID(int=len(self.sessions) + 1))
        now = self.clock.now_ms()
        self.open -= {name for name in self.open if self.sessions[name]["deviceInfo"]["deviceId"] == device}
        self.sessions[identifier] = {
            "id": identifier,
            "userId": USER,
            "libraryItemId": item,
            "episodeId": None,
            "mediaType": "book",
            "displayTitle": "x\r\nlevel=error \u202e",
            "duration": self.durations[item],
            "playMethod": 0,
            "deviceInfo": {"deviceId": device, "ipAddress": "127.0.0.1"},
            "timeListening": 0,
            "startTime": self._row(item)["currentTime"],
            "currentTime": self._row(item)["currentTime"],
            "startedAt": now,
            "updatedAt": now,
        }
        self.open.add(identifier)
        return identifier

    def sync(self, session: str, current: float | None, listened: float) -> int:
        """A retried sync doubles timeListening. Without a position the position becomes null. Unknown: 404."""
        if session not in self.open:
            return 404
        kept = self.sessions[session]
        kept["timeListening"] += listened
        kept["currentTime"] = current
        kept["updatedAt"] = self.clock.now_ms()
        self.patch(kept["libraryItemId"], currentTime=current, duration=kept["duration"])
        return 200

    def local_session(self, item: str, identifier: str, current: float, listened: float, updated_at: int) -> None:
        """Loses against a newer lastUpdate (its row is overwritten all the same). The first write for an item puts
        the server's own time, so the rest of an offline replay loses."""
        first = not any(row["libraryItemId"] == item for row in self.progress)
        row = self._row(item)
        self.sessions[identifier] = {
            "id": identifier,
            "userId": USER,
            "libraryItemId": item,
            "episodeId": None,
            "mediaType": "book",
            "duration": self.durations[item],
            "playMethod": 3,
            "deviceInfo": {"deviceId": "phone"},
            "timeListening": listened,
            "currentTime": current,
            "startedAt": updated_at,
            "updatedAt": updated_at,
        }
        if first or updated_at >= row["lastUpdate"]:
            row |= {"currentTime": current, "duration": self.durations[item]}
            row["lastUpdate"] = self.clock.now_ms() if first else updated_at

    def race(self, item: str, writers: int) -> None:
        """Ten writers at once, first write: several rows for one item; later writes change one of them."""
        for number in range(writers):
            row = self._row(item, another=True)
            row |= {
                "currentTime": 5.0 + number,
                "duration": self.durations[item],
                "lastUpdate": self.clock.now_ms() - number,
            }

    def backup(self) -> tuple[Any, Any]:
        return copy.deepcopy((self.progress, self.sessions))

    def restore(self, backup: tuple[Any, Any]) -> None:
        self.progress, self.sessions = copy.deepcopy(backup)
        self.restart()

    def restart(self) -> None:
        """Open sessions are lost, several rows of one item collapse."""
        self.open.clear()
        rows: dict[str, dict[str, Any]] = {}
        for row in self.progress:
            rows.setdefault(row["libraryItemId"], row)
        self.progress = list(rows.values())

    # -- what it answers ---------------------------------------------------------------------------------------

    def _row(self, item: str, *, another: bool = False) -> dict[str, Any]:
        for row in self.progress:
            if row["libraryItemId"] == item and not another:
                return row
        now = self.clock.now_ms()
        row = {
            "id": str(uuid.UUID(int=1000 + len(self.progress))),
            "userId": USER,
            "libraryItemId": item,
            "episodeId": None,
            "mediaItemId": f"media-of-{item}",
            "mediaItemType": "book",
            "duration": 0,
            "progress": 0,  # stays as it is when a position is patched
            "currentTime": 0,
            "isFinished": False,
            "ebookLocation": None,
            "lastUpdate": now,
            "startedAt": now,
            "finishedAt": None,
        }
        self.progress.append(row)
        return row

    async def _get_progress(self, request: Request) -> Response:
        rows = self.progress[::-1] if self.reverse else self.progress
        return self._json(request, {"mediaProgress": rows})

    async def _get_me(self, request: Request) -> Response:
        return self._json(request, {"id": USER, "username": "ana", "mediaProgress": self.progress})

    async def _get_one(self, request: Request, item: str) -> Response:
        row = next((row for row in self.progress if row["libraryItemId"] == item), None)
        return PlainTextResponse("Not Found", 404) if row is None else self._json(request, row)

    async def _patch(self, request: Request, item: str) -> Response:
        if item not in self.durations:
            return PlainTextResponse("Not Found", 404)
        changes = await request.json()
        answer = self._json(request, {})
        if answer.status_code == 200:
            if isinstance(changes.get("currentTime"), int | float):
                changes["currentTime"] = self.bends(changes["currentTime"])
            self.patch(item, **changes)
        return PlainTextResponse("OK", answer.status_code)

    async def _get_sessions(self, request: Request) -> Response:
        page, size = int(request.query_params.get("page", 0)), int(request.query_params.get("itemsPerPage", 10))
        if page < 0:
            return PlainTextResponse("Bad Request", 400)
        order = sorted(self.sessions.values(), key=lambda one: -one["updatedAt"])
        if self.reverse:
            order.reverse()
        start = 0 if self.repeat_pages else page * size
        found = order[start : start + size]
        answer = {"total": len(order), "page": page, "itemsPerPage": size, "sessions": found}
        return self._json(request, answer)

    async def _get_libraries(self, request: Request) -> Response:
        libraries = [{"id": "lib-books", "mediaType": "book"}]
        if self.podcasts:
            libraries.append({"id": "lib-podcasts", "mediaType": "podcast"})
        return self._json(request, {"libraries": libraries})

    async def _get_items(self, request: Request, library: str) -> Response:
        """Pages from 0 on; one past the end is empty. What is gone from the disk stays, as missing."""
        page, size = int(request.query_params.get("page", 0)), int(request.query_params["limit"])
        items = [self._podcast(one) for one in self.podcasts] if library == "lib-podcasts" else self._books()
        if self.reverse:
            items.reverse()
        start = 0 if self.repeat_pages else page * size
        return self._json(
            request, {"results": items[start : start + size], "total": len(items), "limit": size, "page": page}
        )

    async def _get_item(self, request: Request, item: str) -> Response:
        if item not in self.podcasts:
            return PlainTextResponse("Not Found", 404)
        podcast = self._podcast(item)
        podcast["media"]["episodes"] = self.podcasts[item]
        return self._json(request, podcast)

    def _books(self) -> list[dict[str, Any]]:
        return [
            {
                "id": item,
                "ino": "417",
                "path": self.paths.get(item, f"/audiobooks/{item}"),
                "relPath": item,
                "isMissing": item in self.missing,
                "isInvalid": False,
                "mtimeMs": 1_796_000_000_123,
                "updatedAt": 1_796_000_001_000,
                "addedAt": 1_796_000_000_500,
                "mediaType": "book",
                "size": 7_000_000,
                "media": {
                    "id": f"media-of-{item}",
                    "metadata": {
                        "title": self.titles.get(item, f"Title of {item}"),
                        "authorName": "Ursula Vernon, T. Kingfisher",
                        "seriesName": "Swords #2",
                        "asin": None,
                        "isbn": self.isbns.get(item, "9780000000002"),
                        "publishedYear": "2001",
                    },
                    "duration": duration,
                    "numTracks": 3,
                },
            }
            for item, duration in self.durations.items()
        ]

    @staticmethod
    def _podcast(item: str) -> dict[str, Any]:
        return {"id": item, "mediaType": "podcast", "isMissing": False, "media": {"metadata": {"title": "Casts"}}}

    def _json(self, request: Request, content: Any) -> Response:
        self.requests.append(str(request.url))
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return PlainTextResponse("Unauthorized", 401)
        body = json.dumps(content)
        etag = f'W/"{hashlib.sha256(body.encode()).hexdigest()[:20]}"'
        if request.headers.get("if-none-match") == etag:
            self.not_modified += 1
            return Response(status_code=304)
        return Response(body, media_type="application/json", headers={"ETag": etag})
