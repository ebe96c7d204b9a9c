"""The playback projection on real services: rows equal the fold, replays and repeats change nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from projections.flood import resume
from projections.offsets import rewind
from schemas.events import SourcePosition
from streams.runtime.deadletter import dead_letter_id
from streams.runtime.errors import ConfigurationError
from streams.runtime.kafka import topic_id
from tests.integration.projections.world import World, eventually, expect_rows
from tests.projections.decisions import Household, decision, fold, key_of, partition_for, placed

pytestmark = pytest.mark.services


def test_rows_equal_the_fold_of_the_log(world: World) -> None:
    events = Household(1).decisions(3_000)
    world.produce(events)

    world.project(len(events))

    expect_rows(world.rows(), fold(placed(events)))


def test_replaying_the_whole_log_changes_nothing(world: World) -> None:
    events = Household(2).decisions(2_000)
    world.produce(events)
    world.project(len(events))
    before, outbox = world.digests(), world.query("SELECT count(*) FROM model.outbox")

    rewind(world.settings.postgres.conninfo("projector"), "playback")
    assert world.applied() == 0
    world.project(len(events))

    assert world.digests() == before
    assert world.query("SELECT count(*) FROM model.outbox") == outbox


def test_a_batch_that_kafka_kept_twice_is_dropped_by_its_cause(world: World) -> None:
    events = Household(3).decisions(300)
    world.produce(events[:200])
    world.project(200)
    before, outbox = world.digests(), world.query("SELECT count(*) FROM model.outbox")

    world.produce(events[150:200])
    world.project(250)

    assert world.digests() == before
    assert world.query("SELECT count(*) FROM model.outbox") == outbox
    world.produce(events[200:])
    world.project(350)
    log = placed([*events[:200], *events[150:200], *events[200:]])
    expect_rows(world.rows(), fold([*log[:200], *log[250:]]))


def test_another_reported_topic_begins_its_causes_anew(world: World) -> None:
    first = Household(4).decisions(100)
    anew = [replace(e, cause=replace(e.cause, topic_id="bmV3LXRvcGljLWlk")) for e in Household(4).decisions(100)]
    world.produce([*first, *anew])

    world.project(200)

    expect_rows(world.rows(), fold(placed([*first, *anew])))


def test_every_changed_key_has_an_outbox_row_with_the_version_of_its_row(world: World) -> None:
    events = Household(5).decisions(500)
    world.produce(events)
    world.project(len(events))

    newest = dict(world.query("SELECT cache_key, max(version) FROM model.outbox GROUP BY 1"))
    rows = world.rows()
    expected = {f"progress:{user}:{media}": row["version"] for (user, media), row in rows["playback_progress"].items()}
    expected |= {f"continue:{user}": row["version"] for (user,), row in rows["user_versions"].items()}
    assert newest == expected


def test_poison_lands_in_dead_letters_with_its_bytes_and_leaves_its_neighbours_alone(world: World) -> None:
    events = Household(6, users=1).decisions(40)
    home = partition_for(events[0])
    good = decision(user_ref=events[0].user_ref, media_id="x" * 32)
    value = world.contract.encode(good)
    misplaced = decision(user_ref="9" * 32, cause=SourcePosition("t", home, 0, 0))
    assert partition_for(misplaced) != home
    poison: list[tuple[bytes | None, bytes | None, str]] = [
        (b"k", b"garbage", "bad_magic"),
        (b"k", b"\0\x3f\xff\xff\xff" + value[5:], "unknown_schema"),
        (key_of(good), value[:-4], "truncated"),
        (b"k", b"\0" + b"x" * (256 * 1024 - 200), "unknown_schema"),
        (None, value, "null_key"),
        (key_of(good), None, "null_value"),
        (b"u:m", value, "key_mismatch"),
        (key_of(misplaced), world.contract.encode(misplaced), "wrong_partition"),
    ]
    log = placed([])
    world.produce(events[:20])
    for key, bytes_, _ in poison:
        world.put(key, bytes_, home)
    world.produce(events[20:])

    world.project(len(events) + len(poison))

    log = [replace(p, offset=p.offset + (len(poison) if p.offset >= 20 else 0)) for p in placed(events)]
    expect_rows(world.rows(), fold(log))
    letters = world.dead_letters()
    assert [(x.key, x.value, x.cause_class) for x in letters] == poison
    assert [x.offset for x in letters] == list(range(20, 20 + len(poison)))
    their_topic = topic_id(world.settings.kafka, world.topic.name)
    assert {x.event_id for x in letters} == {
        dead_letter_id(their_topic, home, offset, "projection.playback") for offset in range(20, 20 + len(poison))
    }


def test_a_flood_stops_the_projection_over_restarts_until_it_is_resumed(world: World) -> None:
    good = Household(7, users=1).decisions(30)
    home = partition_for(good[0])
    world.produce(good[:20])
    world.project(20)
    for _ in range(120):
        world.put(b"k", b"garbage", home, flush=False)
    world.produce(good[20:])

    with world.running() as running:
        said = running.ended_with(ConfigurationError)
    assert "100 dead letters in a row" in said
    assert "dlq resume" in said
    with world.running() as running:
        assert "dlq resume" in running.ended_with(ConfigurationError)
    passed = world.applied()
    assert passed < 150
    assert len(world.dead_letters()) == passed - 20

    assert resume(world.settings.postgres.conninfo("projector"), "projection.playback")
    assert not resume(world.settings.postgres.conninfo("projector"), "projection.playback")
    world.project(150)

    assert len(world.dead_letters()) == 120
    assert world.query("SELECT count(*) FROM model.processed_events") == [(30,)]


def test_events_of_today_lie_in_the_partition_of_the_day(world: World) -> None:
    [(now,)] = world.query("SELECT (extract(epoch FROM now()) * 1000)::bigint")
    old = decision(user_ref="7" * 32, logged_at=now - 40 * 86_400_000)
    today = decision(user_ref="7" * 32, media_id="x" * 32, logged_at=now, cause=replace(old.cause, offset=1))
    world.produce([old, today])
    world.project(2)

    found = dict(world.query("SELECT media_id, tableoid::regclass::text FROM model.processed_events"))
    assert found["m" * 32] == "model.processed_events_other"
    [(day,)] = world.query("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')")
    assert found["x" * 32] == f"model.processed_events_{day}"


def test_a_projection_catches_up_while_records_arrive(world: World) -> None:
    events = Household(8).decisions(1_200)
    with world.running() as running:
        for start in range(0, len(events), 100):
            world.produce(events[start : start + 100])
        eventually(lambda: not running.thread.is_alive() or world.applied() == len(events), "all is applied")
    expect_rows(world.rows(), fold(placed(events)))
