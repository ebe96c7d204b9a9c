"""Bodies made to hurt, addresses made to slip past the guard, and values made to forge a log line."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import socket
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from schemas.limits import BODY_BYTES_MAX
from tests.ingest.fakes import World, progress, token
from tests.security.test_door_keeps_secrets import log as log  # the fixture
from tests.security.test_limits_over_tcp import Connection, serving, status_of

MIB = 1024 * 1024
# A quarter of the largest body is as telling, and quicker to send to so many places.
BOMB_BYTES = BODY_BYTES_MAX // 4
# What parsing it may take; a bomb would take hundreds.
PEAK_BYTES_MAX = 32 * MIB
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=b"


def filled(head: bytes, piece: bytes, tail: bytes = b"") -> bytes:
    """A large body made of many a piece."""
    return head + piece * ((BOMB_BYTES - len(head) - len(tail)) // len(piece)) + tail


def one_part(name: str, value: bytes) -> bytes:
    return f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value + b"\r\n"


def bombs() -> Iterator[tuple[str, str, bytes]]:
    """(name, content type, body)."""
    report = json.dumps(progress())[:-1]
    yield "deep lists", JSON, filled(b"", b"[")
    yield "deep objects", JSON, filled(b"", b'{"a":')
    yield "deep in a value", JSON, (report + ', "x": ' + "[" * 5_000 + "]" * 5_000 + "}").encode()
    yield "a million digits", JSON, filled(report.encode() + b', "sequence": 1', b"0", b"}")
    yield "a million decimals", JSON, filled(report.encode() + b', "position_ms": 1.', b"0", b"}")
    yield "an exponent", JSON, (report + ', "position_ms": 1e999999999}').encode()
    yield "NaN", JSON, (report + ', "position_ms": NaN}').encode()
    yield "many keys", JSON, filled(b'{"a":1', b',"aaaa":1', b"}")
    yield "one key again and again", JSON, filled(report.encode(), b',"user":"u"', b"}")
    yield "many reports", JSON, filled(b'{"reports":[{}', b",{}", b"]}")
    yield "many empty lists", JSON, filled(b'{"reports":[[]', b",[]", b"]}")
    yield "many lines", JSON, filled(b"", b"{}\n")
    yield "escapes", JSON, filled(report.encode() + b', "x": "', b"\\u0000", b'"}')
    yield "lone surrogates", JSON, (report + ', "device_id": "\\ud800"}').encode()
    yield "not UTF-8", JSON, filled(b'"', b"\xff", b'"')
    yield "UTF-16", JSON, json.dumps(progress()).encode("utf-16")
    yield "empty", JSON, b""
    yield "gzip inside", JSON, gzip.compress(bytes(MIB))
    yield "many parts", PARTS, filled(b"", one_part("payload", b"{}"), b"--b--")
    yield "parts without end", PARTS, filled(one_part("payload", b"{}"), b"--b\r\n")
    yield "a part of headers", PARTS, filled(b"--b\r\n", b"A: b\r\n")
    yield "a long header", PARTS, filled(b"--b\r\nContent-Disposition: ", b"x")
    yield "a long boundary", f"multipart/form-data; boundary={'b' * 5_000}", b"--" + b"b" * 5_000
    yield "no boundary", "multipart/form-data", one_part("payload", b"{}")
    yield "dashes", PARTS, filled(b"", b"-")
    yield "line breaks", PARTS, filled(b"--b", b"\r\n")
    yield "many fields", FORM, filled(b"a=b", b"&a=b")
    yield "separators", FORM, filled(b"", b"&")
    yield "percents", FORM, filled(b"data=", b"%7B")
    yield "an image", PARTS, filled(one_part("payload", b"{}") + one_part("thumb", b"")[:-2], b"\xff\xd8", b"\r\n--b--")


BOMBS = list(bombs())


@pytest.mark.parametrize(("name", "content_type", "body"), BOMBS, ids=[name for name, _, _ in BOMBS])
def test_a_body_made_to_hurt_is_answered_in_bounded_memory_and_the_next_sender_is_served(
    name: str, content_type: str, body: bytes
) -> None:
    assert len(body) <= BODY_BYTES_MAX
    world = World()
    formats = ("jellyfin",) if content_type == JSON else ("plex", "emby")
    paths = [("/v1/playback", world.report), *((f"/hooks/{format}", world.jelly) for format in formats)]

    async def scene() -> None:
        for path, its_token in paths:
            tracemalloc.start()
            answer = await world.post(path, content=body, token=its_token, Content_Type=content_type)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert answer.status_code in (200, 202, 400, 413, 415, 422), f"{path}: {answer.status_code}"
            assert len(answer.content) < 2 * MIB, "an answer larger than the question"
            assert peak < PEAK_BYTES_MAX, f"{path}: {peak / MIB:.0f} MiB"
        assert (await world.post("/v1/playback", progress(), token=world.report)).status_code == 202

    asyncio.run(scene())


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "GZIP", "identity, gzip", "x-gzip"])
def test_a_packed_body_is_refused_unopened(encoding: str) -> None:
    world = World()
    packed = gzip.compress(bytes(50 * MIB)) if "zip" in encoding.lower() else zlib.compress(bytes(50 * MIB))
    tracemalloc.start()
    answer = asyncio.run(
        world.post("/v1/playback", content=packed, token=world.report, Content_Type=JSON, Content_Encoding=encoding)
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (answer.status_code, answer.headers["Connection"]) == (415, "close")
    assert peak < 8 * MIB


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "1" * 5_000, "１２", " 5", "5 5", ""])
def test_a_length_that_is_no_number_is_refused_before_it_is_read_as_one(length: str) -> None:
    world = World()

    async def scene(connect: Callable[[], Awaitable[Connection]]) -> int:
        reader, writer = await connect()
        head = f"POST /v1/playback HTTP/1.1\r\nHost: door\r\nContent-Length: {length}\r\n\r\n".encode()
        writer.write(head)
        status = await status_of(reader)
        writer.close()
        return status

    assert serving(world, scene) in (400, 401, 413)
    assert world.publisher.records == []


SLIPS = (
    "/v1/playback/",
    "//v1/playback",
    "/V1/PLAYBACK",
    "/v1/./playback",
    "/v1/x/../playback",
    "/v1/%70layback",
    "/v1%2fplayback",
    "/healthz/../v1/playback",
    "/metrics?/v1/playback",
    "/v1/playback;token",
    "/hooks/jellyfin/..",
    "/hooks/jellyfin/%2e%2e",
    "/hooks/jellyfin/ph_" + "%00" * 43,
    "/hooks/jellyfin/" + "a" * 5_000,
    "/hooks/jellyfin/%20",
    "/hooks/../healthz",
    "/hooks/jellyfin/" + token("x"),
)


@pytest.mark.parametrize("path", SLIPS)
def test_no_spelling_of_an_address_gets_a_stranger_past_the_guard(path: str) -> None:
    world = World()

    async def scene(connect: Callable[[], Awaitable[Connection]]) -> int:
        reader, writer = await connect()
        body = json.dumps(progress()).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: door\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        status = await status_of(reader)
        writer.close()
        return status

    assert serving(world, scene) in (400, 401, 404, 405)
    assert world.publisher.records == []


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer ", "Bearer null", "Basic eDp5", "Bearer " + token("x"), "\t"])
def test_no_token_an_empty_and_an_unknown_one_get_one_and_the_same_answer(given: str) -> None:
    world = World()
    nothing = asyncio.run(world.post("/v1/playback", progress()))
    answer = asyncio.run(world.post("/v1/playback", progress(), Authorization=given))
    assert (answer.status_code, answer.content) == (401, nothing.content)


def test_what_a_payload_names_is_never_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """The door fetches nothing: no picture, no server, no callback a body or header speaks of."""
    wanted: list[Any] = []

    def refuse(*place: Any, **_: Any) -> Any:
        wanted.append(place)
        raise OSError("no way out")

    world = World()
    target = "http://169.254.169.254/latest/meta-data"
    bodies = [
        {"NotificationType": "PlaybackStart", "UserId": "a" * 32, "ItemId": "b" * 32, "ServerUrl": target},
        {"event": "media.play", "Account": {"id": 1, "thumb": target}, "Metadata": {"ratingKey": "1", "thumb": target}},
        progress(media=target, device_id=target, callback=target),
    ]

    async def scene() -> None:
        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        monkeypatch.setattr(socket.socket, "connect", refuse)
        for body in bodies:
            for path, its_token in (("/v1/playback", world.report), ("/hooks/plex", world.jelly)):
                await world.post(path, body, token=its_token, Referer=target, X_Forwarded_Host="169.254.169.254")

    asyncio.run(scene())
    assert world.publisher.records
    assert wanted == []


def test_no_address_header_or_value_forges_a_log_line_or_moves_the_terminal(log: io.StringIO) -> None:
    world = World()
    evil = 'x%0d%0a{"event":"forged"}%1b[2J'
    raw = "\u202e\x1b]0;owned\x07".encode()

    async def scene(connect: Callable[[], Awaitable[Connection]]) -> None:
        for path in (f"/{evil}", f"/hooks/{evil}/{evil}", f"/hooks/jellyfin/{evil}", f"/v1/playback?{evil}"):
            for value in (evil.encode(), raw):
                reader, writer = await connect()
                writer.write(
                    f"POST {path} HTTP/1.1\r\nHost: door\r\nContent-Length: 0\r\n".encode()
                    + b"X-Correlation-Id: "
                    + value
                    + b"\r\nUser-Agent: "
                    + value
                    + b"\r\n\r\n"
                )
                await status_of(reader)
                writer.close()

    serving(world, scene)
    lines = log.getvalue().splitlines()
    assert any('"request"' in line for line in lines)
    for line in lines:
        assert json.loads(line)["event"] != "forged"
        assert "\x1b" not in line
        assert "owned" not in line


def test_the_server_as_serve_runs_it_writes_no_token_of_an_address_or_header(log: io.StringIO) -> None:
    world = World()
    canary, header = "ph_" + "CANARYpath" * 4 + "abc", "ph_" + "CANARYhead" * 4 + "abc"

    async def scene(connect: Callable[[], Awaitable[Connection]]) -> list[int]:
        statuses = []
        for path in (f"/hooks/plex/{canary}", f"/hooks/plex/{canary}?again={canary}", f"/{canary}"):
            reader, writer = await connect()
            head = (
                f"POST {path} HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer {header}\r\nContent-Length: 2\r\n\r\n{{}}"
            )
            writer.write(head.encode())
            statuses.append(await status_of(reader))
            writer.close()
        reader, writer = await connect()
        writer.write(f"POST /{canary} HTTP/9.9\r\n{header}\r\n\r\n".encode())
        statuses.append(await status_of(reader))
        writer.close()
        return statuses

    assert serving(world, scene) == [401, 401, 404, 400]
    assert log.getvalue()
    assert "CANARY" not in log.getvalue()
