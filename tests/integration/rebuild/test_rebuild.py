"""The playback model made anew beside the live one: equal to it, put in its place, and back."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager

import pytest

from projections.rebuild import tables
from projections.rebuild.entry import discard
from projections.rebuild.running import Rebuild
from projections.rebuild.starts import Beginning, FromOffset, Start
from schemas.events import UserForgotten
from schemas.placement import partition_of
from streams.runtime.errors import ConfigurationError
from tests.integration.projections.world import World, expect_rows, projection_of
from tests.projections.decisions import Household, fold, placed

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("rebuild"), pytest.mark.long]


def household(seed: int) -> Household:
    """Of the last days: explanations of long ago are not rebuilt."""
    return Household(seed, now_ms=int((time.time() - 86_400) * 1000))


def rebuild_of(world: World, schema: str = tables.NEXT) -> AbstractContextManager[Rebuild]:
    return Rebuild(projection_of(world.topic), world.settings, world.contract, schema=schema)


def rebuilt(world: World, start: Start | None = None) -> None:
    """Rebuild, hold against the live model, switch."""
    with rebuild_of(world) as rebuild:
        rebuild.open(start or Beginning())
        assert rebuild.catch_up()
        assert [one for one in rebuild.compare() if not one.equal] == []
        rebuild.switch()


def test_a_rebuilt_model_equals_the_live_one_and_takes_its_place(world: World) -> None:
    events = household(60).decisions(2_000)
    world.produce(events[:1_500])
    world.project(1_500)
    before = world.digests()
    shapes = world.query(SHAPES)
    world.query("DELETE FROM model.outbox")

    rebuilt(world)

    assert world.digests() == before
    assert world.query(SHAPES) == shapes
    assert world.query("SELECT cache_key, model_epoch FROM model.outbox") == [("model", 2)]
    # The live projection goes on in the new tables, and readers see them.
    world.produce(events[1_500:])
    world.project(2_000)
    expect_rows(world.rows(), fold(placed(events)))
    [(shown,)] = world.query("SELECT count(*) FROM api.progress WHERE model_epoch = 2", role="reader")
    assert shown == len(world.rows()["playback_progress"])


def test_what_was_lost_or_changed_is_told_by_key_and_made_good(world: World) -> None:
    events = household(61).decisions(1_000)
    world.produce(events)
    world.project(1_000)
    before = world.digests()
    world.query("UPDATE model.playback_progress SET position_ms = position_ms + 1 WHERE ctid = '(0,1)'")
    world.query("DELETE FROM model.plays WHERE ctid = '(0,1)'")
    world.query("INSERT INTO model.user_versions VALUES ('nobody', 0, 1, 1)")

    with rebuild_of(world) as rebuild:
        rebuild.open(Beginning())
        rebuild.catch_up()
        found = {one.table: one for one in rebuild.compare() if not one.equal}
        assert {table: [(d.how, sorted(d.values)) for d in one.shown] for table, one in found.items()} == {
            "playback_progress": [("differs", ["position_ms"])],
            "plays": [("extra", [])],
            "user_versions": [("missing", [])],
        }
        assert {one.differing for one in found.values()} == {1}
        assert found["user_versions"].shown[0].key == {"user_ref": "nobody"}
        rebuild.switch()

    assert world.digests() == before


def test_a_rollback_brings_the_former_tables_back_up_to_date(world: World) -> None:
    events = household(62).decisions(900)
    world.produce(events[:600])
    world.project(600)
    rebuilt(world)
    world.produce(events[600:])
    world.project(900)

    with rebuild_of(world, tables.FORMER) as back:
        assert back.open(None)
        assert back.catch_up()
        assert back.switch().model_epoch == 3

    expect_rows(world.rows(), fold(placed(events)))
    assert discard(world.settings, tables.FORMER)
    assert not discard(world.settings, tables.FORMER)


@pytest.mark.parametrize("offset", [1, 90, 10_000])
def test_a_rebuild_from_an_offset_takes_what_came_before_from_the_live_model(world: World, offset: int) -> None:
    events = household(63).decisions(1_200)
    world.produce(events)
    world.project(1_200)

    rebuilt(world, FromOffset(offset))

    expect_rows(world.rows(), fold(placed(events)))


def test_a_rebuild_goes_on_with_its_own_schema_only(world: World) -> None:
    world.produce(household(64).decisions(50))
    world.project(50)
    with rebuild_of(world) as rebuild:
        assert not rebuild.open(Beginning())
        assert rebuild.open(Beginning())
        with pytest.raises(ConfigurationError, match="another rebuild is at work"), rebuild_of(world):
            pass
        with pytest.raises(ConfigurationError, match="another rebuild in schema"):
            rebuild.open(FromOffset(7))


def test_the_bulk_fold_makes_the_rows_of_the_usual_one_whatever_its_batches(world: World) -> None:
    events = household(65).decisions(3_000)
    world.produce(events[:1_500])
    gone = events[0].user_ref
    forget = UserForgotten(event_id="f", correlation_id="c", source_id="playhead", received_at=1, user_ref=gone)
    world.put(gone.encode(), world.contract.encode(forget), partition_of(gone.encode()))
    world.produce(events[1_500:])
    world.put(b"no", b"poison", 3)
    world.project(3_002)

    for records_max in (17, 20_000):
        with Rebuild(projection_of(world.topic), world.settings, world.contract, records_max=records_max) as rebuild:
            rebuild.open(Beginning())
            rebuild.catch_up()
            assert [one for one in rebuild.compare() if not one.equal] == []
            assert (rebuild.records, rebuild.poison) == (3_002, 1)
            rebuild.drop()


SHAPES = """
SELECT c.relname, c.relkind, c.reloptions, pg_get_userbyid(c.relowner),
    CASE WHEN c.relkind IN ('r', 'p') THEN coalesce(c.relacl, acldefault('r', c.relowner))::text END,
    CASE WHEN c.relkind IN ('i', 'I') THEN pg_get_indexdef(c.oid) END,
    ARRAY(SELECT pg_get_constraintdef(k.oid) || k.conname FROM pg_constraint k WHERE k.conrelid = c.oid ORDER BY 1),
    ARRAY(SELECT format('%s %s %s %s %s', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated,
                        col_description(c.oid, a.attnum)) FROM pg_attribute a
          WHERE a.attrelid = c.oid AND a.attnum > 0 ORDER BY a.attnum)
FROM pg_class c WHERE c.relnamespace = 'model'::regnamespace ORDER BY 1"""
