"""Reports at the door at an even rate, and an eye on when each can be read."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import urlsplit

import psycopg

PEOPLE: Final = 200
MEDIA: Final = 20
CONNECTIONS: Final = 32
LOOK_S: Final = 0.02
"""Looked at so often: more would be a load of its own."""
SETTLE_S: Final = 60.0
_SEEN: Final = b"SELECT event_id FROM api.events WHERE event_id = ANY(%s)"


@dataclass(slots=True)
class Window:
    """Of the reports that were due in it, ms: from due to answered, from due to readable. A report is due when the rate
    says so, whatever became of those before it. ``refused``: by status."""

    answered_ms: list[float] = field(default_factory=list)
    visible_ms: list[float] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Sent:
    window: Window
    due: float


class Steady:
    """Sends from when it is entered until it is left; then everything that was accepted can be read.

    ``per_s`` may be changed at any time."""

    def __init__(self, url: str, token: str, conninfo: Mapping[str, Any], per_s: int) -> None:
        self._port = urlsplit(url).port
        self._token = token
        self._conninfo = conninfo
        self.per_s: float = per_s
        self._window = Window()
        self._waiting: dict[str, _Sent] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._sender = threading.Thread(target=lambda: asyncio.run(self._send()), daemon=True)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._errors: list[BaseException] = []

    def __enter__(self) -> Self:
        self._sender.start()
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._sender.join()
        self._watcher.join()
        if self._errors:
            raise self._errors[0]

    @contextmanager
    def window(self) -> Iterator[Window]:
        """What is due inside is counted apart; its figures are whole when the last of it can be read."""
        found = self._window = Window()
        try:
            yield found
        finally:
            self._window = Window()
            until = time.monotonic() + SETTLE_S
            while self._open(found) and time.monotonic() < until:
                time.sleep(LOOK_S)

    def settled(self, seconds: float) -> bool:
        """Wait, ``seconds`` at most, until less than half a second's reports wait to be read, ten looks in a row: what
        an earlier load left behind is done with. False when it is not."""
        until, calm = time.monotonic() + seconds, 0
        while calm < 10:
            if time.monotonic() > until:
                return False
            time.sleep(1.0)
            with self._lock:
                calm = calm + 1 if len(self._waiting) < self.per_s / 2 else 0
        return True

    def _open(self, window: Window) -> bool:
        with self._lock:
            return any(sent.window is window for sent in self._waiting.values())

    async def _send(self) -> None:
        due: asyncio.Queue[tuple[int, float]] = asyncio.Queue()
        senders = [asyncio.create_task(self._connection(due)) for _ in range(CONNECTIONS)]
        at, number = time.monotonic(), 0
        try:
            while not self._stop.is_set():
                at += 1 / self.per_s
                await asyncio.sleep(max(0.0, at - time.monotonic()))
                due.put_nowait((number, at))
                number += 1
            await asyncio.wait_for(due.join(), SETTLE_S)
        except BaseException as exc:
            self._errors.append(exc)
        finally:
            for sender in senders:
                sender.cancel()

    async def _connection(self, due: asyncio.Queue[tuple[int, float]]) -> None:
        """Sends what is due, one after another; a report whose connection was cut is refused."""
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                while True:
                    await self._one(*await due.get(), due, reader, writer)
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()

    async def _one(
        self,
        number: int,
        at: float,
        due: asyncio.Queue[tuple[int, float]],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        event_id, sent, status = f"steady-{number}", _Sent(self._window, at), b"cut"
        try:
            writer.write(self._request(event_id, number))
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
            status = head.split()[1]
        finally:
            if status == b"202":
                sent.window.answered_ms.append((time.monotonic() - at) * 1000)
                with self._lock:
                    self._waiting[event_id] = sent
            else:
                sent.window.refused[status.decode()] += 1
            due.task_done()

    def _request(self, event_id: str, number: int) -> bytes:
        body = json.dumps(
            {
                "event_id": event_id,
                "user": f"person-{number % PEOPLE}",
                "media": f"film-{number % MEDIA}",
                "media_kind": "video",
                "session_id": f"s{number % (PEOPLE * MEDIA)}",
                "device_id": "tv",
                "sequence": number,
                "kind": "progress",
                "position_ms": 1_000 * number % 6_000_000,
                "duration_ms": 6_600_000,
                "occurred_at": int(time.time() * 1000),
            }
        ).encode()
        head = (
            f"POST /v1/playback HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def _watch(self) -> None:
        with psycopg.connect(**self._conninfo, autocommit=True, prepare_threshold=1) as connection:
            until = float("inf")
            while True:
                with self._lock:
                    asked = list(self._waiting)
                if asked:
                    rows = connection.execute(_SEEN, (asked,)).fetchall()
                    now = time.monotonic()
                    with self._lock:
                        for (event_id,) in rows:
                            sent = self._waiting.pop(event_id, None)
                            if sent is not None:
                                sent.window.visible_ms.append((now - sent.due) * 1000)
                if not self._sender.is_alive():
                    until = min(until, time.monotonic() + SETTLE_S)
                    if not asked or time.monotonic() > until:
                        return
                time.sleep(LOOK_S)
