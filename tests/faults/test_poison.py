"""Records nobody can process: each is kept with its bytes in dead.letters, and its neighbours are decided."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from confluent_kafka import Producer

from schemas.events import DeadLetter, PlaybackReported
from schemas.placement import PARTITIONS, playback_key, playback_partition
from schemas.topics import DEAD_LETTERS, PLAYBACK_REPORTED, SOURCE_RECORD_BYTES_MAX
from streams.runtime.contract import Contract
from tests.faults.world import World, playhead_world
from tests.integration.projections.world import eventually, read_all

pytestmark = [pytest.mark.services, pytest.mark.faults, pytest.mark.timeout(300)]

USER, MEDIA = "a" * 32, "b" * 32
KEY = playback_key(USER, MEDIA)
HOME = playback_partition(KEY)
# Room for what Kafka adds to a record inside its batch.
_BATCH_OVERHEAD = 200


@dataclass(frozen=True)
class Poison:
    name: str
    key: bytes | None
    value: bytes | None
    cause: str
    partition: int = HOME


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with playhead_world() as made:
        yield made


def report(position_ms: int) -> PlaybackReported:
    return PlaybackReported(
        event_id=uuid.uuid4().hex,
        correlation_id="c-poison",
        source_id="home",
        received_at=1_796_069_700_000,
        user_ref=USER,
        media_id=MEDIA,
        session_id="s",
        sequence=position_ms,
        kind="progress",
        position_ms=position_ms,
        duration_ms=7_200_000,
    )


def poisons(contract: Contract) -> list[Poison]:
    good = contract.encode(report(1))
    # The contract refuses to write this one, the rules refuse to take it: made by another producer.
    negative = contract.encode(replace(report(1), kind="progress", position_ms=-1))
    return [
        Poison("garbage bytes", KEY, b"\xff\xfenot an event", "bad_magic"),
        Poison("empty value", KEY, b"", "bad_magic"),
        Poison("unknown schema id", KEY, b"\0\x12\x34\x56\x78" + good[5:], "unknown_schema"),
        Poison("truncated", KEY, good[:-3], "truncated"),
        Poison("goes on after its end", KEY, good + b"\0", "trailing_bytes"),
        Poison("at the topic's size limit", KEY, b"\xff" * (SOURCE_RECORD_BYTES_MAX - _BATCH_OVERHEAD), "bad_magic"),
        Poison("null key", None, good, "null_key"),
        Poison("null value", KEY, None, "null_value"),
        Poison("key and payload disagree", playback_key(USER, "c" * 32), good, "key_mismatch"),
        Poison("wrong partition", KEY, good, "wrong_partition", (HOME + 1) % PARTITIONS),
        Poison("what the rules reject", KEY, negative, "rejected"),
    ]


def test_given_poison_between_good_reports_it_is_kept_with_its_bytes_and_the_good_ones_are_decided(
    world: World,
) -> None:
    contract = Contract.of(world.settings)
    producer = Producer(
        {**world.settings.kafka.client(), "enable.idempotence": True, "message.max.bytes": 2 * SOURCE_RECORD_BYTES_MAX},
        logger=logging.getLogger("librdkafka.test"),
    )
    wanted = poisons(contract)
    sent: dict[tuple[int, int], Poison] = {}
    good = 0

    def put(key: bytes | None, value: bytes | None, partition: int) -> int:
        offsets: list[int] = []
        producer.produce(
            PLAYBACK_REPORTED.name,
            key=key,
            value=value,
            partition=partition,
            on_delivery=lambda error, message: offsets.append(-1 if error else message.offset() or 0),
        )
        assert producer.flush(30) == 0
        assert offsets[0] >= 0, "Kafka did not take it"
        return offsets[0]

    # Far fewer bad ones than a flood has: ten good ones around each.
    for poison in wanted:
        for _ in range(10):
            good += 1
            put(KEY, contract.encode(report(good)), HOME)
        sent[poison.partition, put(poison.key, poison.value, poison.partition)] = poison
    good += 1
    put(KEY, contract.encode(report(good)), HOME)

    eventually(
        lambda: world.scalar("SELECT count(*) FROM model.processed_events") == good, "the good ones are decided", 60
    )
    letters = [contract.decode(message.value() or b"") for message in read_all(world.settings.kafka, DEAD_LETTERS.name)]
    found = {(letter.partition, letter.offset): letter for letter in letters if isinstance(letter, DeadLetter)}
    assert len(letters) == len(found) == len(wanted)
    for place, poison in sent.items():
        letter = found[place]
        assert (letter.key, letter.value) == (poison.key, poison.value), poison.name
        assert letter.cause_class == poison.cause, poison.name
        assert letter.topic == PLAYBACK_REPORTED.name
        assert letter.consumer == "agent.playback"
    assert world.scalar("SELECT position_ms FROM model.playback_progress") == good
    assert world.playhead.supervisor.starts("agents") == 1, "poison must not crash the worker"
