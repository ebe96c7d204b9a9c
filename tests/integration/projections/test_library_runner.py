"""The library projection behind the runner: from Kafka to rows, repeats and strangers in its topic included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from projections.models.library import LibraryProjection
from projections.offsets import rewind
from projections.runner import Runner
from schemas.library import Change
from schemas.topics import LIBRARY_CHANGED, Topic
from streams.runtime.settings import Settings
from tests.integration.projections.world import World, eventually
from tests.projections.changes import Libraries, item, partition_for
from tests.projections.decisions import decision
from tests.stack import Database

pytestmark = pytest.mark.services


def of_topic(topic: Topic) -> LibraryProjection:
    class OfTopic(LibraryProjection):
        pass

    OfTopic.topic = topic
    return OfTopic()


@pytest.fixture
def changed(
    kafka_bootstrap: str,
    shared_topics: None,
    model_settings: Settings,
    database: Database,
    unique_name: Callable[[str], str],
) -> World:
    """A world whose topic is one of changes."""
    kafka = model_settings.kafka.model_copy(update={"bootstrap": kafka_bootstrap})
    made = World(
        model_settings.model_copy(update={"kafka": kafka}),
        replace(LIBRARY_CHANGED, name=unique_name("changed")),
        database.url,
    )
    made.create_topic()
    return made


def project(world: World, count: int) -> None:
    """Run until ``count`` records of the log are passed."""
    runner = Runner(of_topic(world.topic), world.settings, world.contract, group=world.topic.name)
    with world.running(runner) as running:
        eventually(lambda: not running.thread.is_alive() or world.applied() >= count, f"{count} records are passed")


def put(world: World, events: list[Change]) -> None:
    for event in events:
        key = event.source_id.encode()
        world.put(key, world.contract.encode(event), partition_for(event.source_id), flush=event is events[-1])


def test_changes_become_rows_once_whatever_is_repeated_or_lies_between(changed: World) -> None:
    events = Libraries(11).changes(400)
    stranger = decision()
    put(changed, events[:200])
    changed.put(b"home", changed.contract.encode(stranger), partition_for("home"))
    put(changed, [*events[200:], *events[350:]])

    project(changed, 451)

    before = changed.digests()
    assert before["media_items"].rows > 0
    assert changed.query("SELECT count(*) FROM model.outbox WHERE cache_key LIKE 'item:%%'")[0][0] > 0
    assert [letter.cause_class for letter in changed.dead_letters()] == ["wrong_event"]
    outbox = changed.query("SELECT count(*) FROM model.outbox")

    rewind(changed.settings.postgres.conninfo("projector"), "library")
    project(changed, 451)

    assert changed.digests() == before
    assert changed.query("SELECT count(*) FROM model.outbox") == outbox


def test_an_item_of_another_source_in_the_partition_is_a_dead_letter(changed: World) -> None:
    changed.put(b"flat", changed.contract.encode(item()), partition_for("home"))
    put(changed, [item(number=1)])
    project(changed, 2)
    assert [letter.cause_class for letter in changed.dead_letters()] == ["key_mismatch"]
    assert changed.query("SELECT present FROM model.source_state") == [(1,)]
