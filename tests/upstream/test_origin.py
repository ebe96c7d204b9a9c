"""The allow-list: which addresses an operator may name, and what a name may resolve to."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from streams.upstream.errors import NotAllowed, UpstreamAway
from streams.upstream.http import Limits, Upstream
from streams.upstream.origin import Origin, chosen_address
from tests.upstream.loopback import answering, http


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://192.168.1.5:8096", "http://192.168.1.5:8096"),
        ("https://media.example", "https://media.example:443"),
        ("http://nas.lan:4533/music/", "http://nas.lan:4533/music"),
        ("http://[fd00::5]:8096", "http://[fd00::5]:8096"),
        ("HTTP://NAS.lan", "http://nas.lan:80"),
        ("http://127.0.0.1:13378", "http://127.0.0.1:13378"),
    ],
)
def test_private_and_public_origins_may_be_configured(url: str, shown: str) -> None:
    assert str(Origin.of(url)) == shown


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "http://169.254.169.254:80/latest",
        "http://[fe80::1]:8096",
        "http://[fe80::1%25eth0]:8096",
        "http://[::ffff:169.254.169.254]",
        "http://[fd00:ec2::254]",
        "http://100.100.100.200",
        "http://0.0.0.0:8096",
        "http://0.1.2.3",
        "http://[::]:8096",
        "http://224.0.0.1",
        "http://255.255.255.255",
        "http://[ff02::1]",
        "ftp://nas.lan",
        "file:///etc/passwd",
        "nas.lan:8096",
        "http://",
        "http://user:pw@nas.lan",
        "http://nas.lan/?api_key=x",
        "http://nas.lan/#x",
        "http://nas.lan/../admin",
        "http://nas.lan:99999",
        "http://nas.lan/\r\nHost: evil",
        "http://nas lan",
        "http://nas.lan/" + "a" * 2_000,
        "http://[::1",
    ],
)
def test_addresses_where_no_media_server_is_are_refused(url: str) -> None:
    with pytest.raises(NotAllowed):
        Origin.of(url)


@pytest.mark.parametrize(
    "answer", [["169.254.169.254"], ["10.0.0.2", "169.254.169.254"], ["0.0.0.0"], ["::"], ["fe80::1"]]
)
def test_a_name_that_resolves_to_a_forbidden_address_is_refused(answer: list[str]) -> None:
    async def lying(host: str, port: int) -> list[str]:
        return answer

    with pytest.raises(NotAllowed):
        asyncio.run(chosen_address(Origin.of("http://nas.lan:8096"), lying))


@pytest.mark.parametrize("literal", ["http://0x7f000001", "http://2130706433", "http://127.1"])
def test_numbers_that_only_a_resolver_reads_as_addresses_are_checked_when_resolved(literal: str) -> None:
    async def as_systems_do(host: str, port: int) -> list[str]:
        return ["169.254.169.254"]

    with pytest.raises(NotAllowed):
        asyncio.run(chosen_address(Origin.of(literal), as_systems_do))


def test_an_unknown_name_is_a_server_that_is_away() -> None:
    async def unknown(host: str, port: int) -> list[str]:
        raise OSError("no such host")

    async def nothing(host: str, port: int) -> list[str]:
        return []

    for resolver in (unknown, nothing):
        with pytest.raises(UpstreamAway):
            asyncio.run(chosen_address(Origin.of("http://nas.lan:8096"), resolver))


def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """A name that changes its mind between the check and the connection gains nothing: it is asked once."""
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    async def scenario() -> None:
        async with answering(http("[1]")) as server:
            origin = Origin.of(f"http://nas.invalid:{server.port}")
            async with Upstream(origin, resolver=rebinding, limits=Limits(attempts=1)) as client:
                assert (await client.get("/x")).value == [1]
                with pytest.raises(NotAllowed):
                    await client.get("/x")
            assert len(server.requests) == 1
            assert f"host: nas.invalid:{server.port}" in server.requests[0].lower()

    asyncio.run(scenario())
    assert asked == ["nas.invalid", "nas.invalid"]


def test_only_the_same_scheme_host_and_port_are_the_same_origin() -> None:
    origin = Origin.of("https://media.example")
    assert origin.holds(httpx.URL("https://media.example/x"))
    assert origin.holds(httpx.URL("https://media.example:443/x"))
    for other in (
        "http://media.example/",
        "https://media.example:8443/",
        "https://media.example.evil/",
        "https://evil/",
    ):
        assert not origin.holds(httpx.URL(other))
