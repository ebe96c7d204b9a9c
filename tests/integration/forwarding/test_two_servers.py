"""Watched on one server, it goes on on the other: two Jellyfins that are polled, and both told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from projections.base import Record
from schemas.events import UserForgotten
from streams.runtime.blocking import BlockingDatabase
from streams.runtime.leases import Tasks
from streams.runtime.upstreams import Account
from tests.ingest.pollers.servers import audiobookshelf
from tests.ingest.pollers.servers.jellyfin import ANA, BEN, TICKS, TOKEN, FakeJellyfin
from tests.integration.forwarding.household import PERSON, Home, Household

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("forwarding"), pytest.mark.long]

FILM, SAME_FILM = "a" * 32, "b" * 32
LENGTH_MS = 6_000_000
IMDB = {"imdb": "tt1"}
NOWHERE = (0, False, 0)


class Two:
    """``den`` and ``attic`` have the same film under other ids, and one person another account on each."""

    def __init__(self, household: Household) -> None:
        self.household = household
        clock = household.clock
        key = Account("", "api_key", TOKEN)
        self.den = household.add("den", "jellyfin", FakeJellyfin(clock, {FILM: LENGTH_MS}), ANA, key)
        self.attic = household.add("attic", "jellyfin", FakeJellyfin(clock, {SAME_FILM: LENGTH_MS}), BEN, key)
        self.item = {"den": FILM, "attic": SAME_FILM}
        household.item(self.den, FILM, LENGTH_MS, IMDB)
        self.same = household.item(self.attic, SAME_FILM, LENGTH_MS, IMDB | {"tmdb": "5"})

    def watch(self, home: Home, *positions_ms: int, told: bool = True) -> None:
        """There, through these places, then stop; polled after each, and told unless not."""
        home.fake.start(home.user, self.item[home.source_id])
        for position_ms in positions_ms:
            self.household.pass_time(20)
            home.fake.progress(home.user, position_ms)
            self.household.poll(home, sweep=False)
        home.fake.stop(home.user, positions_ms[-1])
        self.household.poll(home)
        if told:
            self.household.work()

    def at(self, home: Home) -> tuple[int, bool, int]:
        """Position in ms, played, play count."""
        data = home.fake.data.get((home.user, self.item[home.source_id]))
        return NOWHERE if data is None else (data["PlaybackPositionTicks"] // TICKS, data["Played"], data["PlayCount"])


@pytest.fixture
def two(household: Household) -> Two:
    return Two(household)


def test_watched_on_one_it_goes_on_on_the_other_and_comes_back_as_an_echo(two: Two) -> None:
    two.watch(two.den, 1_800_000)
    assert two.at(two.attic) == (1_800_000, False, 0)
    reports = two.household.poll(two.attic)
    assert [(report.origin, report.position_ms) for report in reports] == [("echo", 1_800_000)]
    assert two.household.decided()[-1].reason == "echo"
    assert two.household.go_round() == 0
    assert two.household.letters.written == []


def test_an_evening_on_two_servers_ends_the_same_on_both_and_counts_once_on_each(two: Two) -> None:
    two.watch(two.den, 1_800_000)
    two.watch(two.attic, 1_830_000, 1_860_000, 3_000_000)
    assert two.at(two.den)[:2] == (3_000_000, False)
    two.watch(two.den, 3_030_000, 3_060_000, 5_900_000)
    assert [two.at(home)[:2] for home in (two.den, two.attic)] == [(0, True), (0, True)]
    assert two.household.go_round() == 0
    # The den: it began there twice. The attic: it began there once, and was told of the end, which is a play.
    assert [two.at(home)[2] for home in (two.den, two.attic)] == [2, 2]
    assert two.household.letters.written == []


def test_a_server_that_went_on_by_itself_is_not_told_what_was_before(two: Two) -> None:
    two.attic.faulty.fault = "away"
    two.watch(two.den, 1_800_000)
    two.attic.faulty.fault = "none"
    two.household.pass_time(30)
    two.watch(two.attic, 2_400_000, told=False)
    writes = two.attic.faulty.write_count
    two.household.pass_time(600)
    two.household.work()
    assert (two.at(two.attic)[0], two.attic.faulty.write_count) == (2_400_000, writes)
    assert two.at(two.den)[0] == 2_400_000


def test_an_old_decision_does_not_move_back_what_nobody_has_reported_yet(two: Two) -> None:
    two.attic.faulty.fault = "away"
    two.watch(two.den, 1_800_000)
    two.attic.faulty.fault = "none"
    two.household.pass_time(30)
    # Watched there, further, and newer; no poll has seen it.
    two.attic.fake.start(BEN, SAME_FILM)
    two.attic.fake.progress(BEN, 2_400_000)
    two.attic.fake.stop(BEN, 2_400_000)
    two.household.pass_time(600)
    two.household.work()
    assert two.at(two.attic)[0] == 2_400_000
    assert two.household.wanted("attic")["outcome"] == "kept"


def test_only_the_newest_is_told_however_much_was_played_meanwhile(two: Two) -> None:
    for minute in range(1, 4):
        two.watch(two.den, minute * 400_000, told=False)
    two.household.work()
    assert (two.at(two.attic)[0], two.attic.faulty.write_count) == (1_200_000, 1)


def test_two_servers_that_make_another_value_of_what_they_are_told_talk_no_more_than_once(two: Two) -> None:
    for home in (two.den, two.attic):
        home.fake.bends = lambda ticks: ticks + 20_000 * TICKS if ticks else ticks
    two.watch(two.den, 1_800_000)
    writes = two.household.go_round(10)
    assert writes <= 5
    assert two.household.go_round(5) == 0
    assert two.at(two.den)[0] == 1_800_000


def test_a_server_that_was_put_back_to_a_backup_does_not_take_the_other_with_it(two: Two) -> None:
    two.watch(two.den, 1_200_000)
    two.household.go_round(1)
    old = two.attic.fake.backup()
    two.watch(two.den, 2_400_000)
    two.household.go_round(1)
    two.attic.fake.restore(old)
    two.household.pass_time(3_600)
    assert two.household.go_round(3) == 0
    assert two.at(two.den)[0] == 2_400_000


def test_off_by_default_nothing_is_told(two: Two) -> None:
    two.household.query("UPDATE core.source_upstreams SET forward_since = NULL")
    two.watch(two.den, 1_800_000)
    assert two.household.tasks() == {}
    assert two.at(two.attic) == NOWHERE


def test_what_was_decided_before_it_was_turned_on_is_not_told(two: Two) -> None:
    two.household.query("UPDATE core.source_upstreams SET forward_since = now() + interval '1 day'")
    two.watch(two.den, 1_800_000)
    assert two.household.tasks() == {}


@pytest.mark.parametrize(
    "there",
    [
        {"provider_ids": '[["imdb", "tt2"]]'},
        {"provider_ids": '[["imdb", "tt1"], ["imdb", "tt1"]]', "media_kind": "audiobook"},
        {"provider_ids": '[["plex", "tt1"]]'},
        {"status": "missing"},
        {"merged": True},
    ],
    ids=["another film", "another kind", "no catalogue", "gone", "ended in another"],
)
def test_what_is_not_the_same_media_is_not_told(two: Two, there: dict[str, object]) -> None:
    for name, value in there.items():
        two.household.query(f"UPDATE model.media_items SET {name} = %s WHERE media_id = %s", value, two.same)
    two.watch(two.den, 1_800_000)
    assert two.household.tasks() == {}


def test_where_one_catalogue_agrees_and_another_does_not_it_is_another_media(two: Two) -> None:
    two.household.query("""UPDATE model.media_items SET provider_ids = '[["imdb", "tt1"], ["tmdb", "7"]]'""")
    two.household.query(
        """UPDATE model.media_items SET provider_ids = '[["imdb", "tt1"], ["tmdb", "8"]]' WHERE media_id = %s""",
        two.same,
    )
    two.watch(two.den, 1_800_000)
    assert two.household.tasks() == {}


def test_another_persons_account_is_not_told(two: Two) -> None:
    two.household.query("UPDATE core.users SET user_ref = 'other' WHERE source_id = 'attic'")
    two.watch(two.den, 1_800_000)
    assert two.household.tasks() == {}


def test_a_replayed_log_tells_nothing_again(two: Two) -> None:
    two.watch(two.den, 1_800_000)
    two.watch(two.den, 1_830_000, 5_900_000)
    writes, plays = two.attic.faulty.write_count, two.at(two.attic)[2]
    records = list(two.household.decisions)
    two.household.project(records)
    two.household.work()
    assert (two.attic.faulty.write_count, two.at(two.attic)[2]) == (writes, plays)
    assert two.household.query("SELECT count(*) FROM core.forward_plays") == [(0,)]


def test_listened_in_jellyfin_it_goes_on_in_audiobookshelf_and_back(household: Household) -> None:
    clock = household.clock
    book, length_s = "book-1", 20_000.0
    shelf = audiobookshelf.FakeAudiobookshelf(clock, {book: length_s})
    abs_home = household.add(
        "shelf", "audiobookshelf", shelf, audiobookshelf.USER, Account("ana", "api_key", audiobookshelf.TOKEN)
    )
    jelly = FakeJellyfin(clock, {FILM: int(length_s * 1000)})
    den = household.add("den", "jellyfin", jelly, ANA, Account("", "api_key", TOKEN))
    isbn = {"isbn": "9780000000002"}
    household.item(abs_home, book, int(length_s * 1000), isbn, "audiobook", "book")
    household.item(den, FILM, int(length_s * 1000), isbn, "audiobook", "audiobook")

    jelly.start(ANA, FILM)
    household.pass_time(20)
    jelly.progress(ANA, 3_600_000)
    jelly.stop(ANA, 3_600_000)
    household.poll(den)
    household.work()
    assert shelf._row(book)["currentTime"] == 3_600
    assert shelf._row(book)["progress"] == pytest.approx(0.18)

    household.pass_time(60)
    session = shelf.play(book)
    household.pass_time(60)
    shelf.sync(session, 3_660.5, 60)
    household.poll(abs_home)
    household.work()
    assert jelly.data[ANA, FILM]["PlaybackPositionTicks"] // TICKS == 3_660_500
    assert household.go_round() == 0
    assert household.letters.written == []


def test_nothing_is_wanted_of_a_person_who_was_forgotten(two: Two) -> None:
    two.attic.faulty.fault = "away"
    two.watch(two.den, 1_800_000)
    assert two.household.tasks().keys() == {"attic"}
    event = UserForgotten(event_id="f", correlation_id="c", source_id="operator", received_at=1, user_ref=PERSON)
    before = two.household.decisions[-1]
    # What the batch says of the person before it is forgotten with them.
    batch = [replace(before, offset=before.offset + 1), Record(event, before.partition, before.offset + 2, 1, 1, b"")]
    two.household.project(batch)
    assert two.household.tasks() == {}
    assert two.household.query("SELECT count(*) FROM core.forward_wanted") == [(0,)]


def test_what_is_postponed_is_due_later_and_was_no_attempt(two: Two) -> None:
    two.watch(two.den, 1_800_000, told=False)
    with BlockingDatabase(two.household.settings.postgres.conninfo("worker")) as database:
        lease = Tasks(database).claim("forward")
        assert lease is not None
        lease.postpone(100.0)
        assert Tasks(database).claim("forward") is None
        two.household.pass_time(101)
        again = Tasks(database).claim("forward")
    assert again is not None
    assert again.task.attempt == 1
