"""The read API and changes over HTTP, as one process of several would serve them."""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from projections.api import ChangeHub, Names, api_router, changes_router
from streams.cli.serve import listen
from streams.runtime.cache import Cache
from streams.runtime.clock import FakeClock
from streams.runtime.people import Person
from streams.runtime.tokens import Authenticator, Principal, Scope, hash_of
from streams.runtime.web import Guard, build_app
from tests.ingest.fakes import FakeAliases, FakePeople, FakeTokens, token
from tests.integration.caches.kitchen import CONTRACT, Kitchen

ANA, BO, CYD = "a" * 32, "b" * 32, "c" * 32
TOKENS = {
    "home": Principal("t-home", "home", frozenset({Scope.READ})),
    "ana": Principal("t-ana", "home", frozenset({Scope.READ}), ANA),
    "bo": Principal("t-bo", "home", frozenset({Scope.READ}), BO),
    "operator": Principal("t-op", None, frozenset({Scope.OPERATE})),
    "reporter": Principal("t-rep", "home", frozenset({Scope.REPORT})),
}
LETTER = dict(zip(TOKENS, "abcde", strict=True))


@dataclass(slots=True)
class Event:
    kind: str
    id: str
    data: dict[str, Any] = field(default_factory=dict)


class Ear:
    """A client of GET /v1/changes: its events, and where it stands."""

    def __init__(self, url: str, who: str, last_id: str | None, query: str) -> None:
        self.last_id = last_id
        self.status: int | None = None
        self._events: queue.Queue[Event | None] = queue.Queue()
        self._socket: socket.socket | None = None
        self._connected = threading.Event()
        headers = {"Authorization": f"Bearer {token(LETTER[who])}"}
        self._client = httpx.Client(timeout=httpx.Timeout(90))
        self._request = self._client.build_request(
            "GET", f"{url}/v1/changes{query}", headers=headers | ({"Last-Event-ID": last_id} if last_id else {})
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        assert self._connected.wait(90)

    def _listen(self) -> None:
        try:
            answer = self._client.send(self._request, stream=True)
            self._socket = answer.extensions["network_stream"].get_extra_info("socket")
            self.status = answer.status_code
            if answer.status_code != 200:
                answer.read()
                self._connected.set()
                return
            event = Event("", "")
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if name == "id":
                    self.last_id = event.id = value
                    self._connected.set()
                elif name == "event":
                    event.kind = value
                elif name == "data":
                    event.data = json.loads(value)
                elif not line:
                    if event.kind:
                        self._events.put(event)
                    event = Event("", "")
        except (httpx.HTTPError, httpx.StreamError, RuntimeError):
            pass
        finally:
            self._events.put(None)
            self._connected.set()

    def next(self, timeout_s: float = 90.0) -> Event | None:
        """The next event; None when the server ended the stream."""
        return self._events.get(timeout=timeout_s)

    def heard(self) -> list[Event]:
        """What has come so far."""
        found: list[Event] = []
        while not self._events.empty():
            event = self._events.get_nowait()
            if event is not None:
                found.append(event)
        return found

    def leave(self) -> None:
        """Closing alone says nothing to the server as long as the thread waits for what comes on the socket."""
        if self._socket is not None:
            with suppress(OSError):  # the server may have ended it
                self._socket.shutdown(socket.SHUT_RDWR)
        self._client.close()


@dataclass
class Served:
    url: str
    hub: ChangeHub
    tokens: FakeTokens
    ears: list[Ear] = field(default_factory=list)

    def listen(self, who: str, last_id: str | None = None, query: str = "") -> Ear:
        ear = Ear(self.url, who, last_id, query)
        self.ears.append(ear)
        return ear

    def get(self, who: str, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers={"Authorization": f"Bearer {token(LETTER[who])}"}, timeout=30)


@contextmanager
def serving(kitchen: Kitchen, *, cached: bool = True) -> Iterator[Served]:
    tokens = FakeTokens(rows={hash_of(token(LETTER[name])): who for name, who in TOKENS.items()})
    people = FakePeople({"home", "flat"})
    people.rows = {
        ("home", "ana"): Person(ANA, True),
        ("home", "bo"): Person(BO, True),
        ("flat", "cyd"): Person(CYD, True),
    }
    cache = Cache(kitchen.server.url if cached else None)
    read = kitchen.reader(cache)
    hub = ChangeHub(kitchen.settings.kafka, CONTRACT, cache)
    guard = Guard(Authenticator(tokens, FakeClock()))
    names = Names(people, FakeAliases())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with read, hub:
            yield

    app = build_app("test", lifespan=lifespan)
    app.include_router(api_router(read, names, guard))
    app.include_router(changes_router(hub, names, guard))
    listening = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=5))
    hub.ending = lambda: server.should_exit
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    made = Served(f"http://127.0.0.1:{listening.getsockname()[1]}", hub, tokens)
    try:
        yield made
    finally:
        server.should_exit = True
        thread.join(30)
        for ear in made.ears:
            ear.leave()
        assert not thread.is_alive()
