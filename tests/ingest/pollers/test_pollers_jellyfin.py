"""Jellyfin, polled: what devices do, and what its database keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from streams.runtime.upstreams import Account
from tests.ingest.pollers.lab import MINUTE, Lab, scene, summary
from tests.ingest.pollers.servers.jellyfin import ANA, BEN, TOKEN, FakeJellyfin

FILM, OTHER = "a1b2c3d4e5f60718293a4b5c6d7e8f90", "0f0e0d0c0b0a09080706050403020100"
LENGTH = 110 * MINUTE


@asynccontextmanager
async def polled(lab: Lab) -> AsyncIterator[FakeJellyfin]:
    fake = FakeJellyfin(lab.clock, {FILM: LENGTH, OTHER: LENGTH})
    async with lab.polling(fake.app, "jellyfin", Account("", "api_key", TOKEN)):
        yield fake


async def watch(lab: Lab, fake: FakeJellyfin, minutes: range, user: str = ANA) -> None:
    """One report and one poll each minute, at that minute of the film."""
    for minute in minutes:
        lab.clock.advance(MINUTE)
        fake.progress(user, minute * MINUTE)
        await lab.poll(sweep=False)


def test_each_change_is_picked_up_once_and_a_second_poll_adds_nothing() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            assert await lab.poll() == []
            fake.start(ANA, FILM)
            fake.progress(ANA, 10 * MINUTE)
            first = await lab.poll()
            assert (FILM, "progress", 10 * MINUTE) in summary(first)
            assert {event.origin for event in first} == {"poll"}
            assert await lab.poll() == []
            assert await lab.poll_as_new() == []
            lab.clock.advance(MINUTE)
            fake.progress(ANA, 11 * MINUTE, paused=True)
            assert (FILM, "pause", 11 * MINUTE) in summary(await lab.poll())
            lab.clock.advance(5 * MINUTE)
            assert await lab.poll() == []
            assert lab.states()[FILM].position_ms == 11 * MINUTE
            assert lab.last.cause is None

    scene(play)


def test_the_exact_end_is_told_although_it_lies_between_two_polls() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.start(ANA, FILM)
            await watch(lab, fake, range(1, 20))
            lab.clock.advance(20_000)
            fake.stop(ANA, 19 * MINUTE + 20_000)
            ended = await lab.poll()
            assert (FILM, "stop", 19 * MINUTE + 20_000) in summary(ended)
            assert await lab.poll() == []
            assert lab.states()[FILM].position_ms == 19 * MINUTE + 20_000
            assert lab.states()[FILM].phase == "stopped"

    scene(play)


def test_a_rewind_while_playing_is_the_truth() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.start(ANA, FILM)
            await watch(lab, fake, range(30, 35))
            lab.clock.advance(MINUTE)
            fake.progress(ANA, 12 * MINUTE)
            await lab.poll()
            assert lab.states()[FILM].position_ms == 12 * MINUTE

    scene(play)


def test_a_client_that_died_is_played_on_by_the_server_and_carries_nobody_along() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.start(ANA, FILM)
            await watch(lab, fake, range(1, 10))
            for _ in range(20):
                lab.clock.advance(MINUTE)
                assert await lab.poll() == []
            fake.crash_of_client(ANA)
            await lab.poll()
            assert lab.states()[FILM].position_ms == 9 * MINUTE

    scene(play)


def test_a_poll_that_comes_late_after_the_last_word_knows_that_the_position_moved_by_itself() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.start(ANA, FILM)
            fake.progress(ANA, 10 * MINUTE)
            lab.clock.advance(5 * MINUTE)
            events = await lab.poll()
            (playing,) = [event for event in events if event.device_id == "tv"]
            assert (playing.position_ms, playing.automated) == (15 * MINUTE, True)

    scene(play)


def test_what_was_watched_while_nobody_polled_is_found_in_the_database() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.start(ANA, FILM)
            fake.stop(ANA, 40 * MINUTE)
            lab.clock.advance(60 * MINUTE)
            fake.start(BEN, OTHER)
            fake.stop(BEN, 108 * MINUTE)
            events = await lab.poll()
            assert summary(events) == [(FILM, "progress", 40 * MINUTE), (OTHER, "finish", None)]
            assert len({event.user_ref for event in events}) == 2
            assert lab.states()[FILM].position_ms == 40 * MINUTE
            assert lab.states()[OTHER].play_count == 1
            assert await lab.poll_as_new() == []

    scene(play)


@pytest.mark.parametrize("memory", ["kept", "lost"])
@pytest.mark.parametrize("sessions", ["seen", "not seen"])
def test_an_older_database_put_back_moves_nothing_backwards(memory: str, sessions: str) -> None:
    """Its LastPlayedDate is the same for the whole sitting, so the time alone would not tell."""

    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.start(ANA, FILM)
            backup = fake.backup()
            for minute in range(10, 85):
                lab.clock.advance(MINUTE)
                fake.progress(ANA, minute * MINUTE)
                if minute == 11:
                    backup = fake.backup()
                playing = fake.playing.pop((ANA, "tv"))
                if sessions == "seen":
                    fake.playing[ANA, "tv"] = playing
                await lab.poll(sweep=False)
                fake.playing[ANA, "tv"] = playing
            before = lab.states()[FILM]
            assert before.position_ms == 84 * MINUTE
            fake.restore(backup)
            if memory == "lost":
                lab.forget()
            for _ in range(3):
                lab.clock.advance(MINUTE)
                await lab.poll_as_new()
            after = lab.states()[FILM]
            assert (after.position_ms, after.play_count) == (before.position_ms, before.play_count)

    scene(play)


def test_a_play_undone_by_an_older_database_stays_played_and_counted_once() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            backup = fake.backup()
            fake.start(ANA, FILM)
            fake.stop(ANA, 108 * MINUTE)
            await lab.poll()
            fake.restore(backup)
            assert await lab.poll(sweep=True) == []
            assert lab.states()[FILM].play_count == 1
            assert lab.states()[FILM].played

    scene(play)


def test_an_item_ticked_by_hand_has_no_time_and_is_played_long_ago() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.start(ANA, OTHER)
            fake.stop(ANA, 30 * MINUTE)
            fake.tick(ANA, FILM, True)
            await lab.poll()
            assert lab.states()[FILM].played
            fake.tick(ANA, FILM, False)
            assert await lab.poll() == [], "an older database looks the same"

    scene(play)


def test_pages_that_repeat_or_change_order_end_and_add_nothing() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            for number in range(230):
                item = f"b{number:031x}"
                fake.items[item] = LENGTH
                lab.clock.advance(1_000)
                fake.start(ANA, item)
                fake.stop(ANA, 108 * MINUTE)
            assert len(await lab.poll(sweep=True)) == 230
            fake.repeat_pages = True
            assert await asyncio.wait_for(lab.poll(sweep=True), 20) == []
            fake.repeat_pages, fake.reverse = False, True
            assert await lab.poll(sweep=True) == []

    scene(play)


def test_sessions_without_a_person_or_an_item_are_no_news() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab):
            assert await lab.poll() == []
            assert lab.last.polled.unusable == 0

    scene(play)


def test_no_name_address_or_id_of_a_person_gets_into_the_log() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab) as fake:
            fake.start(ANA, FILM)
            await lab.poll()
            told = b"".join(record.value + record.key for record in lab.world.publisher.records)
            for secret in (ANA, "Ana", "192.168.1.7", TOKEN, "forged"):
                assert secret.encode() not in told

    scene(play)
