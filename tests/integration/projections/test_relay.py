"""The relay on real services."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from projections import relay as relay_module
from projections.base import Invalidation
from projections.models.library_rows import collection_key, item_key
from projections.outbox import write
from projections.relay import Relay
from schemas.placement import partition_of
from schemas.topics import CACHE_INVALIDATED
from streams.runtime import metrics
from streams.runtime.errors import Unavailable
from tests.integration.projections.world import World, eventually, read_all

pytestmark = pytest.mark.services


def invalidation(key: str, version: int) -> Invalidation:
    return Invalidation(key, 1, 3, version, f"e-{version}", f"c-{version}", "home", "progress accepted")


def put(world: World, *invalidations: Invalidation) -> None:
    with world.connect("projector") as tx:
        write(tx, invalidations)


def keys_waiting(world: World) -> list[str]:
    return [key for (key,) in world.query("SELECT cache_key FROM model.outbox ORDER BY id")]


def oldest_s() -> float:
    return metrics.REGISTRY.get_sample_value("playhead_outbox_oldest_seconds") or 0.0


def waiting(world: World) -> int:
    return int(world.query("SELECT count(*) FROM model.outbox")[0][0])


def test_rows_are_published_once_acknowledged_and_gone_repeats_coalesced(world: World, topic_prefix: str) -> None:
    user = topic_prefix
    put(world, invalidation(f"progress:{user}:m", 1), invalidation(f"continue:{user}", 1))
    put(world, invalidation(f"progress:{user}:m", 5), invalidation(f"continue:{user}", 3))
    relay = Relay(world.settings, world.contract)
    assert relay.publish_some()
    assert not relay.publish_some()
    relay.close()

    assert waiting(world) == 0
    found = world.invalidations([user])
    assert {(e.cache_key, e.version, e.correlation_id) for e in found} == {
        (f"progress:{user}:m", 5, "c-5"),
        (f"continue:{user}", 3, "c-3"),
    }
    assert {(e.model_epoch, e.log_epoch, e.partition) for e in found} == {(1, 1, 3)}
    for message in read_all(world.settings.kafka, CACHE_INVALIDATED.name):
        key = message.key() or b""
        if user.encode() in key:
            assert message.partition() == partition_of(key)


def test_what_tells_of_playback_does_not_wait_behind_a_scan_nor_the_scan_for_ever(
    world: World, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "ROWS_MAX", 2)
    monkeypatch.setattr(relay_module, "BULK_ROWS_MAX", 2)
    scanned = [item_key(f"{topic_prefix}-1"), item_key(f"{topic_prefix}-2"), collection_key(f"{topic_prefix}-3")]
    played = [f"progress:{topic_prefix}:{number}" for number in range(3)]
    put(world, *(invalidation(key, 1) for key in (*scanned, *played)))
    relay = Relay(world.settings, world.contract)
    assert relay.publish_some()
    assert keys_waiting(world) == [scanned[2], played[2]]
    assert relay.publish_some()
    assert not relay.publish_some()
    relay.close()
    assert waiting(world) == 0


def test_what_kafka_did_not_acknowledge_stays_and_is_published_again(
    world: World, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world, invalidation(f"progress:{topic_prefix}:m", 1))
    relay = Relay(world.settings, world.contract)
    publish = relay._outlet.publish

    def published_but_unsure(records: Any) -> None:
        publish(records)
        raise Unavailable("no acknowledgement in time")

    monkeypatch.setattr(relay._outlet, "publish", published_but_unsure)
    with pytest.raises(Unavailable):
        relay.publish_some()
    assert waiting(world) == 1
    assert oldest_s() > 0
    monkeypatch.undo()
    assert relay.publish_some()
    assert not relay.publish_some()
    assert oldest_s() == 0
    relay.close()

    first, second = world.invalidations([topic_prefix])
    assert first == second
    assert waiting(world) == 0


def test_a_transaction_that_commits_while_others_are_published_is_not_skipped(
    world: World, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = Relay(world.settings, world.contract)
    publish = relay._outlet.publish
    late = world.connect("projector")
    write(late, [invalidation(f"progress:{topic_prefix}:late", 1)])

    def published_while_it_commits(records: Any) -> None:
        publish(records)
        late.commit()

    put(world, invalidation(f"progress:{topic_prefix}:early", 2))
    monkeypatch.setattr(relay._outlet, "publish", published_while_it_commits)
    assert relay.publish_some()
    assert waiting(world) == 1
    assert relay.publish_some()
    late.close()
    relay.close()
    assert {e.cache_key.rpartition(":")[2] for e in world.invalidations([topic_prefix])} == {"late", "early"}


def test_a_second_relay_stands_by_while_one_is_at_work(world: World, topic_prefix: str) -> None:
    put(world, invalidation(f"progress:{topic_prefix}:m", 1))
    relay = Relay(world.settings, world.contract)
    with world.connect("relay") as other:
        other.execute(relay_module._LOCK)
        assert not relay.publish_some()
        assert waiting(world) == 1
    assert relay.publish_some()
    relay.close()


def test_a_commit_wakes_the_relay(world: World, topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "POLL_S", 3_600.0)
    relay = Relay(world.settings, world.contract)
    stop = threading.Event()
    thread = threading.Thread(target=relay.run, args=(stop,), daemon=True)
    thread.start()
    for version in range(3):
        eventually(lambda: listening(world), "the relay listens")
        put(world, invalidation(f"progress:{topic_prefix}:m", version))
        eventually(lambda: waiting(world) == 0, "the row is published")
    stop.set()
    put(world, invalidation(f"progress:{topic_prefix}:end", 9))
    thread.join(30)
    assert not thread.is_alive()


def listening(world: World) -> bool:
    found = world.query(
        "SELECT 1 FROM pg_stat_activity WHERE usename = 'playhead_relay' AND datname = current_database()"
        " AND query LIKE 'LISTEN%%' AND state = 'idle'"
    )
    return bool(found)
