"""``playhead poll`` as a process: what a push channel says is in the log soon, long before the interval is over."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from schemas.codec import Codec
from schemas.events import PlaybackReported
from schemas.ids import SchemaIds
from schemas.topics import PLAYBACK_REPORTED
from streams.runtime.clock import SystemClock
from streams.runtime.polls import list_health
from streams.runtime.settings import Settings
from tests.ingest.pollers.servers.jellyfin import ANA, TOKEN, FakeJellyfin
from tests.ingest.pollers.servers.pushing import JellyfinSocket, pushing
from tests.integration.ingest.conftest import Tail
from tests.integration.projections.world import eventually

pytestmark = pytest.mark.services

FILM = "a" * 32
PLAYHEAD = [sys.executable, "-m", "streams.cli"]


class Home:
    """A Jellyfin in another thread."""

    def __init__(self) -> None:
        self.fake = FakeJellyfin(SystemClock(), {FILM: 3_600_000})  # type: ignore[arg-type]
        self.channel = JellyfinSocket(self.fake)
        self.url = ""
        self.loop = asyncio.new_event_loop()

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self.loop).result(30)


@contextmanager
def home() -> Iterator[Home]:
    made = Home()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with pushing(made.fake.app, made.channel) as made.url:
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=made.loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield made
    finally:
        made.loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        made.loop.close()


def test_a_word_of_the_channel_is_in_the_log_soon_and_sigterm_closes_it(
    settings: Settings, tmp_path: Path, topic_prefix: str
) -> None:
    with home() as jellyfin, (tmp_path / "log").open("w+") as log:
        subprocess.run([*PLAYHEAD, "source", "add", "jellyfin", "tv"], check=True, timeout=60, capture_output=True)
        connect = [*PLAYHEAD, "source", "connect", "tv", "--url", jellyfin.url, "--every", "86400"]
        subprocess.run(connect, input=TOKEN, text=True, check=True, timeout=60, capture_output=True)
        tail = Tail(settings.kafka.bootstrap, PLAYBACK_REPORTED.name, f"{topic_prefix}-poll")
        process = subprocess.Popen([*PLAYHEAD, "poll"], stdout=log, stderr=subprocess.STDOUT)
        try:
            eventually(lambda: bool(jellyfin.channel.subscribed), "it listens", 60)

            async def begin() -> None:
                jellyfin.fake.start(ANA, FILM)
                await jellyfin.channel.tell_sessions()

            jellyfin.do(begin())
            (message,) = tail.take(lambda _: True, 1)
            event = Codec(SchemaIds()).decode(message.value() or b"")
            assert isinstance(event, PlaybackReported)
            assert (event.upstream_media, event.kind, event.origin) == (FILM, "progress", "poll")
            with psycopg.connect(**settings.postgres.conninfo("door"), autocommit=True) as connection:

                def healths() -> list[tuple[str, str | None, str | None]]:
                    return [(one.source_id, one.cause, one.channel) for one in list_health(connection)]

                eventually(lambda: healths() == [("tv", None, "open")], "its health says so", 60)
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(30)
            tail.close()
        assert code == 0
        eventually(lambda: not jellyfin.channel.open, "the channel is closed", 60)
        said = (tmp_path / "log").read_text()
        assert TOKEN not in said
        assert "push channel open" in [json.loads(line).get("event") for line in said.splitlines()]
