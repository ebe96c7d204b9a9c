"""Audiobookshelf, polled. Each oddity of the real server has its test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from streams.runtime.upstreams import Account
from tests.ingest.pollers.lab import MINUTE, Lab, scene, summary
from tests.ingest.pollers.servers.audiobookshelf import TOKEN, USER, FakeAudiobookshelf

HOUR_S = 3_600.0


@asynccontextmanager
async def polled(lab: Lab) -> AsyncIterator[FakeAudiobookshelf]:
    fake = FakeAudiobookshelf(lab.clock, {"book": 10 * HOUR_S, "short": 600.0})
    async with lab.polling(fake.app, "audiobookshelf", Account("listener", "api_key", TOKEN)):
        yield fake


def test_each_change_is_picked_up_once_and_a_second_poll_adds_nothing() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            assert await lab.poll() == []
            fake.patch("short", currentTime=10.5, duration=600.0)
            session = fake.play("book")
            lab.clock.advance(MINUTE)
            fake.sync(session, 60.0, 60)
            first = await lab.poll()
            assert ("short", "progress", 10_500) in summary(first)
            assert summary(first).count(("book", "progress", 60_000)) == 2, "the session and the progress"
            assert {event.origin for event in first} == {"poll"}
            for sweep in (False, True):
                assert await lab.poll(sweep=sweep) == []
            assert await lab.poll_as_new() == []
            assert lab.states()["book"].listened_ms == 60_000
            assert lab.last.cause is None

    scene(play)


def test_what_did_not_change_is_not_even_sent_and_what_got_lost_is_sent_again() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.patch("short", currentTime=10.5, duration=600.0)
            lab.world.publisher.away = True
            with pytest.raises(Exception, match="away"):
                await lab.poll()
            lab.world.publisher.away = False
            assert summary(await lab.poll()) == [("short", "progress", 10_500)]
            assert fake.not_modified == 0
            assert await lab.poll() == []
            assert fake.not_modified == 1

    scene(play)


@pytest.mark.parametrize("memory", ["kept", "lost"])
def test_an_older_database_put_back_moves_nothing_backwards(memory: str) -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            session = fake.play("book")
            fake.sync(session, 600.0, 600)
            await lab.poll()
            backup = fake.backup()
            for minute in range(1, 70):
                lab.clock.advance(MINUTE)
                fake.sync(session, 600.0 + 60 * minute, 60)
                await lab.poll(sweep=False)
            before = lab.states()["book"]
            assert before.position_ms == (600 + 60 * 69) * 1000
            fake.restore(backup)
            if memory == "lost":
                lab.forget()
            lab.clock.advance(MINUTE)
            await lab.poll_as_new()
            await lab.poll_as_new()
            after = lab.states()["book"]
            assert (after.position_ms, after.listened_ms) == (before.position_ms, before.listened_ms)

    scene(play)


def test_of_several_rows_for_one_item_the_newest_counts_and_nothing_flips_between_them() -> None:
    """Ten writers at once leave several rows; a restart collapses them."""

    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.race("book", 8)
            assert summary(await lab.poll()) == [("book", "progress", 5_000)]
            fake.reverse = True
            assert await lab.poll() == []
            fake.restart()
            assert await lab.poll() == []

    scene(play)


@pytest.mark.parametrize("value", [None, -3, "abc"])
def test_a_position_that_is_none_is_left_out_and_counted(value: Any) -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.patch("book", currentTime=100, duration=10 * HOUR_S)
            await lab.poll()
            lab.clock.advance(MINUTE)
            fake.patch("book", currentTime=value)
            assert await lab.poll() == []
            assert (lab.last.polled.unusable, lab.last.cause) == (1, None)
            assert lab.states()["book"].position_ms == 100_000

    scene(play)


def test_a_position_sent_as_text_is_a_number() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.patch("book", currentTime="15", duration=10 * HOUR_S)
            assert summary(await lab.poll()) == [("book", "progress", 15_000)]

    scene(play)


def test_a_sync_without_a_position_takes_nothing_away() -> None:
    """The server stores null."""

    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            session = fake.play("book")
            fake.sync(session, 100.0, 10)
            await lab.poll()
            lab.clock.advance(MINUTE)
            fake.sync(session, None, 10)
            await lab.poll()
            assert lab.states()["book"].position_ms == 100_000

    scene(play)


def test_a_retried_sync_doubles_the_servers_listening_and_moves_no_position() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            session = fake.play("book")
            fake.sync(session, 20.0, 9)
            fake.sync(session, 20.0, 9)
            await lab.poll()
            assert lab.states()["book"].position_ms == 20_000
            assert lab.states()["book"].listened_ms == 18_000, "as the server tells it: nobody can know"

    scene(play)


def test_a_last_update_set_back_by_a_client_is_late() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.patch("book", currentTime=1_000, duration=10 * HOUR_S)
            await lab.poll()
            fake.patch("book", currentTime=50, lastUpdate=lab.clock.now_ms() - 60 * MINUTE)
            assert summary(await lab.poll()) == [("book", "progress", 50_000)]
            assert lab.decisions()[-1][1].verdict.value == "late"
            assert lab.states()["book"].position_ms == 1_000_000

    scene(play)


def test_the_progress_field_that_the_server_leaves_stale_is_not_read() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.patch("book", currentTime=100, duration=10 * HOUR_S, progress=0.9)
            await lab.poll()
            assert lab.states()["book"].position_ms == 100_000
            assert not lab.states()["book"].played

    scene(play)


def test_an_offline_replay_that_the_server_lost_is_heard_oldest_first() -> None:
    """Its sessions are there although its positions lost against the server's own clock."""

    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            began = lab.clock.now_ms() - 300 * MINUTE
            for number in range(4):
                fake.local_session(
                    "book",
                    f"00000000-0000-0000-0000-00000000000{number}",
                    600.0 * (number + 1),
                    600,
                    began + number * 60 * MINUTE,
                )
            events = await lab.poll()
            sessions = [event for event in events if event.session_id]
            assert [event.position_ms for event in sessions] == [600_000, 1_200_000, 1_800_000, 2_400_000]
            assert lab.states()["book"].listened_ms == 2_400_000
            assert lab.states()["book"].position_ms == 2_400_000

    scene(play)


def test_nearly_finished_is_finished_and_counts_once() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.patch("short", currentTime=300, duration=600.0)
            await lab.poll()
            lab.clock.advance(5 * MINUTE)
            fake.patch("short", currentTime=595)
            assert summary(await lab.poll()) == [("short", "finish", 595_000)]
            assert await lab.poll() == []
            assert (lab.states()["short"].played, lab.states()["short"].play_count) == (True, 1)
            lab.clock.advance(MINUTE)
            fake.patch("short", isFinished=False, currentTime=300)  # the server resets to 0
            await lab.poll()
            assert lab.states()["short"].played

    scene(play)


def test_pages_of_sessions_that_repeat_or_change_order_end_and_add_nothing() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            for number in range(130):
                fake.local_session("book", f"s{number}", float(number), 1, lab.clock.now_ms() - (200 - number) * MINUTE)
            assert len([e for e in await lab.poll(sweep=True) if e.session_id]) == 130
            fake.repeat_pages = True
            assert await asyncio.wait_for(lab.poll(sweep=True), 20) == []
            fake.repeat_pages, fake.reverse = False, True
            assert await lab.poll(sweep=True) == []

    scene(play)


def test_without_news_only_the_first_page_is_read() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            for number in range(130):
                fake.local_session("book", f"s{number}", float(number), 1, lab.clock.now_ms() - (200 - number) * MINUTE)
            await lab.poll()
            fake.requests.clear()
            await lab.poll(sweep=False)
            assert len([url for url in fake.requests if "listening-sessions" in url]) == 1

    scene(play)


def test_no_name_address_or_title_gets_into_the_log() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.sync(fake.play("book"), 20.0, 9)
            await lab.poll()
            told = b"".join(record.value + record.key for record in lab.world.publisher.records)
            for secret in (USER, "listener", TOKEN, "127.0.0.1", "level=error"):
                assert secret.encode() not in told

    scene(play)


def test_a_key_that_was_withdrawn_is_a_cause() -> None:
    async def play(lab: Lab) -> None:
        fake = FakeAudiobookshelf(lab.clock, {})
        async with lab.polling(fake.app, "audiobookshelf", Account("listener", "api_key", "withdrawn")):
            await lab.poll()
            assert lab.last.cause == "credentials"
            assert len(fake.requests) == 1, "one refusal is enough"

    scene(play)
