"""Push channels of hostile and broken servers: where connections go, how much is read and how fast, how they end."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pytest
from aiohttp import WSMsgType, web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from streams.upstream import socketio, sockets
from streams.upstream.errors import (
    BadAnswer,
    CredentialsRefused,
    NotAllowed,
    NotOffered,
    TooLarge,
    UpstreamAway,
    UpstreamError,
)
from streams.upstream.http import Limits, Upstream
from streams.upstream.jellyfin import Jellyfin
from streams.upstream.origin import Origin
from streams.upstream.socketio import Event
from streams.upstream.sockets import Socket, SocketLimits
from tests.upstream.loopback import answering, http

SECRET = "s3cr3t-of-the-house"
QUICK = SocketLimits(timeout_s=5, message_bytes_max=10_000)
Talk: TypeAlias = Callable[[web.WebSocketResponse], Awaitable[None]]


def upstream(url: str, limits: SocketLimits = QUICK) -> Upstream:
    return Upstream(Origin.of(url), headers={"Authorization": SECRET}, limits=Limits(socket=limits))


@asynccontextmanager
async def talking(
    talk: Talk, *, autoping: bool = True, autoclose: bool = True, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """The address of a server whose ``/socket`` says what ``talk`` says."""

    async def handle(request: web.Request) -> web.WebSocketResponse:
        connection = web.WebSocketResponse(autoping=autoping, autoclose=autoclose)
        await connection.prepare(request)
        try:
            await talk(connection)
        except ConnectionError:
            pass  # the client has heard enough
        return connection

    app = web.Application()
    app.router.add_get("/socket", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    """A server's, with a certificate for media.example that nobody vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "media.example")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("media.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "certificate.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(secret + certificate.public_bytes(Encoding.PEM))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    return context


async def failure_of(client: Upstream) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        async with client, client.socket("/socket") as connection:
            await connection.receive()
    return caught.value


def told(talk: Talk, limits: SocketLimits = QUICK, *, autoping: bool = True) -> UpstreamError:
    """How a connection ends whose server says what ``talk`` says, and it is not what anybody wants to hear."""

    async def scenario() -> UpstreamError:
        async with talking(talk, autoping=autoping) as url:
            return await asyncio.wait_for(failure_of(upstream(url, limits)), 20)

    return asyncio.run(scenario())


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize("within", [False, True])
def test_a_redirect_is_refused_and_never_followed(status: str, within: bool) -> None:
    async def scenario() -> None:
        async with answering(http("{}")) as other:
            location = "/y" if within else f"{other.url}/socket"
            async with answering(http("", status, location=location)) as server:
                error = await failure_of(upstream(server.url))
                assert isinstance(error, NotAllowed)
                assert len(server.requests) == 1
            assert other.requests == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("200 OK", NotOffered),
        ("400 Bad Request", NotOffered),
        ("401 Unauthorized", CredentialsRefused),
        ("403 Forbidden", CredentialsRefused),
        ("404 Not Found", NotOffered),
        ("429 Too Many Requests", UpstreamAway),
        ("500 Internal Server Error", UpstreamAway),
        ("503 Service Unavailable", UpstreamAway),
    ],
)
def test_a_status_that_opens_no_websocket_decides_the_error(status: str, error: type[UpstreamError]) -> None:
    async def scenario() -> None:
        async with answering(http(f'{{"quoted":"{SECRET}"}}', status)) as server:
            found = await failure_of(upstream(server.url))
            assert type(found) is error
            assert SECRET not in str(found)
            assert SECRET in server.requests[0]
            assert SECRET not in server.requests[0].splitlines()[0]

    asyncio.run(scenario())


def test_a_handshake_for_somebody_else_is_none() -> None:
    forged = b"HTTP/1.1 101 Switching\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: x\r\n\r\n"

    async def scenario() -> None:
        async with answering(forged) as server:
            assert isinstance(await failure_of(upstream(server.url)), NotOffered)

    asyncio.run(scenario())


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 101 Switching\r\nx: "])
def test_a_handshake_that_never_ends_is_given_up(head: bytes) -> None:
    async def drip(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            if head:
                writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    async def scenario() -> None:
        async with answering(drip) as server:
            error = await failure_of(upstream(server.url, SocketLimits(timeout_s=0.3)))
            assert isinstance(error, UpstreamAway)

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_nobody_listening_is_away() -> None:
    async def scenario() -> None:
        async with answering(http("")) as server:
            pass
        assert isinstance(await failure_of(upstream(server.url)), UpstreamAway)

    asyncio.run(scenario())


@pytest.mark.parametrize("addresses", [["169.254.169.254"], ["127.0.0.1", "169.254.169.254"], ["::"], []])
def test_a_name_that_resolves_to_where_no_server_is_is_never_connected_to(addresses: list[str]) -> None:
    async def resolver(host: str, port: int) -> list[str]:
        return addresses

    async def scenario() -> None:
        client = Upstream(Origin.of("http://media.example"), resolver=resolver)
        assert isinstance(await failure_of(client), NotAllowed if addresses else UpstreamAway)

    asyncio.run(scenario())


def test_a_name_is_looked_up_once_and_the_connection_goes_to_what_was_checked() -> None:
    looked_up: list[str] = []

    async def resolver(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return ["127.0.0.1"] if len(looked_up) == 1 else ["169.254.169.254"]

    async def hello(connection: web.WebSocketResponse) -> None:
        await connection.send_str("hello")

    async def scenario() -> None:
        async with talking(hello) as url:
            named = url.replace("127.0.0.1", "media.example")
            async with Upstream(Origin.of(named), resolver=resolver) as client, client.socket("/socket") as connection:
                assert await connection.receive() == "hello"
        assert looked_up == ["media.example"]

    asyncio.run(scenario())


def test_a_certificate_that_nobody_vouches_for_is_refused_unless_the_operator_said_so(tls: ssl.SSLContext) -> None:
    async def resolver(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async def hello(connection: web.WebSocketResponse) -> None:
        await connection.send_str("hello")

    async def scenario() -> None:
        async with talking(hello, tls=tls) as url:
            origin = Origin.of(url.replace("127.0.0.1", "media.example"))
            assert isinstance(await failure_of(Upstream(origin, resolver=resolver)), UpstreamAway)
            lenient = Upstream(origin, resolver=resolver, verify_tls=False)
            async with lenient as client, client.socket("/socket") as connection:
                assert await connection.receive() == "hello"

    asyncio.run(scenario())


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "WS_PROXY", "ws_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async def hello(connection: web.WebSocketResponse) -> None:
        await connection.send_str("hello")

    async def scenario() -> None:
        async with talking(hello) as url, upstream(url) as client, client.socket("/socket") as connection:
            assert await connection.receive() == "hello"

    asyncio.run(scenario())


def test_a_message_over_the_limit_ends_the_connection() -> None:
    async def oversized(connection: web.WebSocketResponse) -> None:
        await connection.send_str("x" * 10_001)
        await connection.receive()

    assert isinstance(told(oversized), TooLarge)


def test_a_message_in_endless_parts_ends_at_the_limit() -> None:
    sent = 0

    async def endless(connection: web.WebSocketResponse) -> None:
        nonlocal sent
        request = connection._req
        assert request is not None
        assert request.transport is not None
        request.transport.write(b"\x01\x01x")  # the first part of a text
        while not request.transport.is_closing():
            request.transport.write(b"\x00\x7e\x10\x00" + b"x" * 4_096)  # one more, and never the last
            sent += 4_096
            await asyncio.sleep(0)

    assert isinstance(told(endless), TooLarge)
    assert sent < 20_000_000


@pytest.mark.parametrize("frame", [b"\x71\x01x", b"\x03\x00", b"\x81\x02\xff\xff", b"\x00\x01x"])
def test_what_is_no_websocket_ends_the_connection(frame: bytes) -> None:
    async def garbage(connection: web.WebSocketResponse) -> None:
        assert connection._req is not None
        assert connection._req.transport is not None
        connection._req.transport.write(frame)
        await connection.receive()

    assert isinstance(told(garbage), BadAnswer)


def test_a_server_that_ends_the_connection_is_away() -> None:
    async def leave(connection: web.WebSocketResponse) -> None:
        await connection.close()

    assert isinstance(told(leave), UpstreamAway)


def test_a_server_that_answers_no_ping_is_away() -> None:
    async def dead(connection: web.WebSocketResponse) -> None:
        await asyncio.sleep(60)

    assert isinstance(told(dead, SocketLimits(heartbeat_s=0.2), autoping=False), UpstreamAway)


def test_pings_are_answered_and_what_is_no_text_is_left_out() -> None:
    async def ping(connection: web.WebSocketResponse) -> None:
        await connection.send_bytes(b"\x00" * 100)
        await connection.ping(b"there?")
        answer = await connection.receive()
        assert (answer.type, bytes(answer.data)) == (WSMsgType.PONG, b"there?")
        await connection.send_str("now")
        await connection.receive()

    async def scenario() -> None:
        async with (
            talking(ping, autoping=False) as url,
            upstream(url) as client,
            client.socket("/socket") as connection,
        ):
            assert await asyncio.wait_for(connection.receive(), 20) == "now"

    asyncio.run(scenario())


def test_silence_is_no_message_and_loses_none() -> None:
    async def slowly(connection: web.WebSocketResponse) -> None:
        for number in range(5):
            await asyncio.sleep(0.05)
            await connection.send_str(str(number))
        await connection.receive()

    async def scenario() -> list[str | None]:
        heard: list[str | None] = []
        async with talking(slowly) as url, upstream(url) as client, client.socket("/socket") as connection:
            while len([text for text in heard if text is not None]) < 5:
                heard.append(await connection.receive(0.02))
        return heard

    heard = asyncio.run(asyncio.wait_for(scenario(), 20))
    assert None in heard
    assert [text for text in heard if text is not None] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("size", [1, 9_000])
def test_a_flood_waits_in_the_network_and_is_read_at_our_pace(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "BYTES_PER_S", 450_000)
    sent = heard = 0

    async def flood(connection: web.WebSocketResponse) -> None:
        nonlocal sent
        while True:
            await connection.send_str("x" * size)
            sent += 1
            await asyncio.sleep(0)  # both sides are in this loop

    async def scenario() -> float:
        nonlocal heard
        loop = asyncio.get_running_loop()
        async with talking(flood) as url, upstream(url) as client, client.socket("/socket") as connection:
            began = loop.time()
            while loop.time() < began + 1.5:
                await connection.receive()
                heard += 1
            return loop.time() - began

    took_s = asyncio.run(asyncio.wait_for(scenario(), 30))
    assert 50 <= heard <= 50 * (took_s + 1) + 1
    if size > 1:
        assert sent * size < 20_000_000, "what the buffers of both sides hold, and no more"


@pytest.mark.parametrize("floods", [False, True])
def test_leaving_does_not_wait_for_a_server_that_never_says_goodbye(floods: bool) -> None:
    gone = asyncio.Event()

    async def stubborn(connection: web.WebSocketResponse) -> None:
        try:
            while True:
                await connection.send_str("x")
                await asyncio.sleep(0 if floods else 0.05)
        finally:
            gone.set()

    async def scenario() -> None:
        async with talking(stubborn, autoclose=False) as url, upstream(url) as client:
            async with client.socket("/socket") as connection:
                await connection.receive()
            await gone.wait()

    asyncio.run(asyncio.wait_for(scenario(), 20))


async def without_end(connection: Socket) -> None:
    while True:
        await connection.send("x")
        await asyncio.sleep(0.01)


def test_what_is_sent_to_a_server_that_is_gone_is_away() -> None:
    async def leave(connection: web.WebSocketResponse) -> None:
        assert connection._req is not None
        assert connection._req.transport is not None
        connection._req.transport.abort()

    async def scenario() -> None:
        async with talking(leave) as url, upstream(url) as client, client.socket("/socket") as connection:
            with pytest.raises(UpstreamAway):
                await without_end(connection)

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_jellyfin_is_told_that_somebody_listens_as_often_as_it_wants() -> None:
    heard: list[str] = []
    enough = asyncio.Event()

    async def demanding(connection: web.WebSocketResponse) -> None:
        await connection.send_json({"MessageType": "ForceKeepAlive", "Data": 2})
        async for message in connection:
            heard.append(json.loads(message.data)["MessageType"])
            await connection.send_json({"MessageType": "KeepAlive"})
            if heard.count("KeepAlive") == 3:
                enough.set()

    async def scenario() -> None:
        async with (
            talking(demanding) as url,
            upstream(url) as client,
            Jellyfin(client).listen(sessions=True) as messages,
        ):
            listening = asyncio.ensure_future(anext(aiter(messages)))
            await enough.wait()
            assert not listening.done(), "keeping alive is nobody's news"
            listening.cancel()
            await asyncio.wait({listening})

    asyncio.run(asyncio.wait_for(scenario(), 20))
    assert heard[:4] == ["SessionsStart", "KeepAlive", "KeepAlive", "KeepAlive"]


class Said(Socket):
    """A connection on which all of this is said."""

    def __init__(self, *texts: str) -> None:
        self.left = list(texts)
        self.sent: list[str] = []

    async def receive(self, within_s: float | None = None) -> str | None:
        if not self.left:
            raise UpstreamAway("all was said")
        return self.left.pop(0)

    async def send(self, text: str) -> None:
        self.sent.append(text)


def heard(said: Said, error: type[UpstreamError] = UpstreamAway) -> list[Event]:
    found: list[Event] = []

    async def scenario() -> None:
        async for event in socketio.events(said):
            found.append(event)  # noqa: PERF401 - it ends with an error, and what came before counts

    with pytest.raises(error):
        asyncio.run(scenario())
    return found


def test_socket_io_events_are_read_and_pings_answered() -> None:
    said = Said('0{"sid":"x","pingInterval":25000}', '40{"sid":"y"}', '42["init",{"a":1},2]', "2", '42["alone"]')
    assert heard(said) == [Event("connect"), Event("init", {"a": 1}), Event("alone")]
    assert said.sent == ["40", "3"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "4", "9", "45", '451-["x",{"_placeholder":true,"num":0}]', "42", "42{}", "42[]", "42[1]"),
        *('42["connect"]', "42[" + "[" * 100_000, '42/other,["x"]', "42NaN", "\u202e", "b" * 1_000),
    ],
)
def test_what_socket_io_never_said_is_one_unreadable_message(text: str) -> None:
    said = Said(text, '42["after"]')
    assert heard(said) == [Event(""), Event("after")]
    assert said.sent == []


@pytest.mark.parametrize(
    ("text", "error"), [("1", UpstreamAway), ("41", UpstreamAway), ('44{"message":"x"}', CredentialsRefused)]
)
def test_socket_io_ends_when_it_says_so(text: str, error: type[UpstreamError]) -> None:
    said = Said(text, '42["after"]')
    assert heard(said, error) == []
    assert len(said.left) == 1


def test_an_event_with_a_number_to_answer_to_is_an_event() -> None:
    assert heard(Said('4217["x",1]')) == [Event("x", 1)]
    assert socketio.event("auth", 'a"b') == '42["auth", "a\\"b"]'
