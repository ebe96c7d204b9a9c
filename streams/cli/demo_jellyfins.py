"""Two media servers for the demo: as much of Jellyfin's API as scanning, polling, forwarding and reading back ask for.

Each answers on loopback, to its own key only, and keeps what it is told. What people do there is a method; its webhooks
go where ``hook`` says, unless they are lost. Rules of user data as in Jellyfin (UserDataManager): who begins adds a
play and a time, and below 5 % of the length no position is kept.
"""

from __future__ import annotations

import email.utils
import json
import re
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs, urlsplit

import httpx

TICKS: Final = 10_000
"""In a millisecond."""
MINUTE: Final = 60_000
_TIMEOUT_S: Final = 10.0
_BODY_BYTES_MAX: Final = 100_000
_USER_DATA: Final = re.compile(r"/UserItems/([0-9a-f]{32})/UserData")
_EMPTY: Final[Mapping[str, Any]] = {
    "PlaybackPositionTicks": 0,
    "PlayCount": 0,
    "IsFavorite": False,
    "Played": False,
    "LastPlayedDate": None,
}


@dataclass(frozen=True, slots=True)
class Film:
    """``guid``: what this server calls it; ``imdb``: what everybody does."""

    guid: str
    title: str
    imdb: str
    length_ms: int


@dataclass
class Server:
    """One server. ``user``: the one person's id there. ``hook``: where its webhook plugin posts to, "" while nobody has
    told it."""

    name: str
    user: str
    films: tuple[Film, ...]
    key: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    url: str = ""
    hook: str = field(default="", repr=False)
    data: dict[str, dict[str, Any]] = field(default_factory=dict)
    """User data by guid."""
    guard: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def film(self, imdb: str) -> Film:
        return next(film for film in self.films if film.imdb == imdb)

    def watch(self, film: Film, began_at: int, from_ms: int, to_ms: int, *, hooks_are_lost: bool = False) -> None:
        """The person watches from here to there, and stops; ``began_at`` is epoch ms. A player reports on the way.

        Raises RuntimeError when a webhook is refused.
        """
        with self.guard:
            data = self._of(film.guid)
            data |= {"PlayCount": data["PlayCount"] + 1, "LastPlayedDate": _time(began_at), "Played": False}
        way = [("PlaybackStart", from_ms), ("PlaybackProgress", (from_ms + to_ms) // 2), ("PlaybackStop", to_ms)]
        for event, position_ms in way:
            with self.guard:
                kept = position_ms if position_ms >= film.length_ms // 20 else 0
                self._of(film.guid)["PlaybackPositionTicks"] = kept * TICKS
            if not hooks_are_lost:
                self._post(film, event, position_ms, began_at + position_ms - from_ms)

    def answer(self, path: str, query: Mapping[str, str]) -> Any:
        """What GET answers; None: there is no such thing."""
        user_data = _USER_DATA.fullmatch(path)
        with self.guard:
            if user_data:
                return dict(self._of(user_data[1])) if self._has(user_data[1]) else None
            match path:
                case "/Users":
                    return [{"Id": self.user, "Name": "dora"}]
                case "/Sessions":
                    return []
                case "/UserItems/Resume":
                    return self._page(query, [f for f in self.films if self._of(f.guid)["PlaybackPositionTicks"]])
                case "/Items" if "isPlayed" in query:
                    return self._page(query, [f for f in self.films if self._of(f.guid)["Played"]])
                case "/Items":
                    return self._page(query, list(self.films))
        return None

    def take(self, path: str, told: Mapping[str, Any]) -> bool:
        """What POST does: fields that are there are kept as they are, the others stay. False: no such item."""
        user_data = _USER_DATA.fullmatch(path)
        with self.guard:
            if user_data is None or not self._has(user_data[1]):
                return False
            self._of(user_data[1]).update({name: told[name] for name in told if name in _EMPTY})
            return True

    def _has(self, guid: str) -> bool:
        return any(film.guid == guid for film in self.films)

    def _of(self, guid: str) -> dict[str, Any]:
        return self.data.setdefault(guid, {**_EMPTY, "Key": guid, "ItemId": guid})

    def _page(self, query: Mapping[str, str], films: list[Film]) -> dict[str, Any]:
        start, limit = int(query.get("startIndex", 0)), int(query.get("limit", 100))
        items = [self._listed(film) for film in films[start : start + limit]]
        return {"Items": items, "TotalRecordCount": len(films), "StartIndex": start}

    def _listed(self, film: Film) -> dict[str, Any]:
        return {
            "Id": film.guid,
            "Name": film.title,
            "Type": "Movie",
            "RunTimeTicks": film.length_ms * TICKS,
            "LocationType": "FileSystem",
            "Path": f"/media/{self.name}/{film.title}.mkv",
            "ProviderIds": {"Imdb": film.imdb},
            "DateLastSaved": "2026-10-01T20:00:00.0000000Z",
            "MediaSources": [{"Id": film.guid, "Size": film.length_ms, "Container": "mkv", "Bitrate": 1}],
            "UserData": dict(self._of(film.guid)),
        }

    def _post(self, film: Film, event: str, position_ms: int, at: int) -> None:
        """As the webhook plugin does with "send all properties"."""
        body = {
            "NotificationType": event,
            "ServerName": self.name,
            "ServerVersion": "10.11.2",
            "UtcTimestamp": _time(at),
            "Name": film.title,
            "ItemId": film.guid,
            "ItemType": "Movie",
            "UserId": self.user,
            "DeviceId": f"tv-of-{self.name}",
            "PlaySessionId": secrets.token_hex(16) if event == "PlaybackStart" else None,
            "RunTimeTicks": film.length_ms * TICKS,
            "PlaybackPositionTicks": position_ms * TICKS,
            "IsPaused": False,
            "IsAutomated": False,
            "PlayedToCompletion": False,
        }
        answer = httpx.post(self.hook, json={k: v for k, v in body.items() if v is not None}, timeout=_TIMEOUT_S)
        if answer.status_code not in (200, 202) or not answer.json().get("event_ids"):
            raise RuntimeError(f"the door answered a webhook with {answer.status_code}: {answer.text[:500]}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: ClassVar[Server]

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if not self._is_known():
            return
        if parts.path.split("/") == ["", "Users", "Me"]:
            self._say(400)  # a key is nobody
            return
        answer = self.served.answer(parts.path, {name: one[0] for name, one in parse_qs(parts.query).items()})
        self._say(404 if answer is None else 200, answer)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > _BODY_BYTES_MAX:
            self.close_connection = True
            self._say(413)
            return
        body = self.rfile.read(length)
        if self._is_known():
            self._say(200 if self.served.take(urlsplit(self.path).path, json.loads(body)) else 404, {})

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""

    def _is_known(self) -> bool:
        known = f'Token="{self.served.key}"' in self.headers.get("Authorization", "")
        if not known:
            self._say(401)
        return known

    def _say(self, status: int, content: Any = None) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response_only(status)
        self.send_header("Date", email.utils.formatdate(usegmt=True))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def answering(*servers: Server) -> Iterator[None]:
    """They answer, at ``url``, until the block ends."""
    running: list[tuple[ThreadingHTTPServer, threading.Thread]] = []
    try:
        for server in servers:
            handler = type(f"Of{server.name}", (_Handler,), {"served": server})
            http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
            server.url = f"http://127.0.0.1:{http.server_port}"
            thread = threading.Thread(target=http.serve_forever, args=(0.05,), name=server.name, daemon=True)
            running.append((http, thread))
            thread.start()
        yield
    finally:
        for http, thread in running:
            http.shutdown()
            thread.join()
            http.server_close()


def _time(ms: int) -> str:
    """Seven digits of a second, as .NET has them."""
    text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
    return f"{text}0000Z"
