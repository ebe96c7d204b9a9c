"""``playhead forget`` on a whole Playhead: killed at every step, and tried to be undone in every way."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer

from projections.offsets import rewind
from schemas.topics import PLAYBACK_REPORTED
from streams.cli.admin import door_connection
from streams.ingest.forgetting import read_identities
from streams.runtime.tokens import create_token
from tests.integration.operators.house import House
from tests.integration.projections.world import eventually
from tests.kafka import read_all

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("operators"), pytest.mark.timeout(900), pytest.mark.long]

STEPS = ("forget.kept", "forget.asked", "forget.told")
KEPT = ["core.forgotten_people", "model.forgotten_users"]


def progress_of(house: House, ref: str) -> list[tuple[Any, ...]]:
    return house.rows("SELECT media_id, position_ms FROM api.progress WHERE user_ref = %s ORDER BY 1", ref)


def test_given_a_person_is_forgotten_in_spite_of_kills_then_nothing_brings_them_back(playhead: House) -> None:
    house = playhead
    for user, media in (("anabel", "m1"), ("anabel", "m2"), ("ben", "m1")):
        house.play(user, media, 1, 2, 3)
    ana, ben = house.ref_of("anabel"), house.ref_of("ben")
    with door_connection(house.settings) as connection:
        create_token(connection, "home", ["read"], ana, "anabel's tablet")
        connection.execute(
            "INSERT INTO core.poll_state (source_id, upstream_user, facet, item, seen)"
            " VALUES ('home', 'anabel', 'played', 'm1', '{}')"
        )
    assert len(progress_of(house, ana)) == 2
    theirs = progress_of(house, ben)
    house.command("rebuild", "playback", "--switch", "--yes")
    assert "model_old.playback_progress" in house.tables_that_say(ana)
    log = read_all(house.settings.kafka.bootstrap, PLAYBACK_REPORTED.name, PLAYBACK_REPORTED.partitions)
    old = next(record for record in log if (record.key() or b"").startswith(ana.encode()))

    for step in STEPS:
        house.command("forget", "home/anabel", "--yes", expect=-9, environment={"PLAYHEAD_FAILPOINTS": f"{step}=kill"})
    done = house.document("forget", "home/anabel", "--yes")
    assert (done["user_refs"], done["read_models"]) == ([ana], True)
    assert house.tables_that_say("anabel") == []
    eventually(lambda: house.tables_that_say(ana) == KEPT, "the outbox is published", 180)
    assert progress_of(house, ben) == theirs
    said = read_identities(house.settings.kafka.client())
    assert ana.encode() not in said.values()
    assert sum(value.startswith(b"forgotten:") for value in said.values()) >= 2
    house.command("forget", "home/anabel", "--yes", expect=1)

    # The log as it is, read again; a record of hers copied to its end; a report that was on its way.
    rewind(house.settings.postgres.conninfo("projector"), "playback")
    producer = Producer(house.settings.kafka.client())
    producer.produce(PLAYBACK_REPORTED.name, key=old.key(), value=old.value(), partition=old.partition() or 0)
    assert producer.flush(30) == 0
    late = house.report("anabel", "m1", 9, occurred_at=int(time.time() * 1000) - 3_600_000)
    answer = house.post([late])
    assert answer.status_code == 422
    assert [one["reason"] for one in answer.json()["rejected"]] == ["forgotten"]
    house.send([house.report("ben", "m1", 10)])
    eventually(
        lambda: progress_of(house, ben) == [(theirs[0][0], 610_000)], "what came after is decided and projected", 180
    )
    assert house.tables_that_say("anabel") == []
    eventually(lambda: house.tables_that_say(ana) == KEPT, "the outbox is published", 180)

    # Who plays on is somebody new.
    house.send([house.report("anabel", "m1", 11)])
    new = house.ref_of("anabel")
    assert new != ana
    eventually(lambda: len(progress_of(house, new)) == 1, "somebody new", 180)
    again = house.document("forget", "--again")
    assert ana in again["user_refs"]
    assert house.ref_of("anabel") == new
    assert len(progress_of(house, new)) == 1
    eventually(lambda: house.tables_that_say(ana) == KEPT, "the outbox is published", 180)
