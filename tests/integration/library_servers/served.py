"""One media server as a source: its scans, what is read of it, and what a person has played.

Every item of a server here has a length of its own, its *mark*: it tells which item it is whatever its id and path.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from starlette.types import ASGIApp

from schemas.library import MediaMerged
from streams.cli.admin import door_connection
from streams.domain.identity import media_id
from streams.runtime.tokens import create_source, create_token
from streams.runtime.upstreams import Account, connect_upstream
from tests.ingest.pollers.servers.running import running
from tests.integration.library.house import House
from tests.integration.library.library import ENDED, HOUR_MS, PERSON, Library, Scan
from tests.integration.library.oracle import LIVE, folded


class Shelf(Protocol):
    """A media server as its administrator sees it."""

    kind: str
    account: Account

    def marks(self) -> dict[int, str]:
        """The server's own list: the id of each item by its mark."""
        ...


class Web:
    """A fake server on a port that stays its own, up or down."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._port = 0
        self._thread: threading.Thread | None = None
        self._stop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self.up()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def up(self) -> None:
        started = threading.Event()

        async def serve() -> None:
            async with running(self._app, self._port) as url:
                self._port = int(url.rpartition(":")[2])
                self._stop = asyncio.get_running_loop(), asyncio.Event()
                started.set()
                await self._stop[1].wait()

        self._thread = threading.Thread(target=lambda: asyncio.run(serve()))
        self._thread.start()
        assert started.wait(30)

    def down(self) -> None:
        """Nothing when it is down."""
        if self._thread is not None and self._stop is not None:
            loop, stop = self._stop
            loop.call_soon_threadsafe(stop.set)
            self._thread.join(30)
            assert not self._thread.is_alive()
        self._thread = self._stop = None

    @contextmanager
    def away(self) -> Iterator[None]:
        """Down, then up again at the same address."""
        self.down()
        try:
            yield
        finally:
            self.up()


class Served(Library):
    """``check`` is the oracle: what is read == the server's own list == a fold of the log, and nobody's state is
    lost, whichever id it is asked for by."""

    def __init__(self, house: House, source_id: str, shelf: Shelf, url: str) -> None:
        self.house = house
        self.source_id = source_id
        self.shelf = shelf
        self.played: dict[int, int] = {}
        """mark → the position it was left at"""
        self.names: dict[int, set[str]] = {}
        """mark → every id that it was reported under"""
        with door_connection(house.settings) as connection:
            create_source(connection, source_id, shelf.kind, source_id)
            token = create_token(connection, source_id, ["report", "read"], None, "test")
            self.hook = f"/hooks/{shelf.kind}/{create_token(connection, source_id, ['report'], None, 'hook')}"
            connect_upstream(connection, source_id, url, shelf.account, interval_s=3600, verify_tls=True)
        self._client = house.client(token)

    # Scans that do not come to a good end at once.

    def scan_that_fails(self) -> Scan:
        """A scan that the server lets fail; it will be tried again by itself."""
        self.house.start_worker()
        generation = self.ask()
        self.house.wait(
            lambda: any(one.generation == generation and one.status in ENDED for one in self.scans()),
            f"{self.source_id}:{generation} has ended",
        )
        scan = self._one(generation)
        assert (scan.status, scan.reason) == ("failed", "upstream"), scan
        return scan

    def recovers(self) -> Scan:
        """The attempt that follows a failure, by itself, finds all."""
        self.wait_idle()
        last: list[Scan] = []

        def finalized() -> bool:
            last[:] = self.scans()[-1:]
            return last[0].status == "finalized"

        self.house.wait(finalized, f"{self.source_id} is scanned again by itself")
        return last[0]

    # What is read.

    def ids_by_mark(self) -> dict[int, str]:
        """The media_id of everything that is there."""
        rows = self._rows()
        assert len({mark for mark, *_ in rows}) == len(rows), f"an item twice: {sorted(rows)}"
        return {mark: media for mark, media, _, _ in rows}

    def _rows(self) -> list[tuple[int, str, str, str]]:
        rows = self.house.query(
            "SELECT duration_ms, media_id, upstream_id, status FROM api.items"
            " WHERE source_id = %s AND status = ANY(%s)",
            self.source_id,
            list(LIVE),
        )
        return [(row[0], row[1], row[2], row[3]) for row in rows]

    def merges(self) -> list[MediaMerged]:
        return [event for event in self.house.changes(self.source_id) if isinstance(event, MediaMerged)]

    # What a person has played.

    def report(self, positions: Mapping[str, int]) -> None:
        """Somebody has played these, by the ids the server has for them now."""
        reports = [
            {
                "event_id": uuid.uuid4().hex,
                "user": PERSON,
                "media": upstream_id,
                "media_kind": "audiobook",
                "kind": "progress",
                "position_ms": position_ms,
                "duration_ms": HOUR_MS,
            }
            for upstream_id, position_ms in positions.items()
        ]
        answer = self._client.post("/v1/playback", json={"reports": reports})
        assert answer.status_code == 202, answer.text
        assert answer.json()["rejected"] == []

        def read() -> bool:
            return all(self.position(name) == position_ms for name, position_ms in positions.items())

        self.house.wait(read, "what was played is read")

    def listen(self, *marks: int) -> None:
        """Somebody has played these items, or all, each to a place of its own and further than ever."""
        now = self.shelf.marks()
        positions = {}
        for mark in marks or now:
            self.played[mark] = 60_000 + 1_000 * len(self.names) + self.played.get(mark, 0)
            self.names.setdefault(mark, set()).add(now[mark])
            positions[now[mark]] = self.played[mark]
        self.report(positions)

    def position(self, name: str) -> int | None:
        """How far it is by an id of the server's, or one of ours."""
        answer = self._client.get(f"/v1/users/{PERSON}/progress/{name}")
        return int(answer.json()["position_ms"]) if answer.status_code == 200 else None

    # The oracle.

    def check(self, *, reused: bool = False) -> None:  # type: ignore[override]
        """``reused``: the server gave ids away a second time, so an old one may lead elsewhere."""
        marks = self.shelf.marks()
        rows = self._rows()
        assert sorted((mark, upstream_id) for mark, _, upstream_id, _ in rows) == sorted(marks.items())
        assert {status for *_, status in rows} <= {"present"}
        self._check_log()
        items = self.items()
        self._check_counts(items)
        self._check_last_seen(items)
        self.check_played(reused=reused)

    def check_held(self, marks: Mapping[int, str]) -> None:
        """As it was before: these are there, though the server lists others."""
        assert self.ids_by_mark() == marks
        self._check_log()
        self.check_played(reused=True)

    def check_played(self, *, reused: bool = False) -> None:
        now, media = self.shelf.marks(), self.ids_by_mark()
        for mark, position_ms in self.played.items():
            names = set() if reused else set(self.names[mark]) | {now.get(mark, "")} - {""}
            if mark in media:
                names.add(media[mark])
            found = {name: self.position(name) for name in names}
            assert set(found.values()) <= {position_ms}, (mark, position_ms, found)

    def _check_log(self) -> None:
        items = self.items()
        of_log, merges, scans = folded(self.house.changes(self.source_id))
        assert items == of_log
        assert {one.generation: one.status for one in self.scans()} == {g: s.status for g, s in scans.items()}
        assert not merges.keys() & items.keys(), "what lives was merged away"
        assert set(merges.values()) <= items.keys(), "merged into what is no item"
        of_view = self.house.query("SELECT * FROM api.media_merges WHERE media_id = ANY(%s)", list(merges))
        assert dict(of_view) == merges

    def computed(self, upstream_id: str) -> str:
        return media_id(self.source_id, upstream_id)
