"""`playhead replay`: captured payloads through a door, its neighbours in memory."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from typer.testing import CliRunner, Result

from streams.cli import replay as module
from streams.cli.app import main
from streams.cli.captures import BadCapture, call_of, fingerprint, read
from streams.cli.replay import Pace, Progress, app
from streams.runtime.errors import EXIT_CONFIGURATION, EXIT_UNAVAILABLE, ConfigurationError, PlayheadError, Unavailable
from tests.ingest.fakes import World, progress
from tests.ingest.hooks import golden, payloads

PLEX = payloads.multipart(payloads.plex("media.pause"))
JELLYFIN = payloads.encoded(payloads.jellyfin("PlaybackProgress"))


def line(format: str, body: bytes, **more: Any) -> dict[str, Any]:
    return {"format": format, "body_base64": base64.b64encode(body).decode(), **more}


def capture(folder: Path, *lines: dict[str, Any]) -> Path:
    file = folder / "evening.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return file


@contextmanager
def served(world: World) -> Iterator[str]:
    """The world's door on a port of its own; its address."""
    server = uvicorn.Server(uvicorn.Config(world.app, port=0, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    until = time.monotonic() + 30
    while not server.started and time.monotonic() < until:
        time.sleep(0.01)
    try:
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join()


def run(*arguments: object, token: str = "") -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments], env={"PLAYHEAD_TOKEN": token})


def sent(world: World, file: Path, *, at: int = 0, stop_after: int | None = None, pace: Pace | None = None) -> Progress:
    """Send a capture to a door in this process; KeyboardInterrupt after so many answers."""
    given = read([file], None)
    made = Progress(fingerprint(given), "door", len(given), done=at)

    def moved(now: Progress) -> None:
        if now.done == stop_after:
            raise KeyboardInterrupt

    async def go() -> None:
        async with world.client() as client:
            await module.replay(given, client, world.jelly, made, pace=pace or Pace(patience_s=0), moved=moved)

    try:
        asyncio.run(go())
    except KeyboardInterrupt:
        assert stop_after is not None
    return made


def test_a_capture_of_every_format_goes_through_the_normal_door(tmp_path: Path) -> None:
    world = World()
    file = capture(
        tmp_path,
        line("jellyfin", JELLYFIN, content_type="text/plain"),
        line("plex", PLEX),
        line("emby", payloads.form("data", payloads.emby("playback.pause"))),
        line("audiobookshelf", payloads.encoded({"sessions": [payloads.session(), payloads.session(currentTime=-1)]})),
        {"format": "native", "body": json.dumps(progress(source=None))},
        line("subsonic", payloads.call("scrobble", "id=tr-6&time=1777890600000")),
        line("jellyfin", payloads.encoded(payloads.jellyfin("Generic"))),
        line("plex", b"--no"),
    )
    with served(world) as door:
        result = run(file, "--to", door, token=world.jelly)
    assert result.exit_code == 1, result.output
    assert "8 of 8 payloads sent: 8 reports accepted, 1 events ignored, 2 refused" in result.stdout
    assert f"{file}:4 report 1: invalid_position" in result.stdout
    assert f"{file}:8 report 0: bad_multipart" in result.stdout
    kinds = [event.kind for event in world.reported()]
    assert kinds == ["progress", "pause", "pause", "progress", "progress", "start", "progress", "finish"]
    assert world.jelly not in result.output + (tmp_path / "evening.jsonl.replay").read_text()


def test_listens_go_to_the_door_of_listens(tmp_path: Path) -> None:
    world = World()
    body = payloads.encoded({"listen_type": "single", "payload": [payloads.listen()]})
    with served(world) as door:
        result = run(capture(tmp_path, line("listenbrainz", body)), "--to", door, token=world.bound)
    assert result.exit_code == 0, result.output
    assert [event.kind for event in world.reported()] == ["start", "progress", "finish"]


def test_bodies_in_a_folder_are_sent_by_name_as_the_format_given(tmp_path: Path) -> None:
    for name, event in (("b.body", "media.pause"), ("a.body", "media.play")):
        (tmp_path / name).write_bytes(payloads.multipart(payloads.plex(event)))
    world = World()
    token = tmp_path.with_name(f"{tmp_path.name}.token")
    token.write_text(f"{world.jelly}\n")
    with served(world) as door:
        result = run("--format", "plex", tmp_path, "--to", door, "--token-file", token)
    assert result.exit_code == 0, result.output
    assert [event.kind for event in world.reported()] == ["start", "pause"]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = capture(tmp_path, *[line("native", json.dumps(progress(event_id=f"e{n}")).encode()) for n in range(5)])
    world = World()
    with served(world) as door:
        arguments = (file, "--to", door)
        with pytest.MonkeyPatch.context() as patch:
            original = module._count

            def interrupted(now: Progress, *rest: Any) -> None:
                original(now, *rest)
                if now.done == 2:  # the third was answered and not yet noted
                    raise KeyboardInterrupt

            patch.setattr(module, "_count", interrupted)
            assert run(*arguments, token=world.report).exit_code == 130
        kept = json.loads((tmp_path / "evening.jsonl.replay").read_text())
        assert (kept["done"], kept["total"]) == (2, 5)
        assert run(*arguments, token=world.report).exit_code == 0
        again = run(*arguments, token=world.report)
        assert "all of it was sent before" in again.stdout
    ids = [event.event_id for event in world.reported()]
    assert ids == ["e0", "e1", "e2", "e2", "e3", "e4"]


def test_a_payload_sent_again_has_the_same_event_ids_even_where_it_names_none(tmp_path: Path) -> None:
    file = capture(
        tmp_path, line("plex", PLEX), line("plex", PLEX), line("subsonic", payloads.call("scrobble", "id=tr-6"))
    )
    first, second = World(), World()
    sent(first, file)
    sent(second, file, stop_after=1)
    sent(second, file, at=0)
    ids = [event.event_id for event in first.reported()]
    assert len(set(ids)) == len(ids) == 4
    assert [event.event_id for event in second.reported()] == [ids[0], *ids]


def test_a_door_that_is_away_is_waited_for_as_it_asks(tmp_path: Path) -> None:
    world = World()
    answers = iter(
        [httpx.Response(503, headers={"Retry-After": "0"}), httpx.Response(429, headers={"Retry-After": "0"})]
    )

    async def away(request: httpx.Request) -> httpx.Response:
        return next(answers, None) or httpx.Response(202, json={"accepted": 1, "event_ids": ["e"], "rejected": []})

    given = read([capture(tmp_path, line("plex", PLEX))], None)
    made = Progress("r", "door", 1)

    async def go() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(away), base_url="http://door") as client:
            await module.replay(given, client, "t", made, pace=Pace(patience_s=5), moved=lambda now: None)

    asyncio.run(go())
    assert (made.done, made.accepted, made.refused) == (1, 1, 0)
    world.publisher.away = True
    with pytest.raises(Unavailable, match=r"the same command goes on at .*evening.jsonl:1"):
        sent(world, tmp_path / "evening.jsonl")


def test_a_dry_run_needs_no_door_and_shows_what_would_be_sent(tmp_path: Path) -> None:
    file = capture(tmp_path, line("plex", PLEX), line("subsonic", payloads.call("scrobble", "id=a&time=1777890600000")))
    result = run(file, "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{file}:1  POST /hooks/plex  pause",
        f"{file}:2  POST /v1/playback  finish",
        "2 payloads with 2 reports; nothing was sent",
    ]
    assert [one["reads"] for one in json.loads(run(file, "--dry-run", "--json").stdout)] == ["pause", "finish"]
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("format", ["jellyfin", "plex", "emby", "audiobookshelf", "listenbrainz", "subsonic", "native"])
def test_every_golden_payload_has_its_way_through_the_door(format: str) -> None:
    for payload in read([golden.GOLDEN / format], format):
        assert call_of(payload, run="r" * 64, index=1, now_ms=1).path.startswith("/")


def test_long_files_of_native_reports_are_many_requests(tmp_path: Path) -> None:
    file = tmp_path / "reports.jsonl"
    lines = [json.dumps(progress(event_id=f"e{n}")) for n in range(450)]
    file.write_text("\n".join([*lines, "", json.dumps({"reports": [progress(event_id="last")]}), lines[0]]))
    places = [payload.place.removeprefix(str(file)) for payload in read([file], "native")]
    assert places == [":1-200", ":201-400", ":401-450", ":452", ":453"]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('{"format": "gramophone", "body": "x"}', "format is none of"),
        ('{"format": "plex", "body": 7}', "neither body nor body_base64"),
        ('{"format": "plex", "body_base64": "%%"}', "not base64"),
        ('{"format": "plex", "body": "x", "content_type": "a\\nb"}', "content_type is not a text"),
        ('{"format": "plex", "body": "x"}\nnot json', "2: format is none of"),
        ("no capture", "say what it is with --format"),
    ],
)
def test_what_is_wrong_with_a_capture_is_said_with_its_line(text: str, wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text(text)
    with pytest.raises(BadCapture, match=wrong):
        read([file], None)
    assert run(file, "--dry-run").exit_code == 2


def error_of(result: Result) -> PlayheadError:
    assert isinstance(result.exception, PlayheadError), result.output
    return result.exception


def test_a_missing_or_wrong_token_says_what_to_do(tmp_path: Path) -> None:
    file = capture(tmp_path, line("plex", PLEX))
    assert "PLAYHEAD_TOKEN" in str(error_of(run(file)))
    assert "No such file" in str(error_of(run(file, "--token-file", tmp_path / "none")))
    world = World()
    with served(world) as door:
        error = error_of(run(file, "--to", door, token="ph_" + "x" * 43))
    assert isinstance(error, ConfigurationError)
    assert "scope report" in str(error)


def test_another_capture_or_door_is_no_continuation(tmp_path: Path) -> None:
    file = capture(tmp_path, line("plex", PLEX))
    world = World()
    with served(world) as door:
        assert run(file, "--to", door, token=world.jelly).exit_code == 0
        assert "another door" in str(error_of(run(file, "--to", "http://127.0.0.1:1", token=world.jelly)))
        capture(tmp_path, line("jellyfin", JELLYFIN))
        assert "other payloads" in str(error_of(run(file, "--to", door, token=world.jelly)))
        assert run(file, "--to", door, "--restart", token=world.jelly).exit_code == 0
    (tmp_path / "evening.jsonl.replay").write_text("{")
    assert "--restart" in str(error_of(run(file, "--to", "http://127.0.0.1:1", token=world.jelly)))


def test_nobody_there_is_unavailable_and_the_state_is_kept(tmp_path: Path) -> None:
    file = capture(tmp_path, line("plex", PLEX))
    result = run(file, "--to", "http://127.0.0.1:1", "--patience-s", "0", token="t")
    assert isinstance(error_of(result), Unavailable)
    assert json.loads((tmp_path / "evening.jsonl.replay").read_text())["done"] == 0


def test_usage_errors_exit_with_2(tmp_path: Path) -> None:
    file = capture(tmp_path, line("plex", PLEX))
    for arguments in ((file, "--format", "gramophone"), (tmp_path / "none",), (file, "--rate", "-1")):
        assert run(*arguments, token="t").exit_code == 2


def test_a_rate_spaces_the_payloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("streams.cli.replay.asyncio.sleep", sleep)
    sent(World(), capture(tmp_path, line("plex", PLEX), line("plex", PLEX), line("plex", PLEX)), pace=Pace(0.01))
    assert waited[0] == 0
    assert waited[1] == pytest.approx(100, abs=20)
    assert waited[2] == pytest.approx(200, abs=20)


def test_the_exit_code_tells_a_token_from_a_door_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = capture(tmp_path, line("plex", PLEX))
    arguments = ["replay", str(file), "--to", "http://127.0.0.1:1", "--patience-s", "0"]
    monkeypatch.delenv("PLAYHEAD_TOKEN", raising=False)
    assert main(arguments) == EXIT_CONFIGURATION
    monkeypatch.setenv("PLAYHEAD_TOKEN", "ph_secret")
    assert main(arguments) == EXIT_UNAVAILABLE
    assert main(["replay", str(file), "--to", "no address", "--patience-s", "0"]) == 2
    shown = capsys.readouterr()
    assert "the same command goes on" in shown.err
    assert "ph_secret" not in shown.out + shown.err
