"""A topic of dead letters of a test's own, the list of it, and an operator's hand."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from confluent_kafka import Message

from projections.base import Projection
from projections.dlq.desk import Chosen, Desk, Letter, Status
from projections.dlq.redrive import Outcome, Redriver
from projections.dlq.ways import HEADER
from projections.models.dead_letters import DeadLetterProjection
from projections.runner import Runner
from schemas.events import DeadLetter, PlaybackReported
from schemas.placement import partition_of, playback_key, playback_partition
from schemas.topics import DEAD_LETTERS, PLAYBACK_REPORTED, Topic
from streams.runtime.clock import SystemClock
from streams.runtime.contract import Contract
from streams.runtime.deadletter import dead_letter, dead_letter_key
from streams.runtime.errors import Permanent
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.outlet import Outlet
from streams.runtime.publisher import Record
from streams.runtime.settings import Settings
from tests.integration.projections.world import World, environment_of, eventually, read_all
from tests.stack import unique

OPERATOR = "ops"


def letters_topic(name: str) -> Topic:
    return replace(DEAD_LETTERS, name=name)


def letters_of(topic: Topic) -> DeadLetterProjection:
    """The dead letter projection, reading ``topic``."""

    class OfTopic(DeadLetterProjection):
        pass

    OfTopic.topic = topic
    return OfTopic()


def report(user: str, media: str, number: int = 1) -> PlaybackReported:
    return PlaybackReported(
        event_id=f"e-{number}",
        correlation_id=f"c-{number}",
        source_id="home",
        received_at=1_796_069_700_000,
        user_ref=user,
        media_id=media,
        session_id="s",
        sequence=number,
        kind="progress",
        position_ms=number * 1_000,
        duration_ms=7_200_000,
    )


def redriver_of(
    settings: Settings,
    desk: Desk,
    topic: Topic,
    projections: Sequence[Projection[Any]] = (),
    failpoint: Failpoint = disarmed,
) -> Redriver:
    return Redriver(
        desk,
        settings.kafka,
        Contract.of(settings),
        SystemClock(),
        {one.name: one for one in projections},
        letters_topic=topic,
        failpoint=failpoint,
    )


class Office:
    """``world``: its topic is the one letters are in."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = SystemClock()
        self._written = 0
        # A letter's id is made of it, and a redrive looks for ids in a topic that all tests share.
        self._topic_id = unique("topic")

    def letter(
        self,
        number: int,
        *,
        consumer: str = "agent.playback",
        topic: Topic = PLAYBACK_REPORTED,
        topic_id: str | None = None,
        partition: int = 0,
        key: bytes | None = b"k",
        value: bytes | None = b"v",
        cause: str = "rejected",
        source: str = "home",
    ) -> DeadLetter:
        return dead_letter(
            topic=topic.name,
            topic_id=topic_id or self._topic_id,
            partition=partition,
            offset=number,
            key=key,
            value=value,
            error=Permanent("not this one", cause=cause),
            consumer=consumer,
            attempts=1,
            clock=self.clock,
            correlation_id=f"c-{number}",
            source_id=source,
        )

    def of_report(self, event: PlaybackReported, number: int, *, partition: int | None = None) -> DeadLetter:
        """The letter of a report an agent gave up."""
        key = playback_key(event.user_ref, event.media_id)
        at = playback_partition(key) if partition is None else partition
        return self.letter(number, partition=at, key=key, value=self.world.contract.encode(event))

    def write(self, letters: Sequence[DeadLetter]) -> None:
        """Put letters into the topic, as those do that give records up."""
        outlet = Outlet(self.world.settings.kafka)
        records = []
        for letter in letters:
            key = dead_letter_key(letter.topic, letter.partition)
            value = self.world.contract.encode(letter)
            records.append(Record(self.world.topic.name, partition_of(key), key, value))
        outlet.publish(records)
        outlet.close()
        self._written += len(letters)

    def list_all(self) -> None:
        """Run the projection until every letter written is in the list."""
        runner = Runner(
            letters_of(self.world.topic), self.world.settings, self.world.contract, group=self.world.topic.name
        )
        with self.world.running(runner) as running:
            eventually(
                lambda: not running.thread.is_alive() or self._passed() >= self._written, "all letters are listed"
            )

    def _passed(self) -> int:
        query = "SELECT coalesce(sum(next_offset), 0) FROM model.offsets WHERE projection = 'dead_letters'"
        return int(self.world.query(query)[0][0])

    def desk(self) -> Desk:
        return Desk(self.world.settings.postgres.conninfo("projector"), OPERATOR)

    def letters(self, **chosen: Any) -> list[Letter]:
        with self.desk() as desk:
            return desk.letters(Chosen(**{"statuses": (), "limit": 10_000, **chosen}))

    def redrive(
        self, projections: Sequence[Projection[Any]] = (), failpoint: Failpoint = disarmed, *, again: bool = False
    ) -> Outcome:
        statuses = (Status.OPEN, Status.REDRIVING, *((Status.REDRIVEN,) if again else ()))
        with self.desk() as desk:
            redriver = redriver_of(self.world.settings, desk, self.world.topic, projections, failpoint)
            return redriver.redrive(Chosen(statuses=statuses, limit=10_000), "mended", again=again)

    def statuses(self) -> dict[str, str]:
        return {letter.letter_id: letter.status for letter in self.letters()}

    def killed_at(self, point: str, decided_topic: str = "") -> subprocess.CompletedProcess[bytes]:
        """Redrive everything in a process that kills itself at ``point``."""
        return subprocess.run(
            [sys.executable, "-m", "tests.integration.dlq.child", self.world.topic.name, decided_topic],
            env={**os.environ, **environment_of(self.world.settings, PLAYHEAD_FAILPOINTS=f"{point}=kill")},
            capture_output=True,
            timeout=120,
            check=False,
        )

    def appended(self, user: str) -> list[Message]:
        """Records of this person in the input topic that were made of letters."""
        found = read_all(self.world.settings.kafka, PLAYBACK_REPORTED.name)
        return [m for m in found if (m.key() or b"").startswith(user.encode()) and letter_named(m)]


def letter_named(message: Message) -> str:
    """The letter a record was made of, or nothing."""
    headers = cast(list[tuple[str, bytes | None]], message.headers() or [])
    return next((value.decode() for name, value in headers if name == HEADER and value is not None), "")
