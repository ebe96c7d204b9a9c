"""Which sources are polled and when; and that nothing hostile gets through into logs, or out of a poll's way."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator, Sequence

import pytest
from fastapi import FastAPI
from starlette.responses import JSONResponse, Response

from streams.ingest.pollers import Result, Scheduler, schedule
from streams.runtime import logs
from streams.runtime.upstreams import Account, UpstreamEntry
from tests.ingest.fakes import HASH_KEY
from tests.ingest.pollers.lab import Lab, scene, summary
from tests.ingest.pollers.servers.running import running
from tests.ingest.pollers.servers.subsonic import NAVIDROME, PASSWORD, USER, FakeSubsonic, Song

HOSTILE = 'x"\r\n{"level":"error","event":"forged"}\u202e\x1b[31m'


class Configured:
    """Upstreams whose entries the test changes."""

    def __init__(self, *entries: UpstreamEntry) -> None:
        self.entries = list(entries)

    async def pollable(self, source_ids: Sequence[str] = ()) -> list[UpstreamEntry]:
        return [entry for entry in self.entries if not source_ids or entry.source_id in source_ids]


def entry(source_id: str, url: str) -> UpstreamEntry:
    return UpstreamEntry(source_id, "subsonic", url, 5, True, (Account(USER, "token", PASSWORD),))


def at_once(low: float, high: float) -> float:
    """A chance that is always the same and short."""
    return 0.01


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


def test_sources_are_polled_beside_each_other_and_new_ones_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "LOOK_AGAIN_S", 0.05)

    async def play(lab: Lab) -> None:
        fake = FakeSubsonic(NAVIDROME, lab.clock, [Song("hour", "talks", 3_600.0)])
        fake.create_bookmark("hour", 600_000)
        results: list[Result] = []
        async with running(fake.app) as url:
            configured = Configured(entry("home", "http://127.0.0.1:9"))
            scheduler = Scheduler(configured, lab.world.door, lab.store, HASH_KEY, lab.clock, on_result=results.append)
            stop = asyncio.Event()
            task = asyncio.create_task(scheduler.run(stop))
            await until(lambda: any(result.cause == "away" for result in results))
            configured.entries.append(entry("jelly", url))
            await until(lambda: any(result.polled.reports for result in results))
            assert summary(lab.world.reported()) == [("hour", "progress", 600_000)]
            configured.entries.clear()
            await asyncio.sleep(0.3)
            before = len(results)
            await asyncio.sleep(0.3)
            assert len(results) == before, "what is configured no more is polled no more"
            stop.set()
            await asyncio.wait_for(task, 30)

    scene(play)


def test_a_log_that_is_away_is_waited_for_and_nothing_is_lost() -> None:
    async def play(lab: Lab) -> None:
        fake = FakeSubsonic(NAVIDROME, lab.clock, [Song("hour", "talks", 3_600.0)])
        fake.create_bookmark("hour", 600_000)
        async with running(fake.app) as url:
            lab.world.publisher.away = True
            results: list[Result] = []
            configured = Configured(entry("home", url))
            scheduler = Scheduler(configured, lab.world.door, lab.store, HASH_KEY, lab.clock, on_result=results.append)
            stop = asyncio.Event()
            task = asyncio.create_task(scheduler.run(stop))
            await until(lambda: len(fake.requests) >= 6)
            assert not lab.store.rows, "nothing was seen that is not in the log"
            lab.world.publisher.away = False
            await until(lambda: bool(lab.world.reported()))
            stop.set()
            await asyncio.wait_for(task, 30)

    scene(play)


@pytest.fixture
def log_lines() -> Iterator[Callable[[], list[str]]]:
    """Everything that is logged, as it would stand in a file."""
    stream = io.StringIO()
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    logs.configure("poll", level="DEBUG", stream=stream)
    yield lambda: stream.getvalue().splitlines()
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.parametrize("answer", ["ok", "failed", "error", "garbage"])
def test_nothing_a_server_says_forges_a_log_line(answer: str, log_lines: Callable[[], list[str]]) -> None:
    app = FastAPI()

    async def hostile(method: str) -> Response:
        match answer:
            case "error":
                return Response(HOSTILE.encode("utf-8", "replace"), 500)
            case "garbage":
                return Response(HOSTILE.encode("utf-8", "replace"))
            case "failed":
                error = {"code": 0, "message": HOSTILE}
                return JSONResponse({"subsonic-response": {"status": "failed", "error": error}})
        song = {"id": HOSTILE, "title": HOSTILE, "playCount": 1, "played": "2026-01-01T00:00:00Z"}
        bookmark = {"entry": song, "username": USER, "position": 5, "changed": "2026-01-01T00:00:00Z"}
        content = {
            "bookmarks": {"bookmark": [bookmark]},
            "searchResult3": {"song": [song]},
            "nowPlaying": {"entry": [{**song, "username": HOSTILE, "playerName": HOSTILE}]},
        }
        return JSONResponse({"subsonic-response": {"status": "ok", "type": HOSTILE, **content}})

    app.add_api_route("/rest/{method}", hostile, methods=["POST"])

    async def play(lab: Lab) -> None:
        async with lab.polling(app, "subsonic", Account(USER, "token", PASSWORD)):
            await lab.poll(sweep=True)

    scene(play)
    for line in log_lines():
        assert "forged" not in json.loads(line).get("event", "")
        assert "forged" not in line
        assert not {"\u202e", "\x1b", "\r"} & set(line)
        assert PASSWORD not in line


def test_one_unusable_source_keeps_nobody_else_from_being_polled() -> None:
    """An address that was written into the table by hand, and a secret file that is gone."""

    async def play(lab: Lab) -> None:
        async def outcome(one: UpstreamEntry) -> str | None:
            lab.entry = one
            await lab.poll(source=lab.another_poller())
            return lab.last.cause

        assert await outcome(entry("home", "http://169.254.169.254/")) == "not_allowed"
        gone = Account(USER, "token", secret_file="no such file")
        assert await outcome(UpstreamEntry("home", "subsonic", "http://127.0.0.1:9", 5, True, (gone,))) == "credentials"

    scene(play)
