"""What is played at home is told to every kind of server, once and as it is, whatever that server does with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.runtime.errors import Permanent
from streams.runtime.upstreams import POLLABLE
from tests.integration.forwarding.household import Home, Household
from tests.integration.forwarding.targets import ALL, COUNT_PLAYS, KEEP_POSITIONS, LENGTH_MS, SUPYSONIC, Target
from tests.integration.projections.world import eventually

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("forwarding"), pytest.mark.long]

SONG = "song-at-home"
MBID = {"mbid": "11111111-1111-1111-1111-111111111111"}


class Room:
    """One server that is told what the person's own client says of a long recording at ``home``."""

    def __init__(self, household: Household, target: Target) -> None:
        self.household, self.target = household, target
        self.home = household.quiet("home")
        self.media_kind = "music" if target.kind == "listenbrainz" else "audiobook"
        household.item(self.home, SONG, LENGTH_MS, MBID, self.media_kind, "song")
        self.there: Home = household.add(
            "there", target.kind, target.make(household.clock), target.user, target.account
        )
        if target.item:
            household.item(self.there, target.item, LENGTH_MS, MBID, self.media_kind, "song")

    def say(self, kind: str, position_ms: int | None = None, session_id: str = "s") -> None:
        self.household.pass_time(60)
        self.household.report(
            self.home, SONG, kind, position_ms, duration_ms=LENGTH_MS, media_kind=self.media_kind, session_id=session_id
        )

    def play(self, session_id: str) -> None:
        """From the beginning to the end, once."""
        for kind, position_ms in (("start", 0), ("progress", 60_000), ("progress", 120_000), ("finish", None)):
            self.say(kind, position_ms, session_id)

    @property
    def at(self) -> int:
        return self.target.at(self.there.fake)

    @property
    def plays(self) -> int | None:
        return self.target.plays(self.there.fake)

    @property
    def writes(self) -> int:
        return self.there.faulty.write_count


@pytest.fixture
def room(household: Household, request: pytest.FixtureRequest) -> Room:
    return Room(household, request.param)


def of(targets: dict[str, Target], *always: str) -> pytest.MarkDecorator:
    """All of them, those not named only among the tests of faults; without names all, always."""
    faults = {name: () if name in always or not always else (pytest.mark.faults,) for name in targets}
    return pytest.mark.parametrize(
        "room", [pytest.param(one, id=name, marks=faults[name]) for name, one in targets.items()], indirect=True
    )


@of(KEEP_POSITIONS)
def test_each_server_is_told_where_it_is_and_when_it_is_finished(room: Room) -> None:
    room.say("pause", 600_000)
    room.household.work()
    assert abs(room.at - 600_000) <= 1_000
    room.say("pause", 900_000)
    room.household.work()
    assert abs(room.at - 900_000) <= 1_000
    room.say("seek", 700_000)
    room.household.work()
    assert abs(room.at - 700_000) <= 1_000, "a rewind is the truth, and newer than what was told before"
    room.say("finish")
    room.household.work()
    assert (room.at, room.target.played(room.there.fake)) in [(0, True), (0, None)]
    assert room.plays in (1, None)
    assert room.household.go_round(2) == 0
    assert room.household.letters.written == []


@of(COUNT_PLAYS, "jellyfin", "gonic", "listenbrainz")
@pytest.mark.parametrize("fault", ["answer lost", pytest.param("late", marks=pytest.mark.faults)])
def test_a_play_whose_answer_was_lost_is_counted_once(room: Room, fault: str) -> None:
    room.there.faulty.fault, room.there.faulty.times = fault, 1  # type: ignore[assignment]
    room.say("start", 0)
    room.say("finish")
    room.household.work()
    if fault == "late":
        eventually(lambda: bool(room.there.faulty.late and room.there.faulty.late[0].done()), "the late write is done")
    for _ in range(4):
        room.household.pass_time(30)
        room.household.work()
    assert room.plays == 1
    assert room.household.query("SELECT count(*) FROM core.forward_plays") == [(0,)]
    assert room.household.letters.written == []


@of(COUNT_PLAYS, "jellyfin", "plex", "gonic")
def test_plays_that_were_told_after_a_backup_are_not_told_again_when_it_is_restored(room: Room, tmp_path: Path) -> None:
    household, file = room.household, tmp_path / "b.zip"
    room.play("1")
    household.back_up(file)
    household.work()
    folded = len(household.decisions)
    for session in ("2", "3"):
        room.play(session)
        household.work()
    assert room.plays == 3
    household.pass_time(60)
    household.restore(file)
    household.project(household.decisions[folded:])
    household.work()
    assert room.plays == 3
    assert household.query("SELECT count(*) FROM core.forward_plays") == [(0,)]
    room.play("4")
    household.work()
    assert room.plays == 4, "what is played from then on is told as ever"


@of(KEEP_POSITIONS, "jellyfin", "navidrome")
def test_a_server_that_takes_everything_and_keeps_nothing_is_a_dead_letter(room: Room) -> None:
    room.there.faulty.fault, room.there.faulty.accepted = "ignores", room.target.accepted
    room.say("pause", 600_000)
    for _ in range(8):
        room.household.work()
        room.household.pass_time(300)
    [(task, error)] = room.household.letters.written
    assert isinstance(error, Permanent)
    assert "NotKept" in str(error)
    assert (task.source_id, room.writes) == ("there", 5)


@of(KEEP_POSITIONS, "audiobookshelf", "navidrome")
def test_a_server_that_keeps_another_value_starts_no_loop(room: Room) -> None:
    room.target.bend(room.there.fake, 30_000)
    room.say("pause", 600_000)
    for _ in range(8):
        room.household.work()
        if room.target.kind in POLLABLE:
            room.household.poll(room.there)
        room.household.pass_time(30)
    assert room.writes <= 5
    there = [one for one in room.household.decided() if one.source_id == "there" and one.position_moved]
    assert there == [], "what it made of our value is no news"


@of({"jellyfin": ALL["jellyfin"], "navidrome": ALL["navidrome"]})
def test_what_a_server_refuses_is_a_dead_letter_and_is_told_after_the_repair(room: Room) -> None:
    room.there.faulty.fault = "refuses"
    room.say("pause", 600_000)
    room.household.work()
    [(task, error)] = room.household.letters.written
    assert isinstance(error, Permanent)
    assert str(error).startswith("credentials: ")
    assert room.household.tasks()["there"]["dead_at"] is not None
    # More of it revives the task, but not at once and not with each word.
    room.say("pause", 660_000)
    room.household.work()
    assert len(room.household.letters.written) == 1
    room.there.faulty.fault = "none"
    assert room.household.redrive(task) == 0, "it waits already"
    room.household.pass_time(600)
    room.household.work()
    assert room.at == 660_000


def test_a_dead_letter_is_redriven_at_once_and_once(household: Household) -> None:
    room = Room(household, ALL["jellyfin"])
    room.there.faulty.fault = "gone"
    room.say("pause", 600_000)
    household.work()
    [(task, _)] = household.letters.written
    room.there.faulty.fault = "none"
    assert [household.redrive(task), household.redrive(task)] == [1, 0]
    household.work()
    assert (room.at, room.writes) == (600_000, 2)


@pytest.mark.parametrize("fault", ["away", "fails"])
def test_an_outage_of_an_hour_costs_only_delay(household: Household, fault: str) -> None:
    room = Room(household, ALL["jellyfin"])
    room.there.faulty.fault = fault  # type: ignore[assignment]
    room.say("start", 0)
    for step in range(1, 16):
        household.pass_time(180)
        if step <= 10:
            room.say("progress", step * 180_000)
        household.work()
        # It is in trouble at first, then gone.
        if step == 3:
            room.there.faulty.fault = "away"
    assert room.at == 0
    assert household.letters.written == []
    room.there.faulty.fault = "none"
    writes = room.writes
    for _ in range(4):
        household.pass_time(300)
        household.work()
    assert (room.at, room.writes - writes) == (1_800_000, 1), "the newest, once"
    assert household.tasks()["there"]["attempts"] == 0


def test_a_server_without_bookmarks_is_told_plays_only(household: Household) -> None:
    room = Room(household, SUPYSONIC)
    room.say("pause", 600_000)
    household.work()
    assert (room.writes, household.letters.written) == (0, [])
    room.say("finish")
    household.work()
    assert (room.writes, household.letters.written) == (1, [])
    assert household.query("SELECT count(*) FROM core.forward_plays") == [(0,)]


class Missed:
    """A room where the projection gave up the end of a first listen, and a second one was told since."""

    def __init__(self, room: Room) -> None:
        household = room.household
        room.say("start", 0)
        household.gives_up = True
        room.say("finish")
        household.gives_up = False
        [self.record] = [record for record in household.decisions if record.event.play_counted]
        household.pass_time(600)
        room.say("start", 0, "again")
        room.say("progress", 60_000, "again")
        room.say("finish", session_id="again")
        household.work()
        assert room.plays == 1


@of(COUNT_PLAYS, "jellyfin", "gonic", "listenbrainz")
def test_a_play_whose_decision_was_given_up_is_told_once_when_it_is_folded_late(room: Room) -> None:
    missed = Missed(room)
    room.household.project_late(missed.record)
    room.household.work()
    assert room.plays == 2
    room.household.project([missed.record])
    room.household.work()
    assert room.plays == 2
    assert room.household.query("SELECT count(*) FROM core.forward_plays") == [(0,)]
    assert room.household.letters.written == []


def test_what_a_worker_is_telling_now_is_not_added_to_behind_its_back(household: Household) -> None:
    room = Room(household, ALL["listenbrainz"])
    missed = Missed(room)
    household.query("UPDATE core.tasks SET lease_token = 't', lease_until = now() + interval '1 hour'")
    with pytest.raises(Permanent, match="at this moment"):
        household.project_late(missed.record)
    assert household.query("SELECT count(*) FROM core.forward_plays") == [(0,)]
    household.query("UPDATE core.tasks SET lease_token = NULL, lease_until = NULL")
    household.project_late(missed.record)
    household.work()
    assert room.plays == 2
