"""Jellyfin: sessions in memory, user data in a database. Clients' calls are methods, reads go over HTTP."""

from __future__ import annotations

import copy
import email.utils
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response

from streams.runtime.clock import FakeClock

TOKEN = "5ec7e75ec7e75ec7e75ec7e75ec7e75e"
ANA, BEN = "3f1c0d5e8a2b4c6d9e0f112233445566", "00112233445566778899aabbccddeeff"
TICKS = 10_000
EXTRAPOLATES_AFTER_MS = 10_000


@dataclass
class Playing:
    user: str
    device: str
    item: str
    position_ms: int
    paused: bool
    checked_in: int


class FakeJellyfin:
    def __init__(self, clock: FakeClock, items: dict[str, int]) -> None:
        self.clock = clock
        self.items = items
        """guid → length in ms"""
        self.data: dict[tuple[str, str], dict[str, Any]] = {}
        self.playing: dict[tuple[str, str], Playing] = {}
        self.paths: dict[str, str] = {}
        self.providers: dict[str, dict[str, str]] = {}
        self.saved: dict[str, int] = {}
        self.virtual: set[str] = set()
        self.moves_while_read: list[Callable[[], None]] = []
        """done one by one, each after a page of the library"""
        self.repeat_pages = False
        self.reverse = False
        self.requests: list[str] = []
        self.away = False
        self.bends: Callable[[int], int] = lambda ticks: ticks
        """What it makes of a position that it is told"""
        self.person: str | None = None
        """Whose token it is, who is no administrator; None: it is a key."""
        self.app = FastAPI()
        self.app.add_api_route("/Users", self._users)
        self.app.add_api_route("/Users" + "/Me", self._me)
        self.app.add_api_route("/Sessions", self._sessions)
        self.app.add_api_route("/UserItems/Resume", self._resume)
        self.app.add_api_route("/Items", self._played)
        self.app.add_api_route("/UserItems/{item}/UserData", self._user_data)
        self.app.add_api_route("/UserItems/{item}/UserData", self._set_user_data, methods=["POST"])

    # -- what clients do ---------------------------------------------------------------------------------------

    def start(self, user: str, item: str, device: str = "tv", position_ms: int = 0) -> None:
        """Counts a play and notes the time: LastPlayedDate is when it began."""
        data = self._data(user, item)
        data["PlayCount"] += 1
        data["LastPlayedDate"] = self._time(self.clock.now_ms())
        self.playing[user, device] = Playing(user, device, item, position_ms, False, self.clock.now_ms())

    def progress(self, user: str, position_ms: int, device: str = "tv", *, paused: bool = False) -> None:
        playing = self.playing[user, device]
        playing.position_ms, playing.paused, playing.checked_in = position_ms, paused, self.clock.now_ms()
        self._store(user, playing.item, position_ms)

    def stop(self, user: str, position_ms: int, device: str = "tv") -> None:
        playing = self.playing.pop((user, device))
        self._store(user, playing.item, position_ms)

    def crash_of_client(self, user: str, device: str = "tv") -> None:
        """It never says stop; the server plays on for it until it notices."""
        del self.playing[user, device]

    def tick(self, user: str, item: str, played: bool) -> None:
        """Marked by hand: played keeps whatever date there was; not played clears everything."""
        data = self._data(user, item)
        data |= {"Played": played, "PlaybackPositionTicks": 0}
        if not played:
            data |= {"PlayCount": 0, "LastPlayedDate": None}

    def backup(self) -> dict[tuple[str, str], dict[str, Any]]:
        return copy.deepcopy(self.data)

    def restore(self, backup: dict[tuple[str, str], dict[str, Any]]) -> None:
        self.data = copy.deepcopy(backup)
        self.restart()

    def restart(self) -> None:
        self.playing.clear()

    def _store(self, user: str, item: str, position_ms: int) -> None:
        """Below 5 % nothing is kept, from 90 % on it is played and the position 0."""
        data = self._data(user, item)
        share = position_ms / self.items[item]
        data["PlaybackPositionTicks"] = position_ms * TICKS if 0.05 <= share < 0.9 else 0
        if share >= 0.9:
            data["Played"] = True

    def _data(self, user: str, item: str) -> dict[str, Any]:
        empty = {
            "PlaybackPositionTicks": 0,
            "PlayCount": 0,
            "IsFavorite": False,
            "Played": False,
            "LastPlayedDate": None,
        }
        return self.data.setdefault((user, item), {**empty, "Key": item, "ItemId": item})

    # -- what it answers ---------------------------------------------------------------------------------------

    async def _users(self, request: Request) -> Response:
        return self._json(request, [{"Id": user, "Name": f"name of {user}"} for user in (ANA, BEN)])

    async def _me(self, request: Request) -> Response:
        if self.person is None:
            return Response(status_code=400)
        return self._json(request, {"Id": self.person, "Policy": {"IsAdministrator": False}})

    async def _sessions(self, request: Request) -> Response:
        return self._json(request, self.sessions())

    def sessions(self) -> list[dict[str, Any]]:
        """What devices do now, as it is told by REST and websocket."""
        idle = {"Id": "idle", "UserId": ANA, "DeviceId": "web", "PlayState": {}, "NowPlayingQueue": []}
        nobody = {"Id": "key", "UserId": "0" * 32, "DeviceId": "playhead"}
        found: list[dict[str, Any]] = [idle, nobody]
        for playing in self.playing.values():
            since = self.clock.now_ms() - playing.checked_in
            moved = since if since > EXTRAPOLATES_AFTER_MS and not playing.paused else 0
            found.append(
                {
                    "Id": f"session-{playing.device}",
                    "UserId": playing.user,
                    "UserName": "Ana\r\nforged \u202e",
                    "DeviceId": playing.device,
                    "DeviceName": "Ana's television",
                    "RemoteEndPoint": "192.168.1.7",
                    "LastActivityDate": self._time(self.clock.now_ms()),
                    "LastPlaybackCheckIn": self._time(playing.checked_in),
                    "PlayState": {
                        "PositionTicks": (playing.position_ms + moved) * TICKS,
                        "IsPaused": playing.paused,
                        "CanSeek": True,
                    },
                    "NowPlayingItem": self._item(playing.item),
                }
            )
        return found

    async def _resume(self, request: Request, userId: str) -> Response:
        return self._page(request, userId, lambda data: data["PlaybackPositionTicks"] > 0)

    async def _played(self, request: Request, userId: str = "") -> Response:
        if "isPlayed" not in request.query_params:
            return self._whole(request)
        assert request.query_params["isPlayed"] == "true"
        return self._page(request, userId, lambda data: data["Played"])

    def _whole(self, request: Request) -> Response:
        """The library. Every item has its path; one that nobody has is virtual and counts in the total."""
        if self.person is not None and request.query_params.get("userId") != self.person:
            return Response(status_code=400)
        order = list(self.items)[::-1] if self.reverse else list(self.items)
        start, limit = int(request.query_params["startIndex"]), int(request.query_params["limit"])
        page = order[:limit] if self.repeat_pages else order[start : start + limit]
        answer = {"Items": [self._listed(item) for item in page], "TotalRecordCount": len(order), "StartIndex": start}
        if self.moves_while_read:
            self.moves_while_read.pop(0)()
        return self._json(request, answer)

    def _listed(self, item: str) -> dict[str, Any]:
        if item in self.virtual:
            return {**self._item(item), "Type": "Episode", "LocationType": "Virtual"}
        return {
            **self._item(item),
            "Path": self.paths.get(item, f"/media/films/{item}.mkv"),
            "LocationType": "FileSystem",
            "ProviderIds": self.providers.get(item, {"Imdb": "tt1234567", "Tmdb": None}),
            "DateLastSaved": self._time(self.saved.get(item, 1_796_000_000_000)),
            "MediaSources": [{"Id": item, "Size": 5_000_000 + self.items[item], "Container": "mkv", "Bitrate": 1}],
        }

    async def _user_data(self, request: Request, item: str, userId: str) -> Response:
        if item not in self.items:
            return Response(status_code=404)
        return self._json(request, self._data(userId, item))

    async def _set_user_data(self, request: Request, item: str, userId: str) -> Response:
        """Each field that is there is kept as it is; the others stay."""
        if item not in self.items:
            return Response(status_code=404)
        data = await request.json()
        answer = self._json(request, {})
        if answer.status_code == 200:
            if "PlaybackPositionTicks" in data:
                data["PlaybackPositionTicks"] = self.bends(data["PlaybackPositionTicks"])
            self._data(userId, item).update(data)
        return answer

    def _page(self, request: Request, user: str, wanted: Any) -> Response:
        rows = [(item, data) for (who, item), data in self.data.items() if who == user and wanted(data)]
        rows.sort(key=lambda row: row[1]["LastPlayedDate"] or "", reverse=not self.reverse)
        start, limit = int(request.query_params["startIndex"]), int(request.query_params["limit"])
        page = rows[:limit] if self.repeat_pages else rows[start : start + limit]
        items = [{**self._item(item), "UserData": data} for item, data in page]
        return self._json(request, {"Items": items, "TotalRecordCount": len(rows), "StartIndex": start})

    def _item(self, item: str) -> dict[str, Any]:
        return {"Id": item, "Name": "Film", "Type": "Movie", "RunTimeTicks": self.items[item] * TICKS}

    def _json(self, request: Request, content: Any) -> Response:
        self.requests.append(request.url.path)
        if self.away:
            return Response(status_code=503)
        if f'Token="{TOKEN}"' not in request.headers.get("authorization", ""):
            return Response(status_code=401)
        now = email.utils.formatdate(self.clock.now_ms() / 1000, usegmt=True)
        return Response(json.dumps(content), media_type="application/json", headers={"Date": now})

    @staticmethod
    def _time(ms: int) -> str:
        """Seven digits of a second, as .NET has them."""
        text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
        return f"{text}0000Z"
