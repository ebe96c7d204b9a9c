"""Media that are one, as the read API shows them: before the playback agent has joined a person's state, and after."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, cast

import psycopg
import pytest

from projections.models.library import LibraryProjection
from schemas.events import PlaybackDecided, PlaybackReported
from schemas.ids import SchemaIds
from schemas.library import Change
from schemas.placement import playback_key
from streams.agents import playback
from streams.agents import state as rows
from streams.agents.merges import keep, touch
from streams.domain.identity import media_id
from streams.domain.policy import PLAYTHROUGH
from streams.domain.state import shown
from streams.runtime.contract import Contract
from streams.runtime.settings import Settings
from tests.agents.rows import DictRows
from tests.agents.test_playback_agent import Batch, Record
from tests.integration.projections.test_api import ANA, BO, CYD, House
from tests.projections.changes import merged, placed
from tests.projections.decisions import NOW_MS, decision, partition_for

pytestmark = pytest.mark.services

# The id computed for the film's renewed name is the smaller one, and ends all the same.
OLD, NEW = "old-name", "new-name"
SURVIVOR, ENDED = media_id("home", OLD), media_id("home", NEW)
OTHER = "f" * 32
NEVER = "e" * 32
MINUTE = 60_000


@pytest.fixture
def house(model_settings: Settings) -> House:
    return House(model_settings)


@pytest.fixture
def merge(model_settings: Settings) -> Any:
    """Tells the read models of a merge, as the library projection does."""

    def tell(ended: str, survivor: str, version: int = 0) -> None:
        with psycopg.connect(**model_settings.postgres.conninfo("projector")) as connection:
            connection.execute(
                "INSERT INTO model.media_merges VALUES (%s, %s, 3, 1, %s)"
                " ON CONFLICT (media_id) DO UPDATE SET survivor = excluded.survivor",
                (ended, survivor, version),
            )

    return tell


def play_both(house: House) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ana finished the film under its old name long ago, and is in the middle of it under its new one."""
    house.decide(
        user_ref=ANA, media_id=SURVIVOR, event_id="e-old", kind="finish", phase="finished", resume_position_ms=None,
        event_time=NOW_MS - 90 * MINUTE, played=True, play_count=2, last_played_at=NOW_MS - 90 * MINUTE,
        play_counted=True, listened_ms=7_000, listened_added_ms=7_000,
    )  # fmt: skip
    house.decide(
        user_ref=ANA, media_id=ENDED, event_id="e-new", position_ms=2_400_000, resume_position_ms=2_400_000,
        listened_ms=5_000, listened_added_ms=5_000, epoch=3, device_id="phone",
    )  # fmt: skip
    return tuple(house.get(f"/v1/users/ana/progress/{name}").json() for name in (OLD, NEW))


def test_before_a_merge_is_told_two_media_are_two(house: House) -> None:
    old, new = play_both(house)
    assert (old["media"], new["media"]) == (SURVIVOR, ENDED)
    assert len(house.ids("/v1/users/ana/progress")) == 2


def test_a_merge_is_seen_at_once_under_either_name(house: House, merge: Any) -> None:
    _, new = play_both(house)
    merge(ENDED, SURVIVOR)
    answers = [house.get(f"/v1/users/ana/progress/{name}") for name in (OLD, NEW, SURVIVOR, ENDED)]
    documents = [answer.json() for answer in answers]
    for document in documents:
        assert document == documents[0]
    joined = documents[0]
    assert joined["media"] == SURVIVOR
    for name in ("position_ms", "resume_position_ms", "phase", "epoch", "event_time", "device_id", "source_event_id"):
        assert joined[name] == new[name]
    assert (joined["played"], joined["play_count"], joined["listened_ms"]) == (True, 2, 12_000)
    assert joined["last_played_at"] == NOW_MS - 90 * MINUTE
    assert joined["version"] == new["version"]
    assert {answer.headers["ETag"] for answer in answers} == {answers[0].headers["ETag"]}


def test_a_merge_moves_every_entity_tag_though_no_version(house: House, merge: Any) -> None:
    play_both(house)
    house.decide(user_ref=ANA, media_id=OTHER, event_id="e-other")
    paths = [f"progress/{NEW}", "progress", "continue", f"history/{NEW}"]
    before = {path: house.get(f"/v1/users/ana/{path}").headers["ETag"] for path in paths}
    merge(ENDED, SURVIVOR)
    for path, etag in before.items():
        answer = house.get(f"/v1/users/ana/{path}", headers={"If-None-Match": etag})
        assert answer.status_code == 200, path
        again = house.get(f"/v1/users/ana/{path}", headers={"If-None-Match": answer.headers["ETag"]})
        assert again.status_code == 304, path


def test_lists_have_one_entry_and_its_state_decides_whether_it_can_be_resumed(house: House, merge: Any) -> None:
    play_both(house)
    house.decide(user_ref=ANA, media_id=OTHER, event_id="e-other", event_time=NOW_MS - 95 * MINUTE)
    merge(ENDED, SURVIVOR)
    assert house.ids("/v1/users/ana/continue") == [SURVIVOR, OTHER]
    assert house.ids("/v1/users/ana/progress") == sorted([SURVIVOR, OTHER])
    # The newest word about the film is now that it is finished, under the old name.
    house.decide(
        user_ref=ANA, media_id=SURVIVOR, event_id="e-end", kind="finish", phase="finished", resume_position_ms=None,
        event_time=NOW_MS + MINUTE,
    )  # fmt: skip
    assert house.ids("/v1/users/ana/continue") == [OTHER]


def test_pages_of_a_list_hold_every_media_that_stays_once(house: House, merge: Any) -> None:
    dice = random.Random(5)
    ids = [f"{dice.getrandbits(128):032x}" for _ in range(14)]
    for number, one in enumerate(ids):
        house.decide(user_ref=ANA, media_id=one, event_id=f"e-{number}")
    house.decide(user_ref=BO, media_id=ids[0], event_id="e-bo")
    stays = set(ids)
    for ended, survivor in ((ids[0], ids[1]), (ids[2], ids[1]), (ids[3], "0" * 32), (ids[4], "e" * 32)):
        merge(ended, survivor)
        stays = (stays - {ended}) | {survivor}
    assert house.ids("/v1/users/ana/progress") == sorted(stays)
    assert sorted(house.ids("/v1/users/ana/continue")) == sorted(stays)
    assert house.ids("/v1/users/bo/progress") == [ids[1]]


def test_what_the_agent_has_joined_is_counted_once(house: House, merge: Any) -> None:
    play_both(house)
    joined = {
        "user_ref": ANA, "media_id": SURVIVOR, "event_id": "e-joined", "position_ms": 2_460_000, "epoch": 3,
        "played": True, "play_count": 2, "last_played_at": NOW_MS - 90 * MINUTE, "listened_ms": 13_000,
        "event_time": NOW_MS + MINUTE, "joined": (ENDED,),
    }  # fmt: skip
    last = house.decide(**joined)
    merge(ENDED, SURVIVOR)
    for name in (OLD, NEW):
        document = house.get(f"/v1/users/ana/progress/{name}").json()
        assert (document["media"], document["position_ms"]) == (SURVIVOR, 2_460_000)
        assert (document["play_count"], document["listened_ms"]) == (2, 13_000)
        assert document["version"]["offset"] == last.offset
    assert house.ids("/v1/users/ana/progress") == [SURVIVOR]


def test_a_survivor_that_ended_itself_hands_on_what_it_took_in(house: House, merge: Any) -> None:
    play_both(house)
    house.decide(
        user_ref=ANA, media_id=SURVIVOR, event_id="e-joined", play_count=2, listened_ms=13_000, played=True,
        event_time=NOW_MS + MINUTE, joined=(ENDED,),
    )  # fmt: skip
    house.decide(user_ref=ANA, media_id=OTHER, event_id="e-other", listened_ms=100, event_time=NOW_MS - MINUTE)
    merge(ENDED, OTHER)
    merge(SURVIVOR, OTHER)
    document = house.get(f"/v1/users/ana/progress/{NEW}").json()
    assert (document["media"], document["play_count"], document["listened_ms"]) == (OTHER, 2, 13_100)
    assert house.ids("/v1/users/ana/progress") == [OTHER]


def test_history_plays_listening_and_explanations_are_of_the_survivor(
    house: House, merge: Any, model_settings: Settings
) -> None:
    play_both(house)
    merge(ENDED, SURVIVOR)
    for name in (OLD, NEW):
        document = house.get(f"/v1/users/ana/history/{name}").json()
        assert document["media"] == SURVIVOR
        assert [item["event_id"] for item in document["items"]] == ["e-new", "e-old"]
        assert house.ids(f"/v1/users/ana/history/{name}", "event_id") == ["e-new", "e-old"]
        assert house.get(f"/v1/events/e-new?media={name}").json()["media"] == SURVIVOR
    with psycopg.connect(**model_settings.postgres.conninfo("reader")) as connection:
        assert connection.execute("SELECT media_id, decided_media_id FROM api.plays").fetchall() == [
            (SURVIVOR, SURVIVOR)
        ]
        assert connection.execute("SELECT media_id, listened_ms FROM api.listening_days").fetchall() == [
            (SURVIVOR, 12_000)
        ]
        assert connection.execute("SELECT media_id, joined FROM api.progress").fetchall() == [(SURVIVOR, [ENDED])]
        assert connection.execute("SELECT media_id FROM api.continue_watching").fetchall() == [(SURVIVOR,)]


def test_joined_when_read_is_what_the_agent_joins(house: House, merge: Any) -> None:
    """Whatever was played, before and after the agent touched it, and whichever side knows of the merges first."""
    contract = Contract(SchemaIds(), registry=None)
    fields = (
        "position_ms",
        "phase",
        "epoch",
        "played",
        "play_count",
        "listened_ms",
        "event_time",
        "resume_position_ms",
    )
    for seed in range(6):
        dice = random.Random(seed)
        person, names = f"{dice.getrandbits(128):032x}", [f"{dice.getrandbits(128):032x}" for _ in range(3)]
        progress = DictRows()
        aliases: dict[bytes, bytes] = {}
        merges = [(names[0], names[1]), (names[1], names[2])]
        for step in range(30):
            if step in (14, 20):
                keep(aliases, *merges[0 if step == 14 else 1])
            name = dice.choice(names)
            decided = _decide(contract, progress, aliases, _report(dice, person, name, step))
            house.decide(**{field: getattr(decided, field) for field in PlaybackDecided.__dataclass_fields__})
        merge(names[0], names[2], seed)
        merge(names[1], names[2], seed)
        for name in names:
            wanted = touch(aliases, dict(progress), person, name).state
            assert wanted is not None
            document = house.get(f"/v1/users/{person}/progress/{name}", "operator").json()
            assert document["media"] == names[2]
            assert {field: document[field] for field in fields} == {
                field: shown(wanted).get(field) for field in fields
            }, (seed, name)


def _report(dice: random.Random, person: str, media: str, step: int) -> PlaybackReported:
    when = NOW_MS - 100 * MINUTE + step * MINUTE
    return PlaybackReported(
        event_id=f"{person}-{step}",
        correlation_id="c",
        source_id="home",
        occurred_at=when,
        received_at=when,
        user_ref=person,
        media_id=media,
        session_id=dice.choice(("tv", "phone")) + media,
        kind=dice.choice(("progress", "progress", "pause", "seek", "finish", "mark_played")),
        position_ms=dice.randrange(0, 7_000_000),
        duration_ms=7_200_000,
        listened_ms=step * 10_000,
        media_kind="video",
    )


def _decide(
    contract: Contract, progress: DictRows, aliases: dict[bytes, bytes], report: PlaybackReported
) -> PlaybackDecided:
    batch = Batch(partition=partition_for(cast(Any, report)))
    record = Record(playback_key(report.user_ref, report.media_id), contract.encode(report), _partition=batch.partition)
    assert playback.process(cast(Any, batch), cast(Any, record), progress, aliases, {}, contract, PLAYTHROUGH)
    decided = contract.decode(batch.sent[0][1])
    assert isinstance(decided, PlaybackDecided)
    row = progress[playback_key(decided.user_ref, decided.media_id)]
    assert rows.decode(row).play_count == decided.play_count
    return replace(decided, logged_at=NOW_MS)


@pytest.fixture
def tell(model_settings: Settings) -> Any:
    """Has the library projection fold merges, in one batch; what it invalidates of playback, by key."""
    made: list[Change] = []

    def fold(*pairs: tuple[str, str]) -> dict[str, tuple[Any, ...]]:
        made.extend(merged(ended, survivor, len(made) + number) for number, (ended, survivor) in enumerate(pairs))
        projection = LibraryProjection()
        with psycopg.connect(**model_settings.postgres.conninfo("projector"), autocommit=True) as connection:
            projection.prepare(connection)
            with connection.transaction():
                folded = projection.fold(placed(made)[-len(pairs) :], connection)
        of_playback = [one for one in folded.invalidations if not one.cache_key.startswith("item:")]
        assert len({one.cache_key for one in of_playback}) == len(of_playback)
        return {
            one.cache_key: (one.log_epoch, one.partition, one.version, one.reason, one.source_id) for one in of_playback
        }

    return fold


def test_a_merge_alone_invalidates_what_is_shown_of_those_who_played_what_ended(house: House, tell: Any) -> None:
    play_both(house)
    house.decide(user_ref=BO, media_id=SURVIVOR, event_id="e-bo")
    house.decide(user_ref=CYD, media_id=ENDED, event_id="e-cyd")
    last = house.decide(user_ref=ANA, media_id=OTHER, event_id="e-other")
    lists = (1, last.partition, last.offset, "merged", "home")
    shown = (1, last.partition, last.offset - 1, "merged", "home")
    cyd = (1, partition_for(decision(user_ref=CYD)), 0, "merged", "home")
    assert tell((ENDED, SURVIVOR)) == {
        f"continue:{ANA}": lists,
        f"progress:{ANA}:{SURVIVOR}": shown,
        f"progress:{ANA}:{ENDED}": shown,
        **dict.fromkeys((f"continue:{CYD}", f"progress:{CYD}:{SURVIVOR}", f"progress:{CYD}:{ENDED}"), cyd),
    }
    version = house.get(f"/v1/users/ana/progress/{OLD}").json()["version"]
    assert (version["partition"], version["offset"]) == (last.partition, last.offset - 1)
    assert tell((NEVER, SURVIVOR)) == {}, "nobody played that"


def test_merges_one_after_the_other_invalidate_every_name_that_leads_to_what_stays(house: House, tell: Any) -> None:
    play_both(house)
    assert tell((ENDED, SURVIVOR)).keys() == {f"continue:{ANA}", *(f"progress:{ANA}:{m}" for m in (ENDED, SURVIVOR))}
    assert tell((SURVIVOR, OTHER)).keys() == {
        f"continue:{ANA}",
        *(f"progress:{ANA}:{media}" for media in (ENDED, SURVIVOR, OTHER)),
    }


def test_a_decision_under_a_media_that_has_ended_invalidates_what_it_is_shown_in(house: House, tell: Any) -> None:
    play_both(house)
    tell((ENDED, SURVIVOR))
    late = house.decide(user_ref=ANA, media_id=ENDED, event_id="e-late", position_ms=2_500_000)
    assert {one.cache_key for one in house.invalidated} == {
        f"continue:{ANA}", f"progress:{ANA}:{ENDED}", f"progress:{ANA}:{SURVIVOR}",
    }  # fmt: skip
    assert {one.version for one in house.invalidated} == {late.offset}
