"""What a projection could not apply is folded at its own position after the fix, once; nothing newer loses by it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from projections.models.playback import PlaybackProjection
from projections.runner import Runner
from schemas.events import Event, PlaybackDecided
from streams.local.valkey import ValkeyServer
from streams.runtime.errors import Permanent
from streams.runtime.kafka import topic_id
from tests.integration.caches.kitchen import Kitchen
from tests.integration.dlq.office import Office
from tests.integration.projections.world import World, decided_topic, eventually, expect_rows, projection_of
from tests.projections.decisions import Household, fold, partition_for, placed

pytestmark = [pytest.mark.services, pytest.mark.long]

BROKEN = 7
"""Every so many decisions a build with a fault can't take one."""


class Desks:
    """An office, and a projection whose faulty build gave some records up."""

    def __init__(self, office: Office, decided: World, seed: int) -> None:
        self.office, self.decided = office, decided
        self.events = Household(seed).decisions(150)
        self.given_up = {event.event_id for event in self.events[::BROKEN]}

    def project_with_a_fault(self) -> None:
        given_up = self.given_up

        class Faulty(PlaybackProjection):
            topic = self.decided.topic

            def accept(self, key: bytes, event: Event, partition: int) -> Any:
                if isinstance(event, PlaybackDecided) and event.event_id in given_up:
                    raise Permanent("a fault of this build", cause="invalid_value")
                return super().accept(key, event, partition)

        self.decided.produce(self.events)
        runner = Runner(Faulty(), self.decided.settings, self.decided.contract, group=self.decided.topic.name)
        with self.decided.running(runner) as running:
            eventually(
                lambda: not running.thread.is_alive() or self.decided.applied() >= len(self.events), "all were read"
            )

    def letters(self, log: str | None = None) -> None:
        """As the projection wrote them, into the office's topic."""
        log = log or topic_id(self.decided.settings.kafka, self.decided.topic.name)
        ends: dict[int, int] = {}
        letters = []
        for event in self.events:
            partition = partition_for(event)
            offset = ends.get(partition, 0)
            ends[partition] = offset + 1
            if event.event_id in self.given_up:
                letters.append(
                    self.office.letter(
                        offset,
                        consumer="projection.playback",
                        topic=self.decided.topic,
                        topic_id=log,
                        partition=partition,
                        value=self.decided.contract.encode(event),
                        cause="invalid_value",
                    )
                )
        self.office.write(letters)
        self.office.list_all()
        assert len(self.office.letters()) == len(letters) > 10


@pytest.fixture
def desks(office: Office, unique_name: Callable[[str], str]) -> Desks:
    decided = World(office.world.settings, decided_topic(unique_name("decided")), office.world.superuser)
    decided.create_topic()
    return Desks(office, decided, seed=77)


def test_records_given_up_are_folded_at_their_place_once_and_the_rows_are_those_of_the_log(desks: Desks) -> None:
    desks.project_with_a_fault()
    desks.letters()
    before = desks.decided.query("SELECT count(*) FROM model.processed_events")[0][0]
    assert before < len(desks.events)

    outcome = desks.office.redrive([projection_of(desks.decided.topic)])
    assert (outcome.refused, outcome.failed) == ({}, {})
    expect_rows(desks.decided.rows(), fold(placed(desks.events)))
    digests = desks.decided.digests()
    waiting = desks.decided.query("SELECT count(*) FROM model.outbox")
    assert desks.office.redrive([projection_of(desks.decided.topic)]).done == {}
    assert desks.decided.query("SELECT count(*) FROM model.outbox") == waiting
    again = desks.office.redrive([projection_of(desks.decided.topic)], again=True)
    assert len(again.done) == len(outcome.done)
    assert desks.decided.digests() == digests
    assert desks.office.appended("") == [] or not desks.office.appended(desks.events[0].user_ref)


def test_nothing_that_was_read_before_a_reread_is_shown_after_it(desks: Desks, valkey: ValkeyServer) -> None:
    desks.project_with_a_fault()
    desks.letters()
    kitchen = Kitchen(desks.decided.settings, valkey)
    kitchen.relay_all()
    [(user, media)] = desks.decided.query(
        "SELECT user_ref, media_id FROM model.playback_progress ORDER BY 1, 2 LIMIT 1"
    )
    with kitchen.keeping():
        before, lists = kitchen.progress(user, media), kitchen.going_on(user)
        kitchen.forge(user, media, listened_ms=77)
        assert before is not None
        assert kitchen.progress(user, media) == before, "it is kept"
        assert desks.office.redrive([projection_of(desks.decided.topic)]).failed == {}
        kitchen.forge(user, media, listened_ms=78)
        kitchen.relay_all()

        def shown() -> bool:
            now = kitchen.progress(user, media)
            return now is not None and now["listened_ms"] == 78

        eventually(shown, "the row of now is shown")
        after, later = kitchen.progress(user, media), kitchen.going_on(user)
        assert after is not None
        assert after["model_epoch"] > before["model_epoch"]
        assert lists.version is not None
        assert later.version is not None
        assert later.version.etag != lists.version.etag
    kitchen.close()


@pytest.mark.faults
def test_a_reread_killed_before_or_after_its_commit_is_whole_or_not_there(desks: Desks) -> None:
    desks.project_with_a_fault()
    desks.letters()
    for point, marked in (("dlq.folded", 0), ("dlq.reread", 1), ("dlq.reread", 2)):
        killed = desks.office.killed_at(point, desks.decided.topic.name)
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2_000:]
        assert list(desks.office.statuses().values()).count("redriven") == marked
    desks.office.redrive([projection_of(desks.decided.topic)])
    expect_rows(desks.decided.rows(), fold(placed(desks.events)))


def test_what_still_cannot_be_applied_stays_open_and_says_why(desks: Desks) -> None:
    desks.project_with_a_fault()
    desks.letters()

    class StillFaulty(PlaybackProjection):
        topic = desks.decided.topic

        def accept(self, key: bytes, event: Event, partition: int) -> Any:
            raise Permanent("still a fault", cause="invalid_value")

    outcome = desks.office.redrive([StillFaulty()])
    assert outcome.done == {}
    assert set(outcome.failed.values()) == {"still a fault"}
    letters = desks.office.letters()
    assert {(one.status, one.failures, one.last_error) for one in letters} == {("open", 1, "still a fault")}


def test_a_letter_of_a_log_that_was_replaced_is_not_folded_into_this_one(desks: Desks) -> None:
    desks.project_with_a_fault()
    desks.letters(log="of-another-topic")
    before = desks.decided.digests()
    outcome = desks.office.redrive([projection_of(desks.decided.topic)])
    assert outcome.done == {}
    assert set(outcome.failed.values()) == {"the log it lay in is not the one that is read now"}
    assert desks.decided.digests() == before | {
        name: digest for name, digest in desks.decided.digests().items() if name.startswith("dead_letter")
    }
