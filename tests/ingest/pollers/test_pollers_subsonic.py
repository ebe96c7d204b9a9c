"""Navidrome, gonic and supysonic, polled. Each oddity of the real servers has its test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from streams.runtime.upstreams import Account
from tests.ingest.pollers.lab import MINUTE, Lab, scene, summary
from tests.ingest.pollers.servers.subsonic import (
    GONIC,
    NAVIDROME,
    PASSWORD,
    SUPYSONIC,
    USER,
    FakeSubsonic,
    Flavour,
    Song,
)

SONGS = [
    Song("long", "first-light", 61.73),
    Song("dawn", "first-light", 3.2),
    Song("hour", "talks", 3_600.0),
    Song("untagged", "odd", 200.0, tagged=False),
    Song("blink", "odd", 0.44),
]


def server(lab: Lab, flavour: Flavour) -> FakeSubsonic:
    return FakeSubsonic(flavour, lab.clock, SONGS)


@asynccontextmanager
async def polled(lab: Lab, flavour: Flavour) -> AsyncIterator[FakeSubsonic]:
    fake = server(lab, flavour)
    login = "token" if flavour.tokens else "password"
    async with lab.polling(fake.app, "subsonic", Account(USER, login, PASSWORD)):
        yield fake


BOTH = pytest.mark.parametrize("flavour", [NAVIDROME, GONIC], ids=["navidrome", "gonic"])
ALL = pytest.mark.parametrize("flavour", [NAVIDROME, GONIC, SUPYSONIC], ids=["navidrome", "gonic", "supysonic"])


@BOTH
def test_each_change_is_picked_up_once_and_a_second_poll_adds_nothing(flavour: Flavour) -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, flavour) as fake:
            assert await lab.poll() == []
            fake.create_bookmark("hour", 30_000)
            fake.save_play_queue(["dawn", "long"], "long", 2_500)
            fake.scrobble("dawn", lab.clock.now_ms() - MINUTE)
            lab.clock.advance(MINUTE)
            first = await lab.poll()
            assert ("hour", "progress", 30_000) in summary(first)
            assert ("long", "progress", 2_500) in summary(first)
            assert [event.kind for event in first if event.upstream_media == "dawn"][-1] == "finish"
            assert {event.origin for event in first} == {"poll"}
            for sweep in (False, True, None):
                lab.clock.advance(MINUTE)
                assert await lab.poll(sweep=sweep) == []
            fake.create_bookmark("hour", 90_000)
            lab.clock.advance(MINUTE)
            assert summary(await lab.poll()) == [("hour", "progress", 90_000)]
            assert await lab.poll() == []
            assert lab.last.cause is None

    scene(play)


@ALL
def test_a_server_where_nothing_happened_tells_nothing_and_is_well(flavour: Flavour) -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, flavour):
            assert await lab.poll(sweep=True) == []
            assert (lab.last.cause, lab.last.polled.unusable) == (None, 0)
            assert lab.store.health["home"][:2] == (None, 0)

    scene(play)


@BOTH
def test_after_a_restart_of_the_poller_nothing_is_told_again(flavour: Flavour) -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, flavour) as fake:
            fake.create_bookmark("hour", 30_000)
            fake.scrobble("dawn")
            assert await lab.poll()
            assert await lab.poll_as_new() == []

    scene(play)


@BOTH
def test_with_its_memory_lost_a_poll_tells_the_same_again_and_the_rules_see_duplicates(flavour: Flavour) -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, flavour) as fake:
            fake.create_bookmark("hour", 30_000)
            fake.save_play_queue(["long"], "long", 2_500)
            fake.scrobble("dawn")
            first = await lab.poll()
            before = lab.states()
            lab.forget()
            lab.clock.advance(17 * MINUTE)
            again = await lab.poll_as_new()
            assert {event.event_id for event in again} == {event.event_id for event in first}
            assert {d.verdict.value for _, d in lab.decisions()[len(first) :]} == {"duplicate"}
            assert lab.states() == before

    scene(play)


@BOTH
@pytest.mark.parametrize("memory", ["kept", "lost"])
def test_an_older_database_put_back_moves_nothing_backwards(flavour: Flavour, memory: str) -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, flavour) as fake:
            fake.create_bookmark("hour", 600_000)
            fake.scrobble("long", lab.clock.now_ms() - MINUTE)
            await lab.poll()
            backup = fake.backup()
            for minute in range(1, 80):  # more polls than ids are remembered
                lab.clock.advance(MINUTE)
                fake.create_bookmark("hour", 600_000 + minute * 20_000)
                await lab.poll(sweep=False)
            fake.scrobble("long", lab.clock.now_ms() - MINUTE)
            await lab.poll()
            before = lab.states()
            assert before["hour"].position_ms == 600_000 + 79 * 20_000
            fake.restore(backup)
            if memory == "lost":
                lab.forget()
            lab.clock.advance(MINUTE)
            await lab.poll_as_new()
            await lab.poll_as_new()
            after = lab.states()
            assert after["hour"].position_ms == before["hour"].position_ms
            assert after["long"].play_count == before["long"].play_count
            # And what happens then counts as ever.
            lab.clock.advance(MINUTE)
            fake.create_bookmark("hour", 3_000_000)
            fake.scrobble("long", lab.clock.now_ms() - MINUTE)
            await lab.poll()
            assert lab.states()["hour"].position_ms == 3_000_000
            assert lab.states()["long"].play_count == before["long"].play_count + 1

    scene(play)


@BOTH
def test_a_repeated_or_reordered_page_changes_nothing(flavour: Flavour) -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, flavour) as fake:
            for song in ("long", "dawn", "hour"):
                fake.create_bookmark(song, 2_000)
                fake.scrobble(song, lab.clock.now_ms() - MINUTE)
            await lab.poll(sweep=True)
            fake.reverse = fake.repeat_pages = True
            assert await asyncio.wait_for(lab.poll(sweep=True), 20) == []

    scene(play)


@BOTH
def test_the_same_value_saved_again_moves_its_time_and_no_position(flavour: Flavour) -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, flavour) as fake:
            fake.create_bookmark("hour", 600_000)
            await lab.poll()
            lab.clock.advance(MINUTE)
            fake.create_bookmark("hour", 600_000)
            assert summary(await lab.poll()) == [("hour", "progress", 600_000)]
            assert lab.states()["hour"].position_ms == 600_000

    scene(play)


@BOTH
def test_a_bookmark_that_is_gone_says_nothing(flavour: Flavour) -> None:
    """gonic deletes bookmarks and counts when a folder is not mounted; nobody wanted that."""

    async def play(lab: Lab) -> None:
        async with polled(lab, flavour) as fake:
            fake.create_bookmark("hour", 600_000)
            fake.scrobble("dawn")
            await lab.poll()
            fake.lose_mount()
            assert await lab.poll(sweep=True) == []
            assert lab.states()["hour"].position_ms == 600_000
            assert lab.states()["dawn"].play_count == 1

    scene(play)


@BOTH
@pytest.mark.parametrize("position", [-5, 999_999_999])
def test_a_position_that_is_none_is_stored_by_the_server_and_moves_nothing(flavour: Flavour, position: int) -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, flavour) as fake:
            fake.create_bookmark("hour", 600_000)
            await lab.poll()
            lab.clock.advance(MINUTE)
            fake.create_bookmark("hour", position)
            await lab.poll()
            assert lab.last.cause is None
            assert lab.states()["hour"].position_ms == 600_000

    scene(play)


@BOTH
def test_a_retried_scrobble_that_the_server_counts_twice_is_one_play(flavour: Flavour) -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, flavour) as fake:
            at = lab.clock.now_ms() - 5 * MINUTE
            fake.scrobble("long", at)
            await lab.poll()
            fake.scrobble("long", at)
            await lab.poll()
            assert fake.stored.plays["long"].count == 2
            assert lab.states()["long"].play_count == 1

    scene(play)


@BOTH
def test_a_play_told_late_that_only_the_count_shows_is_not_taken_for_one_now(flavour: Flavour) -> None:
    """An older time after a newer one: the count rises, `played` stays."""

    async def play(lab: Lab) -> None:
        async with polled(lab, flavour) as fake:
            fake.scrobble("long", lab.clock.now_ms() - 5 * MINUTE)
            await lab.poll()
            fake.scrobble("long", lab.clock.now_ms() - 60 * MINUTE)
            late = await lab.poll()
            assert late
            assert all((event.occurred_at or 0) < lab.clock.now_ms() - 4 * MINUTE for event in late)
            assert lab.states()["long"].play_count == 1

    scene(play)


@BOTH
def test_plays_of_a_track_on_two_days_are_two_plays(flavour: Flavour) -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, flavour) as fake:
            for _ in range(2):
                fake.scrobble("long", lab.clock.now_ms())
                lab.clock.advance(5 * MINUTE)
                await lab.poll()
                lab.clock.advance(24 * 60 * MINUTE)
            assert lab.states()["long"].play_count == 2

    scene(play)


@BOTH
def test_a_play_in_the_future_counts_once_and_blocks_nothing_here(flavour: Flavour) -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, flavour) as fake:
            fake.scrobble("long", lab.clock.now_ms() + 365 * 24 * 60 * MINUTE)
            await lab.poll()
            assert await lab.poll() == []
            lab.clock.advance(5 * MINUTE)
            fake.create_bookmark("long", 3_000)
            assert ("long", "progress", 3_000) in summary(await lab.poll())
            assert lab.states()["long"].event_time <= lab.clock.now_ms() + MINUTE

    scene(play)


def test_gonic_counts_a_now_playing_notice_as_a_play_and_it_is_one_play_here() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, GONIC) as fake:
            fake.scrobble("hour", submission=False)
            await lab.poll()
            lab.clock.advance(30 * MINUTE)
            fake.scrobble("hour")
            await lab.poll()
            assert fake.stored.plays["hour"].count == 2
            assert lab.states()["hour"].play_count == 1
            lab.clock.advance(60 * MINUTE)
            fake.scrobble("hour")
            await lab.poll()
            assert lab.states()["hour"].play_count == 2

    scene(play)


def test_gonic_leaves_untagged_tracks_out_of_its_search_and_their_plays_are_found_all_the_same() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, GONIC) as fake:
            fake.scrobble("untagged")
            assert {event.upstream_media for event in await lab.poll()} == {"untagged"}

    scene(play)


def test_gonic_has_no_now_playing_which_is_no_fault_of_it() -> None:
    """Error 70 "view not found" with HTTP 200; and a queue that was never saved is no object at all."""

    async def play(lab: Lab) -> None:
        async with polled(lab, GONIC) as fake:
            await lab.poll()
            assert {"getNowPlaying", "getPlayQueue"} <= {name for name, _ in fake.requests}
            assert lab.last.cause is None

    scene(play)


def test_navidrome_leaves_out_what_is_zero() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, NAVIDROME) as fake:
            fake.create_bookmark("blink", 0)  # neither a position nor a duration is told
            fake.save_play_queue(["hour"], "hour", 0)
            events = {event.upstream_media: event for event in await lab.poll()}
            assert (events["blink"].position_ms, events["blink"].duration_ms) == (0, None)
            assert events["hour"].position_ms == 0

    scene(play)


def test_navidrome_plays_on_by_itself_and_nobody_is_carried_along() -> None:
    """A player that died is played on to the end by the server; the person's place stays."""

    async def play(lab: Lab) -> None:
        async with polled(lab, NAVIDROME) as fake:
            fake.report_playback("hour", "playing", 600_000)
            first = await lab.poll()
            assert [(event.kind, event.automated) for event in first] == [("progress", True)]
            for _ in range(30):
                lab.clock.advance(MINUTE)
                assert await lab.poll() == []
            assert lab.states()["hour"].position_ms == 600_000
            assert not lab.states()["hour"].played

    scene(play)


def test_navidrome_tells_pauses_seeks_and_ends() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, NAVIDROME) as fake:
            fake.report_playback("hour", "playing", 600_000)
            await lab.poll()
            lab.clock.advance(MINUTE)
            fake.report_playback("hour", "paused", 660_000)
            assert summary(await lab.poll()) == [("hour", "pause", 660_000)]
            assert await lab.poll() == []
            lab.clock.advance(MINUTE)
            fake.report_playback("hour", "playing", 1_800_000)
            assert summary(await lab.poll()) == [("hour", "progress", 1_800_000)]
            lab.clock.advance(MINUTE)
            fake.report_playback("hour", "playing", 2_500_000)  # a jump while playing
            assert summary(await lab.poll()) == [("hour", "progress", 2_500_000)]
            fake.report_playback("hour", "stopped", 2_500_000)
            assert summary(await lab.poll()) == [("hour", "stop", None)]
            assert await lab.poll() == []
            assert lab.states()["hour"].position_ms == 2_500_000
            assert lab.states()["hour"].phase == "stopped"

    scene(play)


def test_navidrome_forgets_what_plays_when_it_restarts_and_no_place_is_lost() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, NAVIDROME) as fake:
            fake.report_playback("hour", "paused", 600_000)
            await lab.poll()
            fake.restart()
            assert summary(await lab.poll()) == [("hour", "stop", None)]
            assert lab.states()["hour"].position_ms == 600_000

    scene(play)


def test_another_track_on_the_same_player_ends_the_former() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, NAVIDROME) as fake:
            fake.report_playback("hour", "playing", 600_000)
            await lab.poll()
            fake.report_playback("long", "playing", 0)
            assert summary(await lab.poll()) == [("hour", "stop", None), ("long", "progress", 0)]

    scene(play)


def test_other_peoples_playing_is_left_alone() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, NAVIDROME) as fake:
            fake.other_people = [
                {"id": "long", "username": "neighbour", "playerId": 9, "state": "playing", "positionMs": 5}
            ]
            assert await lab.poll() == []
            assert "neighbour" not in str(lab.world.people.rows)

    scene(play)


def test_supysonic_takes_no_tokens_and_the_health_says_so() -> None:
    async def play(lab: Lab) -> None:
        fake = server(lab, SUPYSONIC)
        async with lab.polling(fake.app, "subsonic", Account(USER, "token", PASSWORD)):
            assert await lab.poll() == []
            assert lab.last.cause == "credentials"
            # The password is not sent instead: that is for the operator to say.
            assert all("p" not in form for _, form in fake.requests)

    scene(play)


def test_supysonic_knows_no_bookmarks_and_tells_what_is_streamed() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, SUPYSONIC) as fake:
            fake.stream("hour")
            first = await lab.poll()
            assert summary(first) == [("hour", "start", None)]
            assert lab.last.cause is None
            lab.clock.advance(MINUTE)
            assert await lab.poll() == []
            fake.restart()
            assert summary(await lab.poll()) == [("hour", "stop", None)]

    scene(play)


def test_supysonic_writes_times_without_a_zone_and_means_utc() -> None:
    flavour = Flavour(None, tokens=False, zone="")

    async def play(lab: Lab) -> None:
        async with polled(lab, flavour) as fake:
            fake.create_bookmark("hour", 30_000)
            (event,) = await lab.poll()
            assert event.occurred_at == lab.clock.now_ms() // 1000 * 1000

    scene(play)


@ALL
def test_no_secret_is_in_an_address_and_no_name_in_the_log(flavour: Flavour) -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, flavour) as fake:
            fake.create_bookmark("hour", 30_000)
            fake.scrobble("dawn")
            await lab.poll()
            assert fake.requests
            for record in lab.world.publisher.records:
                assert USER.encode() not in record.value + record.key

    scene(play)


def test_a_wrong_password_is_a_cause_and_backs_off() -> None:
    async def play(lab: Lab) -> None:
        fake = server(lab, NAVIDROME)
        async with lab.polling(fake.app, "subsonic", Account(USER, "token", "wrong pa55word")):
            waits = []
            for _ in range(8):
                await lab.poll()
                waits.append(lab.last.next_in_s)
            assert lab.last.cause == "credentials"
            assert waits[0] < waits[3] < waits[5] <= 1_800
            assert waits[7] == 1_800
            assert lab.store.health["home"][1] == 8

    scene(play)


def test_an_unreachable_server_loses_no_change() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, NAVIDROME) as fake:
            await lab.poll()
            fake.create_bookmark("hour", 30_000)
            fake.broken = True
            assert await lab.poll() == []
            assert lab.last.cause == "away"
            fake.broken = False
            assert summary(await lab.poll()) == [("hour", "progress", 30_000)]
            assert lab.store.health["home"][:2] == (None, 0)

    scene(play)


def test_a_server_that_does_not_answer_has_stopped_nobody() -> None:
    async def play(lab: Lab) -> None:
        async with polled(lab, NAVIDROME) as fake:
            fake.report_playback("hour", "paused", 600_000)
            await lab.poll()
            fake.broken = True
            assert await lab.poll() == []
            fake.broken = False
            assert await lab.poll() == []
            assert lab.states()["hour"].phase == "paused"

    scene(play)
