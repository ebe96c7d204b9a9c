"""playhead source connect and playhead poll against a fake server, a real broker and a real database."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from schemas.codec import Codec
from schemas.events import PlaybackReported
from schemas.ids import SchemaIds
from schemas.topics import PLAYBACK_REPORTED
from streams.cli.app import main
from streams.runtime.clock import FakeClock
from streams.runtime.settings import Settings
from tests.ingest.pollers.servers.running import running
from tests.ingest.pollers.servers.subsonic import NAVIDROME, PASSWORD, USER, FakeSubsonic, Song
from tests.integration.ingest.conftest import Tail

pytestmark = pytest.mark.services


@contextmanager
def serving(fake: FakeSubsonic) -> Iterator[str]:
    """The fake's address, answered from another thread."""
    ready, stop = threading.Event(), threading.Event()
    address: list[str] = []

    async def serve() -> None:
        async with running(fake.app) as url:
            address.append(url)
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(30)
        yield address[0]
    finally:
        stop.set()
        thread.join(30)


@pytest.fixture
def command(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, Any]]:
    """Runs a command with --json: its exit code and document."""

    def run(*arguments: str, stdin: str = "") -> tuple[int, Any]:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = main([*arguments, "--json"])
        out = capsys.readouterr().out
        return code, json.loads(out) if out else None

    return run


def test_a_source_is_connected_polled_twice_and_disconnected(
    settings: Settings, command: Callable[..., tuple[int, Any]], tmp_path: Path, topic_prefix: str
) -> None:
    fake = FakeSubsonic(NAVIDROME, FakeClock(), [Song("hour", "talks", 3_600.0)])
    fake.create_bookmark("hour", 600_000)
    with serving(fake) as url:
        assert command("source", "add", "subsonic", "music")[0] == 0
        assert command("poll", "--once") == (0, [])
        assert command("poll", "music", "--once")[0] == 1, "not connected"
        connected = command("source", "connect", "music", "--url", url, "--account", USER, stdin=PASSWORD + "\n")
        assert connected[0] == 0
        assert PASSWORD not in json.dumps(connected[1])

        tail = Tail(settings.kafka.bootstrap, PLAYBACK_REPORTED.name, f"{topic_prefix}-poll")
        code, (first,) = command("poll", "--once")
        assert (code, first["reports"], first["error"]) == (0, 1, None)
        (message,) = tail.take(lambda _: True, 1)
        tail.close()
        event = Codec(SchemaIds()).decode(message.value() or b"")
        assert isinstance(event, PlaybackReported)
        assert (event.upstream_media, event.position_ms, event.origin) == ("hour", 600_000, "poll")
        code, (second,) = command("poll", "music", "--once", "--sweep")
        assert (code, second["reports"], second["error"]) == (0, 0, None)
        code, (health,) = command("poll", "--status")
        assert (code, health["source_id"], health["cause"], health["failures"]) == (0, "music", None, 0)
        assert health["channel"] is None

        # A wrong password, from a file this time.
        file = tmp_path / "password"
        file.write_text("not the password")
        assert (
            command("source", "connect", "music", "--url", url, "--account", USER, "--secret-file", str(file))[0] == 0
        )
        code, (third,) = command("poll", "--once")
        assert (code, third["error"]) == (1, "credentials")
        with psycopg.connect(**settings.postgres.conninfo("door")) as connection:
            kept = connection.execute("SELECT secret, secret_file FROM core.source_accounts").fetchone()
        assert kept == (None, str(file))
        assert command("source", "disconnect", "music") == (0, {"accounts_forgotten": 1})
        assert command("poll", "--once") == (0, [])


@pytest.mark.parametrize("url", ["http://169.254.169.254", "http://user:pw@nas.lan", "file:///x", "http://0.0.0.0:80"])
def test_an_address_where_no_server_is_is_refused_when_it_is_entered(
    command: Callable[..., tuple[int, Any]], url: str
) -> None:
    command("source", "add", "subsonic", "music")
    assert command("source", "connect", "music", "--url", url, "--account", USER, stdin=PASSWORD)[0] == 1
    assert command("poll", "--once") == (0, [])
