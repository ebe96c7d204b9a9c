"""Navidrome, gonic and supysonic as they were seen to answer. Clients' calls are methods, reads go over HTTP.

What differs is data (``Flavour``); each oddity stands in observed behaviour of the real server.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, Response

from streams.runtime.clock import FakeClock

USER, PASSWORD = "listener", "pa55 wörd"


@dataclass(frozen=True)
class Flavour:
    type: str | None
    tokens: bool = True
    bookmarks: bool = True
    """with the play queue"""
    now_playing: bool = True
    unknown_method: tuple[int, int] = (404, 0)
    never_played: str | None = None
    """what `played` is then; None: it is absent"""
    zone: str = "Z"
    counts: bool = True
    """scrobbles count plays"""
    now_playing_counts: bool = False
    search_skips_untagged: bool = False
    states: bool = False
    """now playing tells state and position"""
    empty_queue: bool = True
    """a queue that was never saved is an object"""
    renews_ids: bool = False
    """a file under another name, or back on a lost mount, is another song; an empty mount deletes all"""
    status_for_all: bool = True
    """who is no administrator may ask for the state of scans"""
    count_at_rest: bool = True
    modified: bool = True
    """lastModified tells of scans"""


NAVIDROME = Flavour("navidrome", states=True)
GONIC = Flavour(
    "gonic",
    now_playing=False,
    unknown_method=(200, 70),
    never_played="",
    now_playing_counts=True,
    search_skips_untagged=True,
    empty_queue=False,
    renews_ids=True,
    modified=False,
)
SUPYSONIC = Flavour(
    None,
    tokens=False,
    bookmarks=False,
    zone="",
    counts=False,
    renews_ids=True,
    status_for_all=False,
    count_at_rest=False,
)


@dataclass
class Song:
    id: str
    album: str
    duration: float
    tagged: bool = True
    path: str | None = None
    """None: ALBUM/ID.mp3"""
    title: str | None = None

    @property
    def place(self) -> str:
        return self.path or f"{self.album}/{self.id}.mp3"


@dataclass
class Played:
    count: int = 0
    at: int = 0


@dataclass
class Stored:
    """What is in the database, so what a backup holds."""

    bookmarks: dict[str, dict[str, Any]] = field(default_factory=dict)
    queue: dict[str, Any] | None = None
    plays: dict[str, Played] = field(default_factory=dict)


@dataclass
class Now:
    """A player's last word, in the server's memory."""

    song: str
    state: str
    position_ms: int
    told_at: int


class FakeSubsonic:
    def __init__(self, flavour: Flavour, clock: FakeClock, songs: list[Song]) -> None:
        self.flavour = flavour
        self.clock = clock
        self.songs = {song.id: song for song in songs}
        self._numbers = itertools.count(9_000)
        self.stored = Stored()
        self.players: dict[str, Now] = {}
        self.mounted = True
        self.other_people: list[dict[str, Any]] = []
        self.reverse = False
        self.repeat_pages = False
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.broken = False
        self.broken_after: int | None = None
        """pages of songs that are still answered"""
        self.moves_while_read: list[Callable[[], None]] = []
        """done one by one, each after a page of songs"""
        self.bends: Callable[[int], int] = lambda position: position
        """What it makes of a position that it is told"""
        self.lacks: set[str] = set()
        """methods it does not have besides"""
        self.scans = 0
        self.app = FastAPI()
        self.app.add_api_route("/rest/{method}", self._answer, methods=["GET", "POST"])

    # -- what clients do ---------------------------------------------------------------------------------------

    def create_bookmark(self, song: str, position: int) -> None:
        """Any position is stored as sent, -5 and 999999999 too; the last writer wins; `changed` moves each time."""
        if song not in self.songs:
            return  # ok, and nothing stored
        now = self.clock.now_ms()
        before = self.stored.bookmarks.get(song, {"created": now})
        self.stored.bookmarks[song] = {"position": position, "created": before["created"], "changed": now}

    def save_play_queue(self, songs: list[str], current: str, position: int, client: str = "probe") -> None:
        self.stored.queue = {
            "songs": songs, "current": current, "position": position, "changed": self.clock.now_ms(), "by": client,
        }  # fmt: skip

    def scrobble(self, song: str, time: int | None = None, *, submission: bool = True) -> None:
        """A retry counts again. An older time counts, and `played` stays at the newest; a future one is taken."""
        flavour = self.flavour
        if not flavour.counts:
            return
        if not submission and not flavour.now_playing_counts:
            self.players["probe"] = Now(song, "playing", 0, self.clock.now_ms())
            return
        played = self.stored.plays.setdefault(song, Played())
        played.count += 1
        at = self.clock.now_ms() if time is None or not submission else time
        # Whole seconds are kept of it.
        played.at = max(played.at, at // 1000 * 1000)

    def report_playback(self, song: str, state: str, position_ms: int, player: str = "probe") -> None:
        """Moves the position either way. "stopped" of another song ends nothing and is answered ok all the same."""
        now = self.players.get(player)
        if state == "stopped":
            if now is not None and now.song == song:
                del self.players[player]
            return
        self.players[player] = Now(song, state, min(position_ms, self._ms(song)), self.clock.now_ms())

    def stream(self, song: str, player: str = "probe") -> None:
        """How supysonic comes to know of something playing: each request for bytes of it."""
        self.players[player] = Now(song, "streaming", 0, self.clock.now_ms())

    def backup(self) -> Stored:
        return copy.deepcopy(self.stored)

    def restore(self, backup: Stored) -> None:
        """The older database is back, and the server was restarted for it."""
        self.stored = copy.deepcopy(backup)
        self.restart()

    def restart(self) -> None:
        """Queue, bookmarks and counts stay; what plays is forgotten."""
        self.players.clear()

    def lose_mount(self) -> None:
        """gonic deletes everything of an empty folder, bookmarks too; Navidrome hides songs, lists bookmarks still."""
        self.mounted = False
        self.scans += 1
        if self.flavour is GONIC:
            self.stored = Stored(queue=self.stored.queue)

    def find_mount(self) -> None:
        """The files are back, and a scan has run. Where all was deleted, every song is another one."""
        self.mounted = True
        self.scans += 1
        if self.flavour.renews_ids:
            for song in list(self.songs.values()):
                self._renew(song)

    def rename(self, identifier: str, path: str) -> str:
        """The file has another name, and a scan has run. The id it has then."""
        song = self.songs[identifier]
        song.path = path
        self.scans += 1
        if self.flavour.renews_ids:
            self._renew(song)
        return song.id

    def delete(self, identifier: str) -> None:
        del self.songs[identifier]
        self.scans += 1

    def _renew(self, song: Song) -> None:
        song.path = song.place
        self.stored.plays.pop(song.id, None)
        self.stored.bookmarks.pop(song.id, None)
        del self.songs[song.id]
        song.id = str(uuid.uuid4()) if self.flavour is SUPYSONIC else f"tr-{next(self._numbers)}"
        self.songs[song.id] = song

    # -- what it answers ---------------------------------------------------------------------------------------

    async def _answer(self, method: str, request: Request) -> Response:
        form = dict(request.query_params) | {name: str(value) for name, value in (await request.form()).items()}
        name = method.removesuffix(".view")
        self.requests.append((name, form))
        if name == "search3" and self.broken_after is not None:
            self.broken_after -= 1
        if self.broken or (self.broken_after is not None and self.broken_after < 0):
            return Response("upstream connect error", 502, media_type="text/plain")
        refusal = self._login(form)
        if refusal is not None:
            return refusal
        if name == "getScanStatus" and not self.flavour.status_for_all:
            return self._failed(50, "not authorized")
        handler = getattr(self, f"_{name}", None)
        if handler is None or name in self.lacks or not self._offers(name):
            status, code = self.flavour.unknown_method
            message = "view not found" if code == 70 else "Unknown method"
            return self._failed(code, message, status)
        content: dict[str, Any] | None = handler(form)
        if content is None:
            return self._failed(70, "data not found")
        return JSONResponse({"subsonic-response": {"status": "ok", **self._kind(), **content}})

    def _getSong(self, form: dict[str, str]) -> dict[str, Any] | None:
        return {"song": self._song(form["id"])} if form["id"] in self.songs else None

    def _createBookmark(self, form: dict[str, str]) -> dict[str, Any]:
        self.create_bookmark(form["id"], self.bends(int(form["position"])))
        return {}

    def _deleteBookmark(self, form: dict[str, str]) -> dict[str, Any]:
        self.stored.bookmarks.pop(form["id"], None)
        return {}

    def _scrobble(self, form: dict[str, str]) -> dict[str, Any]:
        self.scrobble(form["id"], int(form["time"]), submission=form.get("submission") != "false")
        return {}

    def _offers(self, name: str) -> bool:
        if name in ("getBookmarks", "getPlayQueue", "createBookmark", "deleteBookmark"):
            return self.flavour.bookmarks
        return name != "getNowPlaying" or self.flavour.now_playing

    def _login(self, form: dict[str, str]) -> Response | None:
        if "t" in form:
            if not self.flavour.tokens:
                return self._failed(0, "failed")
            right = hashlib.md5((PASSWORD + form["s"]).encode()).hexdigest() == form["t"]
        else:
            secret = form.get("p", "")
            right = (bytes.fromhex(secret[4:]).decode() if secret.startswith("enc:") else secret) == PASSWORD
        return None if right and form.get("u") == USER else self._failed(40, "Wrong username or password")

    def _failed(self, code: int, message: str, status: int = 200) -> Response:
        answer = {"status": "failed", **self._kind(), "error": {"code": code, "message": message}}
        return JSONResponse({"subsonic-response": answer}, status)

    def _kind(self) -> dict[str, Any]:
        if self.flavour.type is None:
            return {"version": "1.10.2"}
        return {"version": "1.16.1", "type": self.flavour.type, "serverVersion": "dev", "openSubsonic": True}

    def _getNowPlaying(self, form: dict[str, str]) -> dict[str, Any]:
        now_ms = self.clock.now_ms()
        entries = []
        for player, now in self.players.items():
            entry = {
                **self._song(now.song),
                "username": USER,
                "minutesAgo": (now_ms - now.told_at) // 60_000,
                "playerId": 1 + list(self.players).index(player),
                "playerName": player,
            }
            if self.flavour.states:
                # It moves on by itself, to the end.
                moved = now_ms - now.told_at if now.state == "playing" else 0
                entry |= {"state": now.state, "playbackRate": 1}
                entry["positionMs"] = min(now.position_ms + moved, self._ms(now.song))
            entries.append(entry)
        entries += self.other_people
        return {"nowPlaying": {"entry": entries} if entries else {}}

    def _getBookmarks(self, form: dict[str, str]) -> dict[str, Any]:
        found = []
        for song, kept in self.stored.bookmarks.items():
            bookmark = {
                "entry": self._song(song),
                "position": kept["position"],
                "username": USER,
                "comment": "",
                "created": self._time(kept["created"]),
                "changed": self._time(kept["changed"]),
            }
            if self.flavour is NAVIDROME and not kept["position"]:
                del bookmark["position"]
            found.append(bookmark)
        return {"bookmarks": {"bookmark": found[::-1] if self.reverse else found} if found else {}}

    def _getPlayQueue(self, form: dict[str, str]) -> dict[str, Any]:
        queue = self.stored.queue
        if queue is None:
            never = {"username": USER, "changed": "0001-01-01T00:00:00Z", "changedBy": ""}
            return {"playQueue": never} if self.flavour.empty_queue else {}
        answer = {
            "entry": [self._song(song) for song in queue["songs"]],
            "current": queue["current"],
            "position": queue["position"],
            "username": USER,
            "changed": self._time(queue["changed"]),
            "changedBy": queue["by"],
        }
        if self.flavour is NAVIDROME and not queue["position"]:
            del answer["position"]
        return {"playQueue": answer}

    def _getAlbumList2(self, form: dict[str, str]) -> dict[str, Any]:
        if form["type"] == "alphabeticalByName":
            albums = sorted({song.album for song in self._shown() if song.tagged})
            start = 0 if self.repeat_pages else int(form.get("offset", 0))
            page = albums[start : start + int(form["size"])]
            return {"albumList2": {"album": [{"id": album, "name": album} for album in page]} if page else {}}
        assert form["type"] == "recent"
        last: dict[str, int] = {}
        for song, played in self.stored.plays.items():
            album = self.songs[song].album
            last[album] = max(last.get(album, 0), played.at)
        order = sorted(last, key=lambda album: -last[album])[: int(form["size"])]
        return {"albumList2": {"album": [{"id": album, "name": album} for album in order]} if order else {}}

    def _getAlbum(self, form: dict[str, str]) -> dict[str, Any]:
        songs = [self._song(song.id) for song in self._shown() if song.album == form["id"]]
        return {"album": {"id": form["id"], "song": songs}}

    def _shown(self) -> list[Song]:
        return list(self.songs.values()) if self.mounted else []

    def _getScanStatus(self, form: dict[str, str]) -> dict[str, Any]:
        count = len(self._shown())
        status: dict[str, Any] = {"scanning": False, "count": count if self.flavour.count_at_rest else 0}
        if self.flavour is GONIC and not count:
            del status["count"]
        if self.flavour is NAVIDROME:
            status["lastScan"] = self._time(self.scans)
        return {"scanStatus": status}

    def _getIndexes(self, form: dict[str, str]) -> dict[str, Any]:
        tops = sorted({song.place.split("/")[0] for song in self._shown() if "/" in song.place})
        beside = [self._song(song.id) for song in self._shown() if "/" not in song.place]
        found: dict[str, Any] = {"lastModified": self.scans if self.flavour.modified else 0, "ignoredArticles": ""}
        if tops:
            found["index"] = [{"name": "#", "artist": [{"id": f"d:{top}", "name": top} for top in tops]}]
        if beside:
            found["child"] = beside
        return {"indexes": found}

    def _getMusicDirectory(self, form: dict[str, str]) -> dict[str, Any]:
        above = form["id"].removeprefix("d:") + "/"
        below = [song for song in self._shown() if song.place.startswith(above)]
        inner = sorted({above + rest.split("/")[0] for song in below if "/" in (rest := song.place[len(above) :])})
        children: list[dict[str, Any]] = [{"id": f"d:{one}", "isDir": True, "title": one} for one in inner]
        children += [self._song(song.id) for song in below if "/" not in song.place[len(above) :]]
        return {"directory": {"id": form["id"], "child": children}}

    def _search3(self, form: dict[str, str]) -> dict[str, Any]:
        found = [song for song in self._shown() if song.tagged or not self.flavour.search_skips_untagged]
        offset, count = int(form["songOffset"]), int(form["songCount"])
        if self.reverse:
            found.reverse()
        page = found[:count] if self.repeat_pages else found[offset : offset + count]
        answer: dict[str, Any] = {"song": [self._song(song.id) for song in page]} if page else {}
        if self.moves_while_read:
            self.moves_while_read.pop(0)()
        return {"searchResult3": answer}

    def _song(self, identifier: str) -> dict[str, Any]:
        song = self.songs[identifier]
        played = self.stored.plays.get(identifier)
        answer: dict[str, Any] = {
            "id": identifier,
            "title": song.title or f"Title of {identifier}\r\n\x1b[31m\u202e",
            "album": song.album,
            "path": song.place,
            "size": 1_000_000 + int(song.duration * 1000),
            "suffix": "mp3",
            "bitRate": 128,
            "artist": "Artist",
            "type": "music",
            "isDir": False,
        }
        if int(song.duration):  # cut to seconds, absent when nothing is left
            answer["duration"] = int(song.duration)
        if self.flavour.counts and played is not None and played.count:
            answer |= {"playCount": played.count, "played": self._time(played.at)}
        elif self.flavour.never_played is not None:
            answer["played"] = self.flavour.never_played
        return answer

    def _ms(self, song: str) -> int:
        return int(self.songs[song].duration * 1000)

    def _time(self, ms: int) -> str:
        text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
        return f"{text}402938Z" if self.flavour.zone else text[:19]
