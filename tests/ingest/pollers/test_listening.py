"""Push channels: news makes a poll at once and each change is one report; without them the interval goes on."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from streams.ingest.pollers import Result, Scheduler
from streams.ingest.pollers.jellyfin import PLAYED, RESUMABLE, Heard
from streams.ingest.pollers.listening import wait_after
from streams.ingest.pollers.news import EVERYTHING, News
from streams.ingest.pollers.statements import PLAYING
from streams.runtime import logs, metrics
from streams.runtime.upstreams import Account, UpstreamEntry
from streams.upstream.errors import (
    BadAnswer,
    CredentialsRefused,
    NotAllowed,
    NotOffered,
    TooLarge,
    UpstreamAway,
    UpstreamError,
)
from streams.upstream.http import Limits
from streams.upstream.jellyfin import Message
from streams.upstream.sockets import SocketLimits
from tests.ingest.fakes import HASH_KEY
from tests.ingest.pollers.lab import MINUTE, Lab, scene, summary
from tests.ingest.pollers.servers import audiobookshelf, jellyfin
from tests.ingest.pollers.servers.audiobookshelf import FakeAudiobookshelf
from tests.ingest.pollers.servers.jellyfin import ANA, BEN, FakeJellyfin
from tests.ingest.pollers.servers.pushing import AudiobookshelfSocket, JellyfinSocket, pushing
from tests.ingest.pollers.test_schedule import Configured, until

FILM, SHOW = "a" * 32, "b" * 32
HOUR = 60 * MINUTE
KEY = Account("", "api_key", jellyfin.TOKEN)
PERSON = Account("ana", "api_key", audiobookshelf.TOKEN)
HOSTILE = 'x"\r\n{"level":"error","event":"forged"}\u202e\x1b[31m'


def rarely(low: float, high: float) -> float:
    """A chance by which polls for their time's sake are hours apart, and back-offs as short as they may be."""
    return 1_000.0 if low else 0.01


def often(low: float, high: float) -> float:
    """A chance by which everything is soon."""
    return 0.01


@dataclass
class Listening:
    """``results``: of every poll; ``at``: when each was over, s."""

    results: list[Result] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, result: Result) -> None:
        self.results.append(result)
        self.at.append(asyncio.get_running_loop().time())

    async def polled(self) -> None:
        """Return when a poll that is not under way yet is over."""
        before = len(self.results)
        await until(lambda: len(self.results) > before)


@asynccontextmanager
async def listening(
    lab: Lab,
    url: str,
    kind: str,
    *accounts: Account,
    chance: Callable[[float, float], float] = rarely,
    news_every_s: float = 0.05,
    socket: SocketLimits | None = None,
    interval_s: int = 1,
    sockets: bool = True,
) -> AsyncIterator[Listening]:
    """The source is polled and listened to, as long as it is entered."""
    found = Listening()
    scheduler = Scheduler(
        Configured(UpstreamEntry("home", kind, url, interval_s, True, accounts)),
        lab.world.door,
        lab.store,
        HASH_KEY,
        lab.clock,
        on_result=found.note,
        chance=chance,
        sockets=sockets,
        news_every_s=news_every_s,
        limits=Limits(attempts=1, rest_s=0, socket=socket or SocketLimits()),
    )
    task = asyncio.create_task(scheduler.run(found.stop))
    try:
        yield found
    finally:
        found.stop.set()
        await asyncio.wait_for(task, 20)


@asynccontextmanager
async def jellyfin_home(lab: Lab, **how: object) -> AsyncIterator[tuple[FakeJellyfin, JellyfinSocket, Listening]]:
    """Polled, listened to, and synchronised once."""
    fake = FakeJellyfin(lab.clock, {FILM: HOUR, SHOW: HOUR})
    channel = JellyfinSocket(fake)
    async with (
        pushing(fake.app, channel) as url,
        listening(lab, url, "jellyfin", KEY, **how) as found,  # type: ignore[arg-type]
    ):
        await until(lambda: len(found.results) >= 2 and bool(channel.subscribed))
        yield fake, channel, found


@asynccontextmanager
async def shelf_home(
    lab: Lab, **how: object
) -> AsyncIterator[tuple[FakeAudiobookshelf, AudiobookshelfSocket, Listening]]:
    fake = FakeAudiobookshelf(lab.clock, {"book": 3_600.0, "talk": 600.0})
    channel = AudiobookshelfSocket(fake)
    async with (
        pushing(fake.app, channel) as url,
        listening(lab, url, "audiobookshelf", PERSON, **how) as found,  # type: ignore[arg-type]
    ):
        await until(lambda: len(found.results) >= 2 and bool(channel.people))
        yield fake, channel, found


def heard(kind: str, what: str) -> float:
    return metrics.REGISTRY.get_sample_value("playhead_poll_messages_total", {"kind": kind, "what": what}) or 0.0


def open_now(kind: str) -> float:
    return metrics.REGISTRY.get_sample_value("playhead_poll_sockets", {"kind": kind}) or 0.0


def ended(kind: str, cause: str) -> float:
    labels = {"kind": kind, "cause": cause}
    return metrics.REGISTRY.get_sample_value("playhead_poll_sockets_ended_total", labels) or 0.0


# -- news -------------------------------------------------------------------------------------------------------


def test_what_a_device_does_is_reported_when_the_server_says_so_and_once() -> None:
    async def play(lab: Lab) -> None:
        async with jellyfin_home(lab) as (fake, channel, found):
            fake.start(ANA, FILM)
            await channel.tell_sessions()
            await until(lambda: summary(lab.world.reported()) == [(FILM, "progress", 0)])
            await until(lambda: found.results[-1].polled.reports == 1)
            lab.clock.advance(5 * MINUTE)
            fake.progress(ANA, 5 * MINUTE, paused=True)
            before = len(fake.requests)
            await channel.tell_sessions()
            await found.polled()
            assert summary(lab.world.reported())[1:] == [(FILM, "pause", 5 * MINUTE)]
            assert set(fake.requests[before:]) == {"/Sessions"}, "only devices are asked after a word of a device"
            fake.stop(ANA, 6 * MINUTE)
            await channel.tell_sessions()
            await found.polled()
            assert (FILM, "stop", 6 * MINUTE) in summary(lab.world.reported())
            told = list(lab.world.reported())

            # The same again is no news; news of what is known is a poll without a report.
            nothing, polls = heard("jellyfin", "nothing"), len(found.results)
            await channel.tell_sessions()
            await until(lambda: heard("jellyfin", "nothing") == nothing + 1)
            assert len(found.results) == polls
            await channel.tell_user_data(ANA, FILM)
            await found.polled()
            assert lab.world.reported() == told
            assert open_now("jellyfin") == 1
        assert open_now("jellyfin") == 0

    scene(play)


def test_user_data_that_changed_is_read_and_devices_are_not() -> None:
    async def play(lab: Lab) -> None:
        async with jellyfin_home(lab) as (fake, channel, found):
            fake.tick(BEN, SHOW, played=True)
            before = len(fake.requests)
            await channel.tell_user_data(BEN, SHOW)
            await found.polled()
            assert summary(lab.world.reported()) == [(SHOW, "finish", None)]
            assert {"/Items", "/UserItems/Resume"} <= set(fake.requests[before:])
            assert "/Sessions" not in fake.requests[before:]

    scene(play)


def test_progress_on_a_shelf_is_reported_when_the_server_says_so_and_once() -> None:
    async def play(lab: Lab) -> None:
        async with shelf_home(lab) as (fake, channel, found):
            fake.patch("book", currentTime=600.0, duration=3_600.0)
            await channel.tell_user()
            await until(lambda: summary(lab.world.reported()) == [("book", "progress", 600_000)])
            session = fake.play("talk")
            lab.clock.advance(MINUTE)
            fake.sync(session, 60.0, 60.0)
            await channel.tell("user_item_progress_updated", {"id": "x", "sessionId": session, "data": {}})
            await until(lambda: ("talk", "progress", 60_000) in summary(lab.world.reported()))
            await until(lambda: sum(result.polled.reports for result in found.results) == 3)
            told = list(lab.world.reported())
            await channel.tell_user()
            await found.polled()
            assert lab.world.reported() == told
            polls, nothing = len(found.results), heard("audiobookshelf", "nothing")
            await channel.tell("item_updated", {"id": "book"})
            await until(lambda: heard("audiobookshelf", "nothing") == nothing + 1)
            assert len(found.results) == polls, "a library says nothing of playing"

    scene(play)


def test_a_burst_of_news_is_few_polls_and_the_last_of_it_is_not_lost() -> None:
    async def play(lab: Lab) -> None:
        async with jellyfin_home(lab, news_every_s=0.5) as (fake, channel, found):
            before = len(found.results)
            for position in range(1, 31):
                fake.start(ANA, FILM, position_ms=position * MINUTE)
                fake.progress(ANA, position * MINUTE)
                lab.clock.advance(MINUTE)
                await channel.tell_sessions()
                await channel.tell_user_data(ANA, FILM)
            await until(lambda: (FILM, "progress", 30 * MINUTE) in summary(lab.world.reported()))
            await asyncio.sleep(0.6)
            polls = found.at[before:]
            assert len(polls) <= (polls[-1] - polls[0]) / 0.5 + 2
            assert len(polls) < 30

    scene(play)


def test_news_does_not_put_off_what_is_due() -> None:
    def evenly(low: float, high: float) -> float:
        return 1.0 if low else 0.01

    async def play(lab: Lab) -> None:
        async with jellyfin_home(lab, chance=evenly) as (fake, channel, _):
            before, began = fake.requests.count("/Sessions"), asyncio.get_running_loop().time()
            while fake.requests.count("/Sessions") < before + 3:
                await channel.tell_user_data(ANA, FILM)
                await asyncio.sleep(0.02)
                assert asyncio.get_running_loop().time() - began < 30

    scene(play)


# -- connections that break ---------------------------------------------------------------------------------------


def test_what_happened_while_the_channel_was_away_is_found_when_it_is_back() -> None:
    async def play(lab: Lab) -> None:
        async with jellyfin_home(lab) as (fake, channel, _):
            before = ended("jellyfin", "away")
            channel.drop()
            await until(lambda: ended("jellyfin", "away") == before + 1)
            fake.start(ANA, FILM)
            fake.progress(ANA, 10 * MINUTE)
            fake.stop(ANA, 20 * MINUTE)
            await until(lambda: (FILM, "progress", 20 * MINUTE) in summary(lab.world.reported()))
            await until(lambda: len(channel.asked) == 2 and bool(channel.subscribed))
            fake.start(BEN, SHOW)
            await channel.tell_sessions()
            await until(lambda: (SHOW, "progress", 0) in summary(lab.world.reported()))

    scene(play)


def test_a_shelf_that_was_away_is_read_when_it_is_back() -> None:
    async def play(lab: Lab) -> None:
        async with shelf_home(lab) as (fake, channel, _):
            await channel.drop()
            fake.patch("book", currentTime=600.0, duration=3_600.0)
            await until(lambda: summary(lab.world.reported()) == [("book", "progress", 600_000)])
            await until(lambda: bool(channel.people))
            assert len(channel.asked) == 2

    scene(play)


def test_a_server_without_a_channel_is_polled_at_its_interval_and_asked_for_one_once() -> None:
    async def play(lab: Lab) -> None:
        fake = FakeJellyfin(lab.clock, {FILM: HOUR})
        before = ended("jellyfin", "not_offered")
        async with pushing(fake.app) as url, listening(lab, url, "jellyfin", KEY, chance=often) as found:
            await until(lambda: ended("jellyfin", "not_offered") == before + 1)
            fake.start(ANA, FILM)
            await until(lambda: summary(lab.world.reported()) == [(FILM, "progress", 0)])
            # Another kind of failure would be tried again after the interval, a second.
            await until(lambda: len(found.results) >= 20 and found.at[-1] - found.at[0] > 2)
            assert ended("jellyfin", "not_offered") == before + 1
            assert all(result.cause is None for result in found.results)

    scene(play)


def test_a_token_that_the_channel_refuses_keeps_nobody_from_polling() -> None:
    async def play(lab: Lab) -> None:
        fake = FakeAudiobookshelf(lab.clock, {"book": 3_600.0})
        channel = AudiobookshelfSocket(fake)
        channel.token = "of another channel"
        before = ended("audiobookshelf", "credentials")
        async with pushing(fake.app, channel) as url, listening(lab, url, "audiobookshelf", PERSON, chance=often):
            await until(lambda: ended("audiobookshelf", "credentials") == before + 1)
            fake.patch("book", currentTime=600.0, duration=3_600.0)
            await until(lambda: summary(lab.world.reported()) == [("book", "progress", 600_000)])

    scene(play)


def test_who_may_not_subscribe_to_sessions_hears_the_rest() -> None:
    async def play(lab: Lab) -> None:
        fake = FakeJellyfin(lab.clock, {FILM: HOUR})
        channel = JellyfinSocket(fake)
        fake.person = ANA
        async with pushing(fake.app, channel) as url, listening(lab, url, "jellyfin", KEY) as found:
            await until(lambda: bool(channel.open) and len(found.results) == 2)
            fake.tick(ANA, FILM, played=True)
            await channel.tell_user_data(ANA, FILM)
            await until(lambda: summary(lab.world.reported()) == [(FILM, "finish", None)])
            assert len(channel.asked) == 1

    scene(play)


def test_a_channel_that_breaks_at_once_is_not_tried_more_often_than_polls_would_be() -> None:
    async def play(lab: Lab) -> None:
        fake = FakeJellyfin(lab.clock, {FILM: HOUR})
        channel = JellyfinSocket(fake)
        tried: list[float] = []

        async def leave(connection: web.WebSocketResponse) -> None:
            tried.append(asyncio.get_running_loop().time())
            await connection.close()

        channel.on_open = leave
        async with pushing(fake.app, channel) as url, listening(lab, url, "jellyfin", KEY):
            await until(lambda: len(tried) == 3)
        assert all(later - earlier >= 0.9 for earlier, later in pairwise(tried)), tried

    scene(play)


@pytest.mark.parametrize(
    ("exc", "failures", "interval_s", "soonest", "latest"),
    [
        (UpstreamAway("x"), 1, 30, 30, 60),
        (UpstreamAway("x"), 3, 30, 30, 240),
        (UpstreamAway("x"), 1_000, 30, 30, 1_800),
        (UpstreamAway("x", retry_after_s=100), 1, 30, 100, 100),
        (TooLarge("x"), 2, 30, 30, 120),
        (BadAnswer("x"), 2, 30, 30, 120),
        (UpstreamAway("x"), 1, 86_400, 1_800, 1_800),
        (NotOffered("x"), 1, 30, 1_620, 1_980),
        (CredentialsRefused("x"), 9, 30, 1_620, 1_980),
        (NotAllowed("x"), 1, 86_400, 1_620, 1_980),
    ],
)
def test_a_channel_is_tried_again_between_these_seconds(
    exc: UpstreamError, failures: int, interval_s: float, soonest: float, latest: float
) -> None:
    def at_once(low: float, high: float) -> float:
        return low

    def at_last(low: float, high: float) -> float:
        return high

    assert wait_after(exc, failures, interval_s, at_once) == pytest.approx(soonest)
    assert wait_after(exc, failures, interval_s, at_last) == pytest.approx(latest)


def test_after_a_failed_poll_no_news_makes_the_next_come_sooner() -> None:
    async def play(lab: Lab) -> None:
        async with jellyfin_home(lab, interval_s=5) as (fake, channel, found):
            fake.away = True
            await channel.tell_user_data(ANA, FILM)
            await found.polled()
            assert found.results[-1].cause == "away"
            before, at = len(fake.requests), found.at[-1]
            fake.away = False
            fake.tick(ANA, FILM, played=True)
            for _ in range(20):
                await channel.tell_user_data(ANA, FILM)
                await asyncio.sleep(0.02)
            assert len(fake.requests) == before
            await found.polled()
            assert found.at[-1] - at >= 4.5
            assert summary(lab.world.reported()) == [(FILM, "finish", None)]

    scene(play)


# -- what servers should not say ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("no json", "unusable"),
        ("[" * 200_000, "unusable"),
        ('{"MessageType":["Sessions"]}', "unusable"),
        ('{"MessageType":"Sessions","Data":{}}', "unusable"),
        ('{"MessageType":"SomethingNew","Data":1}', "unknown"),
        ('{"MessageType":"LibraryChanged","Data":{"ItemsAdded":["x"]}}', "nothing"),
        ('{"MessageType":"Sessions","Data":[1,null,{},{"NowPlayingItem":3,"PlayState":[]}]}', "nothing"),
    ],
)
def test_what_a_server_should_not_say_is_counted_and_the_next_word_heard(said: str, what: str) -> None:
    async def play(lab: Lab) -> None:
        async with jellyfin_home(lab) as (fake, channel, found):
            before, polls = heard("jellyfin", what), len(found.results)
            await channel.say(b"\x00\xff")
            await channel.say(said)
            await until(lambda: heard("jellyfin", what) == before + 1)
            assert len(found.results) == polls
            fake.start(ANA, FILM)
            await channel.tell_sessions()
            await until(lambda: summary(lab.world.reported()) == [(FILM, "progress", 0)])

    scene(play)


def test_a_message_over_the_limit_costs_the_connection_and_nothing_else() -> None:
    async def play(lab: Lab) -> None:
        async with jellyfin_home(lab, socket=SocketLimits(message_bytes_max=20_000)) as (fake, channel, _):
            before = ended("jellyfin", "too_large")
            fake.start(ANA, FILM)
            await channel.say(json.dumps({"MessageType": "Sessions", "Data": "x" * 20_000}))
            await until(lambda: ended("jellyfin", "too_large") == before + 1)
            await until(lambda: summary(lab.world.reported()) == [(FILM, "progress", 0)])

    scene(play)


def test_a_server_that_floods_is_polled_as_often_as_news_may_make_it() -> None:
    sent = 0

    async def play(lab: Lab) -> None:
        async def flood(connection: web.WebSocketResponse) -> None:
            nonlocal sent
            while True:
                await connection.send_json({"MessageType": "UserDataChanged", "Data": "x" * 5_000})
                sent += 1

        fake = FakeJellyfin(lab.clock, {FILM: HOUR})
        channel = JellyfinSocket(fake)
        channel.on_open = flood
        before = heard("jellyfin", "news")
        async with pushing(fake.app, channel) as url, listening(lab, url, "jellyfin", KEY, news_every_s=0.5) as found:
            await until(lambda: len(found.results) >= 6)
            fake.tick(ANA, FILM, played=True)
            await until(lambda: summary(lab.world.reported()) == [(FILM, "finish", None)])
        took_s = found.at[-1] - found.at[0]
        assert len(found.at) <= took_s / 0.5 + 3
        assert heard("jellyfin", "news") - before <= 50 * (took_s + 3), "what is not read yet waits in the network"
        assert sent * 5_000 < 20_000_000

    scene(play)


@given(
    st.sampled_from(["Sessions", "UserDataChanged", "", "x"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(["NowPlayingItem", "PlayState", "Id", "UserId", "x"]), inner, max_size=4)
        ),
        max_leaves=20,
    ),
)
def test_whatever_is_said_is_one_of_the_four(kind: str, data: object) -> None:
    what = Heard().hear(Message(kind, data))
    assert isinstance(what, News) or what in {"nothing", "unknown", "unusable"}


def test_news_of_two_lists_is_of_both_and_of_everything_is_of_everything() -> None:
    one, other = News(frozenset({PLAYING})), News(frozenset({RESUMABLE, PLAYED}))
    assert [one.and_also(other).concerns(name) for name in (PLAYING, PLAYED, "x")] == [True, True, False]
    assert one.and_also(EVERYTHING) == EVERYTHING.and_also(one) == EVERYTHING
    assert EVERYTHING.concerns("x")


# -- secrets, and the end -------------------------------------------------------------------------------------------


@pytest.fixture
def log_text() -> Iterator[Callable[[], str]]:
    """Everything that is logged, by whichever library."""
    stream = io.StringIO()
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    logs.configure("poll", level="DEBUG", stream=stream)
    yield stream.getvalue
    root.handlers[:] = before
    root.setLevel(level)


def test_no_token_is_in_an_address_or_a_log_and_nothing_a_server_says_forges_a_line(
    log_text: Callable[[], str],
) -> None:
    async def play(lab: Lab) -> None:
        async with jellyfin_home(lab) as (_, channel, found):
            await channel.say(json.dumps({"MessageType": HOSTILE, "Data": HOSTILE}))
            await channel.say(HOSTILE)
            channel.drop()
            await until(lambda: len(channel.asked) == 2)
            assert channel.asked == ["/socket"] * 2
        lab.store.swept.clear()
        async with shelf_home(lab) as (shelf, events, found):
            shelf.patch("book", currentTime=600.0, duration=3_600.0)
            await events.tell(HOSTILE, HOSTILE)
            await events.tell_user()
            await found.polled()
            assert events.asked == ["/socket.io/?EIO=4&transport=websocket"]

    scene(play)
    text = log_text()
    assert "push channel open" in text
    assert "no push channel" in text
    for secret in (jellyfin.TOKEN, audiobookshelf.TOKEN, "forged", "\u202e", "\x1b", "\r"):
        assert secret not in text


@pytest.mark.parametrize("home", [jellyfin_home, shelf_home])
def test_the_end_closes_the_channel(home: Callable[[Lab], object]) -> None:
    async def play(lab: Lab) -> None:
        loop = asyncio.get_running_loop()
        async with home(lab) as (_, channel, found):  # type: ignore[attr-defined]
            tasks = asyncio.all_tasks()
            connections = channel.open if isinstance(channel, JellyfinSocket) else channel.people
            assert connections
            began = loop.time()
            found.stop.set()
            await until(lambda: not connections)
            assert loop.time() - began < 10
        assert not [task for task in asyncio.all_tasks() - {asyncio.current_task()} if task not in tasks]

    scene(play)


def test_without_the_setting_no_channel_is_opened() -> None:
    async def play(lab: Lab) -> None:
        fake = FakeJellyfin(lab.clock, {FILM: HOUR})
        channel = JellyfinSocket(fake)
        async with (
            pushing(fake.app, channel) as url,
            listening(lab, url, "jellyfin", KEY, chance=often, sockets=False) as found,
        ):
            await until(lambda: len(found.results) >= 20)
            assert channel.asked == []

    scene(play)
