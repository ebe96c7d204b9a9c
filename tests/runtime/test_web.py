"""The web layer: every error a problem, limits before work, nothing secret in answers, logs or metrics."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import structlog
from fastapi import Depends, FastAPI, Request

from streams.runtime import logs
from streams.runtime.clock import FakeClock
from streams.runtime.edge import Limits
from streams.runtime.errors import Permanent, Unavailable
from streams.runtime.rates import Rates
from streams.runtime.tokens import Authenticator, Principal, Scope, hash_of
from streams.runtime.web import Check, Guard, build_app, correlation_id
from tests.ingest.fakes import FakeTokens, token


def app(limits: Limits | None = None, checks: dict[str, Check] | None = None) -> FastAPI:
    made = build_app("test", limits=limits, checks=checks)

    @made.post("/echo/{secret}")
    async def echo(secret: str, request: Request) -> dict[str, Any]:
        return {"bytes": len(await request.body()), "correlation_id": correlation_id(request)}

    @made.get("/number/{n}")
    async def number(n: int) -> int:
        return n

    @made.get("/burst")
    async def burst() -> None:
        raise RuntimeError("canary-in-exception")

    @made.get("/away")
    async def away() -> None:
        raise Unavailable("canary-in-unavailable", retry_after_s=7)

    @made.get("/never")
    async def never() -> None:
        raise Permanent("canary-in-permanent", cause="bad_thing")

    return made


def call(made: FastAPI, method: str, path: str, **options: Any) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(made, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://web") as client:
            return await client.request(method, path, **options)

    return asyncio.run(send())


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What a configured process writes to its log."""
    root, level = logging.getLogger(), logging.getLogger().level
    handlers, before = root.handlers[:], structlog.get_config()
    stream = io.StringIO()
    logs.configure("test", level="DEBUG", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**before)


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/nothing/here", 404, "not_found"),
        ("GET", "/echo/x", 405, "method_not_allowed"),
        ("GET", "/number/canary", 422, "invalid_request"),
        ("GET", "/burst", 500, "internal"),
        ("GET", "/away", 503, "unavailable"),
        ("GET", "/never", 422, "bad_thing"),
    ],
)
def test_every_error_is_a_problem_that_echoes_nothing(method: str, path: str, status: int, kind: str) -> None:
    answer = call(app(), method, path)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")
    document = answer.json()
    assert (document["type"], document["status"]) == (f"urn:playhead:problem:{kind}", status)
    assert document["title"]
    assert document["detail"]
    assert "canary" not in answer.text
    assert answer.headers["X-Correlation-Id"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_unavailable_says_when_to_come_back() -> None:
    assert call(app(), "GET", "/away").headers["Retry-After"] == "7"
    assert call(app(), "GET", "/echo/x").headers["Allow"] == "POST"


@pytest.mark.parametrize("sane", ["abc", "A-1.b_c:d", "x" * 64])
def test_a_sane_correlation_id_is_kept(sane: str) -> None:
    answer = call(app(), "POST", "/echo/x", headers={"X-Correlation-Id": sane})
    assert answer.headers["X-Correlation-Id"] == answer.json()["correlation_id"] == sane


@pytest.mark.parametrize("odd", ["", "x" * 65, "a b", "a\u00ffb", "<script>", "-a"])
def test_an_odd_correlation_id_is_replaced(odd: str) -> None:
    answer = call(app(), "POST", "/echo/x", headers={"X-Correlation-Id": odd.encode("latin-1")})
    assert answer.headers["X-Correlation-Id"] == answer.json()["correlation_id"] != odd
    assert len(answer.headers["X-Correlation-Id"]) == 32


def test_a_body_at_the_limit_passes_and_one_byte_more_is_413() -> None:
    made = app(Limits(body_bytes_max=1000))
    assert call(made, "POST", "/echo/x", content=b"x" * 1000).json()["bytes"] == 1000
    answer = call(made, "POST", "/echo/x", content=b"x" * 1001)
    assert (answer.status_code, answer.headers["Connection"]) == (413, "close")


def test_a_chunked_body_is_counted_as_it_comes() -> None:
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 100
            yield b"x" * 100

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app(Limits(body_bytes_max=1000)))
        async with httpx.AsyncClient(transport=transport, base_url="http://web") as client:
            return await client.post("/echo/x", content=chunks())

    answer = asyncio.run(send())
    assert (answer.status_code, answer.headers["Content-Type"]) == (413, "application/problem+json")
    assert sent <= 1200


def test_a_body_that_does_not_come_is_408() -> None:
    async def stuck() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app(Limits(body_timeout_s=0.05)))
        async with httpx.AsyncClient(transport=transport, base_url="http://web") as client:
            return await client.post("/echo/x", content=stuck())

    assert asyncio.run(send()).status_code == 408


@pytest.mark.parametrize("length", ["-1", "1e3", "9" * 5000, "١"])
def test_a_length_that_is_no_small_number_is_refused_unread(length: str) -> None:
    answer = call(app(), "POST", "/echo/x", headers={"Content-Length": length.encode()}, content=b"x")
    assert answer.status_code in {400, 413}


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate, gzip", "x"])
def test_encoded_bodies_are_not_unpacked(encoding: str) -> None:
    answer = call(app(), "POST", "/echo/x", content=b"x", headers={"Content-Encoding": encoding})
    assert (answer.status_code, answer.headers["Content-Type"]) == (415, "application/problem+json")


def test_over_the_places_there_is_503_at_once_and_health_still_answers() -> None:
    made = app(Limits(requests_at_once_max=1))
    inside, leave = asyncio.Event(), asyncio.Event()

    @made.get("/slow")
    async def slow() -> str:
        inside.set()
        await leave.wait()
        return "done"

    async def scene() -> None:
        transport = httpx.ASGITransport(made)
        async with httpx.AsyncClient(transport=transport, base_url="http://web") as client:
            first = asyncio.create_task(client.get("/slow"))
            await inside.wait()
            busy = await client.get("/number/1")
            assert (busy.status_code, busy.headers["Retry-After"]) == (503, "1")
            assert (await client.get("/healthz")).status_code == 200
            leave.set()
            assert (await first).status_code == 200
            assert (await client.get("/number/1")).status_code == 200

    asyncio.run(scene())


def test_one_token_with_too_many_requests_at_once_gets_429_and_others_go_on() -> None:
    tokens = FakeTokens()
    for letter in "ab":
        tokens.rows[hash_of(token(letter))] = Principal(letter, "home", frozenset({Scope.READ}))
    guard = Guard(Authenticator(tokens, FakeClock()), at_once_max=1)
    made = build_app("test")
    inside, leave = asyncio.Event(), asyncio.Event()

    @made.get("/slow", dependencies=[Depends(guard("read"))])
    async def slow() -> str:
        inside.set()
        await leave.wait()
        return "done"

    @made.get("/quick", dependencies=[Depends(guard("read"))])
    async def quick() -> str:
        return "done"

    async def scene() -> None:
        transport = httpx.ASGITransport(made)
        async with httpx.AsyncClient(transport=transport, base_url="http://web") as client:
            a, b = ({"Authorization": f"Bearer {token(letter)}"} for letter in "ab")
            first = asyncio.create_task(client.get("/slow", headers=a))
            await inside.wait()
            refused = await client.get("/quick", headers=a)
            assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
            assert (await client.get("/quick", headers=b)).status_code == 200
            leave.set()
            await first
            assert (await client.get("/quick", headers=a)).status_code == 200

    asyncio.run(scene())


def test_without_a_valid_token_all_get_one_answer() -> None:
    guard = Guard(Authenticator(FakeTokens(), FakeClock()))
    made = build_app("test")

    @made.get("/closed", dependencies=[Depends(guard("read"))])
    async def closed() -> str:
        return "in"

    answers = [
        call(made, "GET", "/closed", headers=headers)
        for headers in (
            {},
            {"Authorization": ""},
            {"Authorization": "Bearer"},
            {"Authorization": "Basic eDp5"},
            {"Authorization": f"Bearer {token('x')}"},
            {"Authorization": f"Bearer {token('x')} "},
        )
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1
    assert {answer.headers["WWW-Authenticate"] for answer in answers} == {'Bearer realm="playhead"'}


def test_ready_only_when_every_dependency_is() -> None:
    async def there() -> None: ...

    async def away() -> None:
        raise Unavailable("canary")

    async def odd() -> None:
        raise RuntimeError("canary")

    answer = call(app(checks={"a": there}), "GET", "/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready", "checks": {"a": "ok"}})
    answer = call(app(checks={"a": there, "b": away, "c": odd}), "GET", "/readyz")
    assert (answer.status_code, answer.json()["checks"]) == (503, {"a": "ok", "b": "away", "c": "failed"})
    assert "canary" not in answer.text
    assert answer.headers["Retry-After"]


def test_many_asking_whether_all_is_ready_ask_the_dependencies_once() -> None:
    asked = 0

    async def check() -> None:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.01)

    async def scene() -> None:
        transport = httpx.ASGITransport(app(checks={"a": check}))
        async with httpx.AsyncClient(transport=transport, base_url="http://web") as client:
            await asyncio.gather(*(client.get("/readyz") for _ in range(20)))

    asyncio.run(scene())
    assert asked == 1


def test_metrics_are_prometheus_text_and_routes_are_named_as_declared() -> None:
    made = app()
    call(made, "POST", "/echo/canary-path", content=b"x")
    text = call(made, "GET", "/metrics").text
    assert 'playhead_request_seconds_count{route="POST /echo/{secret}",status="200"}' in text
    assert "canary" not in text


def test_an_access_line_names_the_route_and_no_path_query_or_body(log: io.StringIO) -> None:
    made = app()
    call(made, "POST", "/echo/canary-path?q=canary-query", content=b"canary-body", headers={"X-Correlation-Id": "c-1"})
    call(made, "GET", "/canary-unmatched")
    call(made, "GET", "/burst?x=canary-query")
    text = log.getvalue()
    lines = [json.loads(line) for line in text.splitlines()]
    access = [line for line in lines if line["event"] == "request"]
    assert [(a["method"], a["route"], a["status"]) for a in access] == [
        ("POST", "/echo/{secret}", 200),
        ("GET", "unmatched", 404),
        ("GET", "/burst", 500),
    ]
    assert access[0]["correlation_id"] == "c-1"
    assert "canary" not in text
    [error] = [line for line in lines if line["event"] == "unexpected error"]
    assert error["error_class"] == "RuntimeError"
    assert any("burst" in place for place in error["at"])
    assert error["correlation_id"] == access[2]["correlation_id"]


def test_pages_that_load_scripts_from_elsewhere_are_off_and_the_description_is_there() -> None:
    made = app()
    assert call(made, "GET", "/docs").status_code == 404
    assert call(made, "GET", "/redoc").status_code == 404
    assert call(made, "GET", "/openapi.json").json()["openapi"].startswith("3.")


def test_an_address_that_sends_too_much_gets_429_with_retry_after_and_health_still_answers() -> None:
    made = app(Limits(per_address_s=0.01))

    async def ask(address: str, path: str = "/number/1") -> httpx.Response:
        transport = httpx.ASGITransport(made, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://web") as client:
            return await client.get(path)

    async def scene() -> list[httpx.Response]:
        return [
            await ask("192.0.2.1"),
            await ask("192.0.2.1"),
            await ask("192.0.2.2"),
            await ask("2001:db8::1"),
            await ask("2001:db8::2"),
            await ask("192.0.2.1", "/healthz"),
        ]

    answers = asyncio.run(scene())
    assert [answer.status_code for answer in answers] == [200, 429, 200, 200, 429, 200]
    assert int(answers[1].headers["Retry-After"]) >= 1
    assert answers[1].headers["content-type"] == "application/problem+json"
    assert "192.0.2.1" not in answers[1].text


def test_a_token_that_sends_too_much_gets_429_and_the_others_go_on() -> None:
    store = FakeTokens()
    for letter in "ab":
        store.rows[hash_of(token(letter))] = Principal(letter, "home", frozenset({Scope.REPORT}))
    clock = FakeClock()
    guard = Guard(Authenticator(store, clock), rates=Rates(clock, 0.5))
    made = build_app("test")

    holder = Depends(guard(Scope.REPORT))

    @made.get("/mine")
    async def mine(principal: Principal = holder) -> str:
        return principal.token_id

    def ask(letter: str) -> httpx.Response:
        return call(made, "GET", "/mine", headers={"Authorization": f"Bearer {token(letter)}"})

    answers = [ask("a"), ask("a"), ask("b")]
    assert [answer.status_code for answer in answers] == [200, 429, 200]
    assert answers[1].headers["Retry-After"] == "2"
    clock.advance(2_000)
    assert ask("a").status_code == 200
