"""Hostile and broken servers: where requests go, how much of an answer is read, and what an error says."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from schemas.limits import JSON_DEPTH_MAX
from streams.runtime.clock import FakeClock
from streams.upstream.errors import (
    BadAnswer,
    CredentialsRefused,
    NotAllowed,
    NotOffered,
    ServerFailed,
    TooLarge,
    UpstreamAway,
    UpstreamError,
)
from streams.upstream.http import Limits, NotModified, Upstream
from streams.upstream.origin import Origin
from tests.upstream.loopback import Loopback, answering, http

QUICK = Limits(timeout_s=5, attempts=1, wait_s=0, rest_s=5)
SECRET = "s3cr3t-of-the-house"


def upstream(server: Loopback, limits: Limits = QUICK, clock: FakeClock | None = None) -> Upstream:
    return Upstream(Origin.of(server.url), limits=limits, headers={"Authorization": SECRET}, clock=clock)


async def asked(answer: bytes, limits: Limits = QUICK) -> object:
    async with answering(answer) as server, upstream(server, limits) as client:
        return (await client.get("/x")).value


def failure(answer: bytes, limits: Limits = QUICK) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        asyncio.run(asked(answer, limits))
    return caught.value


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
def test_a_redirect_to_another_origin_is_refused_and_never_followed(status: str) -> None:
    async def scenario() -> None:
        async with answering(http("{}")) as other:
            away = http("", status, location=f"{other.url}/x")
            async with answering(away) as server, upstream(server) as client:
                with pytest.raises(NotAllowed):
                    await client.get("/x")
                with pytest.raises(NotAllowed):
                    await client.post_form("/x", [("p", SECRET)])
            assert other.requests == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "//169.254.169.254/latest",
        "https://127.0.0.1/x",  # another scheme and port of the same host
        "http://127.0.0.1@evil.example/x",
        "http://user:pw@{authority}/x",
        "file:///etc/passwd",
        "gopher://127.0.0.1/x",
        "http://[::ffff:169.254.169.254]/",
    ],
)
def test_a_redirect_to_anything_but_the_same_origin_is_refused(location: str) -> None:
    async def scenario() -> None:
        async def answer(_: str, writer: asyncio.StreamWriter) -> None:
            authority = "{}:{}".format(*writer.get_extra_info("sockname"))
            writer.write(http("", "302 Found", location=location.format(authority=authority)))
            await writer.drain()

        async with answering(answer) as server, upstream(server) as client:
            with pytest.raises((NotAllowed, BadAnswer)):
                await client.get("/x")
            assert len(server.requests) == 1

    asyncio.run(scenario())


def test_a_redirect_within_the_origin_is_followed_with_the_credentials() -> None:
    async def scenario() -> None:
        async with (
            answering(http("", "301 Moved", location="/y/"), http('{"a":1}')) as server,
            upstream(server) as client,
        ):
            assert (await client.get("/x")).value == {"a": 1}
            assert server.requests[1].startswith("GET /y/ ")
            assert SECRET in server.requests[1]

    asyncio.run(scenario())


def test_redirects_without_end_end() -> None:
    assert isinstance(failure(http("", "302 Found", location="/x")), BadAnswer)


def test_a_huge_body_is_left_unread_beyond_the_limit() -> None:
    sent = 0

    async def endless(_: str, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[")
        while True:
            writer.write(b" " * 65_536)
            await writer.drain()
            sent += 65_536

    async def scenario() -> None:
        async with answering(endless) as server, upstream(server, Limits(body_bytes_max=100_000, attempts=1)) as client:
            with pytest.raises(TooLarge):
                await client.get("/x")

    asyncio.run(scenario())
    # What the sockets of both sides hold, and no more.
    assert sent < 20_000_000


def test_a_body_that_drips_is_given_up_at_the_deadline_of_the_whole_request() -> None:
    async def drip(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[")
        while True:
            writer.write(b" ")  # each byte in time, the answer never
            await writer.drain()
            await asyncio.sleep(0.02)

    async def scenario() -> None:
        async with answering(drip) as server, upstream(server, Limits(timeout_s=0.3, attempts=1)) as client:
            with pytest.raises(UpstreamAway):
                await asyncio.wait_for(client.get("/x"), 10)

    asyncio.run(scenario())


def test_a_packed_answer_is_refused_before_it_can_swell() -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    assert isinstance(failure(http(bomb, content_encoding="gzip")), BadAnswer)


@pytest.mark.parametrize(
    "body",
    [
        "[" * 200_000,
        "[" * (JSON_DEPTH_MAX + 1) + "]" * (JSON_DEPTH_MAX + 1),
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        "NaN",
        '{"a":1e999}',
        "1" * 10_000,
        "",
        "<html>",
        b"\xff\xfe{}",
    ],
    ids=["open", "deep", "deep objects", "nan", "infinity", "digits", "empty", "html", "not utf-8"],
)
def test_json_that_is_a_bomb_or_none_is_a_bad_answer(body: str | bytes) -> None:
    assert isinstance(failure(http(body)), BadAnswer)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("401 Unauthorized", CredentialsRefused),
        ("403 Forbidden", CredentialsRefused),
        ("404 Not Found", NotOffered),
        ("405 Method Not Allowed", NotOffered),
        ("400 Bad Request", BadAnswer),
        ("429 Too Many Requests", UpstreamAway),
        ("500 Internal Server Error", ServerFailed),
        ("503 Service Unavailable", UpstreamAway),
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_an_error_status_decides_the_error(status: str, error: type[UpstreamError], content_type: str) -> None:
    assert type(failure(http('{"secret":"x"}', status, content_type=content_type))) is error


def test_no_error_quotes_what_the_server_said_or_what_it_was_told() -> None:
    hostile = 'quoted\r\nlevel=error msg="forged\u202e"'
    for answer in (
        http(f'{{"error":"{SECRET}"}}', "500 Oops"),
        http(hostile),
        http(hostile, "404 Not Found", content_type="text/plain"),
        http("", "302 Found", location=f"http://evil.example/{SECRET}"),
    ):
        message = str(failure(answer))
        assert SECRET not in message
        assert "quoted" not in message
        assert "evil" not in message


def test_what_may_pass_is_tried_again_and_what_may_not_is_not() -> None:
    patient = Limits(attempts=3, wait_s=0.001)

    async def scenario() -> None:
        async with answering(http("", "503 Busy"), http("", "500 Oops"), http("[1]")) as server:
            async with upstream(server, patient) as client:
                assert (await client.get("/x")).value == [1]
            assert len(server.requests) == 3
        async with answering(http("", "401 No"), http("[1]")) as server, upstream(server, patient) as client:
            with pytest.raises(CredentialsRefused):
                await client.get("/x")
            assert len(server.requests) == 1

    asyncio.run(scenario())


def test_a_server_that_is_away_is_left_alone_for_a_while() -> None:
    clock = FakeClock()

    async def scenario() -> None:
        async with answering(http("", "503 Busy"), http("[1]")) as server, upstream(server, clock=clock) as client:
            with pytest.raises(UpstreamAway):
                await client.get("/x")
            with pytest.raises(UpstreamAway) as known:
                await client.get("/x")
            assert known.value.retry_after_s
            assert len(server.requests) == 1
            clock.advance(5_001)
            assert (await client.get("/x")).value == [1]

    asyncio.run(scenario())


def test_the_time_a_server_asks_for_is_heard_and_bounded() -> None:
    heard = failure(http("", "429 Slow", retry_after="7"))
    assert isinstance(heard, UpstreamAway)
    assert heard.retry_after_s == 7
    for absurd, seconds in (("99999999", 3600.0), ("-5", 0.0), ("inf", None), ("soon", None)):
        away = failure(http("", "503 Busy", retry_after=absurd))
        assert isinstance(away, UpstreamAway)
        assert away.retry_after_s == seconds


def test_a_connection_that_is_cut_or_refused_is_away() -> None:
    async def cut(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
        await writer.drain()

    async def scenario() -> None:
        async with answering(cut) as server, upstream(server) as client:
            with pytest.raises(UpstreamAway):
                await client.get("/x")
        async with upstream(server) as client:  # nobody listens there any more
            with pytest.raises(UpstreamAway):
                await client.get("/x")

    asyncio.run(scenario())


def test_what_was_settled_is_not_sent_again_and_what_was_not_is() -> None:
    async def conditional(request: str, writer: asyncio.StreamWriter) -> None:
        known = 'if-none-match: w/"1"' in request.lower()
        writer.write(http("", "304 Not Modified", content_type="") if known else http("[1]", etag='W/"1"'))
        await writer.drain()

    async def scenario() -> None:
        async with answering(conditional) as server, upstream(server) as client:
            first = await client.get_changed("/x")
            client.unsettle()  # what was read got lost
            second = await client.get_changed("/x")
            assert not isinstance(first, NotModified)
            assert not isinstance(second, NotModified)
            client.settle()
            assert isinstance(await client.get_changed("/x"), NotModified)
            assert (await client.get("/x")).value == [1]

    asyncio.run(scenario())


def test_the_server_tells_its_own_time() -> None:
    async def scenario() -> int | None:
        async with (
            answering(http("[]", date="Sun, 29 Nov 2026 21:00:00 GMT")) as server,
            upstream(server) as client,
        ):
            return (await client.get("/x")).now_ms

    assert asyncio.run(scenario()) == 1_795_986_000_000


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert asyncio.run(asked(http("[1]"))) == [1]
