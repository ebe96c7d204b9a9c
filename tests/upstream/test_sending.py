"""What changes something on a server is said once, and is no answer's hostage."""

from __future__ import annotations

import asyncio

import pytest

from streams.runtime.clock import FakeClock
from streams.upstream.errors import NotAllowed, Resting, ServerFailed, UpstreamAway
from streams.upstream.http import Limits, Upstream
from streams.upstream.origin import Origin
from tests.upstream.loopback import answering, http

PATIENT = Limits(timeout_s=5, attempts=3, wait_s=0, rest_s=5)


async def send(*answers: bytes) -> tuple[object, list[str], Exception | None]:
    """The value, the requests that came, and what was raised."""
    async with (
        answering(*answers) as server,
        Upstream(Origin.of(server.url), limits=PATIENT, clock=FakeClock()) as client,
    ):
        try:
            value = (await client.send("PATCH", "/x", [("user", "a")], body={"at": 1.5})).value
        except Exception as exc:
            return None, server.requests, exc
        return value, server.requests, None


@pytest.mark.parametrize(
    ("answer", "value"),
    [(http("", "204 No Content"), None), (http("OK"), None), (http("<p>"), None), (http('{"a":1}'), {"a": 1})],
    ids=["nothing", "text", "html", "json"],
)
def test_any_good_answer_is_one(answer: bytes, value: object) -> None:
    got, requests, error = asyncio.run(send(answer))
    assert (got, error) == (value, None)
    assert requests[0].startswith("PATCH /x?user=a ")
    assert "content-type: application/json" in requests[0].lower()


@pytest.mark.parametrize("status", ["503 Service Unavailable", "500 Internal Server Error", "429 Too Many Requests"])
def test_it_is_never_said_again_by_itself(status: str) -> None:
    _, requests, error = asyncio.run(send(*[http("{}", status)] * 3))
    assert isinstance(error, UpstreamAway)
    assert len(requests) == 1


def test_it_follows_no_redirect() -> None:
    _, requests, error = asyncio.run(send(http("", "307 Temporary Redirect", location="/y"), http("{}")))
    assert isinstance(error, NotAllowed)
    assert len(requests) == 1


def test_one_thing_a_server_can_not_do_is_no_reason_to_ask_it_nothing_else() -> None:
    async def scenario() -> None:
        async with (
            answering(http("{}", "500 Internal Server Error"), http("{}"), http("{}", "503 Away")) as server,
            Upstream(Origin.of(server.url), limits=PATIENT, clock=FakeClock()) as client,
        ):
            with pytest.raises(ServerFailed):
                await client.send("POST", "/x")
            await client.send("POST", "/y")
            with pytest.raises(UpstreamAway):
                await client.send("POST", "/z")
            with pytest.raises(Resting):
                await client.send("POST", "/z")
            assert len(server.requests) == 3

    asyncio.run(scenario())
