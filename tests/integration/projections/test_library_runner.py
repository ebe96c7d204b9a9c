"""The library projection behind the runner: from Kafka to rows, repeats and strangers in its topic included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from projections.digest import TABLES
from projections.models.library import LibraryProjection
from projections.offsets import rewind
from projections.runner import Runner
from schemas.library import Change
from schemas.topics import LIBRARY_CHANGED, Topic
from streams.runtime.settings import Settings
from tests.integration.projections.world import World, eventually
from tests.projections.changes import Libraries, aliased, item, partition_for
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


def names(world: World) -> list[tuple[str, str]]:
    """What doors find."""
    return [
        (row[0], row[1])
        for row in world.query("SELECT upstream_media, media_id FROM core.media_aliases ORDER BY source_id, 1")
    ]


def version(world: World) -> int:
    return int(world.query("SELECT coalesce(sum(version), 0) FROM core.alias_versions")[0][0])


def test_where_doors_look_is_what_the_library_told_last_and_its_version_tells_that_it_changed(changed: World) -> None:
    changed.query("INSERT INTO core.media_aliases VALUES ('home', 'tr-1', %s)", "a" * 32)  # as a door computed it
    put(changed, [aliased("tr-1", "b" * 32, 1)])
    project(changed, 1)
    assert (names(changed), version(changed)) == ([("tr-1", "b" * 32)], 1)
    put(changed, [item(number=2), aliased("tr-1", "b" * 32, 3)])
    project(changed, 3)
    assert version(changed) == 1, "nothing was given to another media"
    put(changed, [aliased("tr-1", "c" * 32, 4), aliased("tr-2", "d" * 32, 5), aliased("tr-1", "a" * 32, 6)])
    project(changed, 6)
    assert names(changed) == [("tr-1", "a" * 32), ("tr-2", "d" * 32)]
    assert version(changed) > 1


@pytest.mark.parametrize("lost", ["DELETE FROM core.media_aliases", "UPDATE core.media_aliases SET media_id = 'old'"])
def test_replaying_the_log_brings_back_what_doors_look_up_and_leaves_alone_what_they_computed(
    changed: World, lost: str
) -> None:
    put(changed, [aliased("tr-1", "b" * 32, 1), aliased("tr-1", "c" * 32, 2), aliased("tr-2", "d" * 32, 3)])
    project(changed, 3)
    digests = changed.digests()
    assert digests["media_aliases"].rows == 2
    before = version(changed)
    changed.query(lost)
    assert changed.digests() != digests
    changed.query("INSERT INTO core.media_aliases VALUES ('home', 'computed', %s)", "f" * 32)
    rewind(changed.settings.postgres.conninfo("projector"), "library")
    project(changed, 3)
    assert changed.digests() == digests
    assert ("computed", "f" * 32) in names(changed)
    assert version(changed) > before


def test_every_table_is_in_the_digest_or_of_no_log(changed: World) -> None:
    found = changed.query(
        "SELECT table_schema, table_name FROM information_schema.tables"
        " WHERE table_schema IN ('core', 'model') AND table_type = 'BASE TABLE' AND table_name !~ '_(d[0-9]+|other)$'"
    )
    of_doors_and_workers = {
        *("sources", "tokens", "users", "source_upstreams", "source_accounts", "source_trees", "schedules"),
        *("poll_state", "poll_health", "forward_sent", "alias_versions", "alembic_version"),
        # What operators said, made or asked for; who was forgotten is told to the log, and kept beside it.
        *("dead_letter_marks", "dlq_audit", "backups", "reconcile_runs", "forgotten_people", "forgotten_accounts"),
        # Written beside the log's own side of it by workers, and deleted when told.
        *("forward_wanted", "forward_plays"),
    }
    of_projections_themselves = {"offsets", "breakers", "epoch", "outbox", "applied_sql"}
    counted = {(part.schema, table) for table, part in TABLES.items()}
    other = {("core", table) for table in of_doors_and_workers} | {
        ("model", table) for table in of_projections_themselves
    }
    assert set(found) - counted - other == set()
    assert counted <= set(found)
