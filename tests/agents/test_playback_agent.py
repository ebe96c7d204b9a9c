"""One record through the agent's step, without Kafka: what it sends, keeps, and calls poison."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from schemas.events import CacheInvalidated, PlaybackDecided, PlaybackReported
from schemas.ids import SchemaIds
from schemas.placement import PARTITIONS, playback_key, playback_partition
from schemas.topics import PLAYBACK_DECIDED
from streams.agents import playback
from streams.agents import state as rows
from streams.domain.policy import PLAYTHROUGH
from streams.engine import Refused
from streams.runtime.contract import Contract
from streams.runtime.errors import ConfigurationError, Permanent, Unavailable
from tests.agents.rows import DictRows

USER, MEDIA = "a" * 32, "b" * 32
KEY = playback_key(USER, MEDIA)
HOME = playback_partition(KEY)
LOGGED_AT = 1_796_069_700_130
REPORT = PlaybackReported(
    event_id="e-1",
    correlation_id="c-1",
    source_id="home",
    occurred_at=LOGGED_AT - 200,
    received_at=LOGGED_AT - 100,
    user_ref=USER,
    media_id=MEDIA,
    session_id="s",
    sequence=1,
    kind="progress",
    position_ms=600_000,
    duration_ms=7_200_000,
)


@dataclass
class Record:
    """As much of a consumed message as the agent asks for."""

    _key: bytes | None
    _value: bytes | None
    _partition: int = HOME
    _offset: int = 7

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return (2, LOGGED_AT)


@dataclass
class Batch:
    """Collects what is sent; a guard that lets a permanent error through to the test."""

    topic_id: str = "topic-id"
    partition: int = HOME
    sent: list[tuple[str, bytes, bytes, int]] = field(default_factory=list)

    @contextmanager
    def guard(self, _: Any) -> Iterator[None]:
        yield

    def send(self, topic: str, value: bytes, *, key: bytes, partition: int) -> None:
        self.sent.append((topic, value, key, partition))


@pytest.fixture
def contract() -> Contract:
    return Contract(SchemaIds(), registry=None)


def run(
    contract: Contract,
    record: Record,
    table: dict[bytes, bytes] | None = None,
    forgotten: dict[bytes, bytes] | None = None,
) -> tuple[Batch, dict[bytes, bytes], bool]:
    batch, kept = Batch(), DictRows(table or {})
    gone = {} if forgotten is None else forgotten
    done = playback.process(cast(Any, batch), cast(Any, record), kept, {}, gone, contract, PLAYTHROUGH)
    return batch, kept, done


def decided(contract: Contract, batch: Batch) -> PlaybackDecided:
    event = contract.decode(batch.sent[0][1])
    assert isinstance(event, PlaybackDecided)
    return event


def test_given_a_report_its_decision_goes_to_its_own_partition_and_names_its_cause(contract: Contract) -> None:
    batch, table, done = run(contract, Record(KEY, contract.encode(REPORT)))
    assert done
    ((topic, _, key, partition),) = batch.sent
    assert (topic, key, partition) == (PLAYBACK_DECIDED.name, KEY, HOME)
    event = decided(contract, batch)
    assert (event.cause.topic_id, event.cause.partition, event.cause.offset, event.cause.index) == (
        "topic-id",
        HOME,
        7,
        0,
    )
    assert (event.verdict, event.position_ms, event.logged_at) == ("accepted", 600_000, LOGGED_AT)
    assert (event.event_id, event.correlation_id) == ("e-1", "c-1")
    assert rows.decode(table[KEY]).position_ms == 600_000


def test_given_a_duplicate_a_decision_is_sent_and_the_row_is_left_alone(contract: Contract) -> None:
    record = Record(KEY, contract.encode(REPORT))
    _, table, _ = run(contract, record)
    before = dict(table)
    batch, table, _ = run(contract, record, table)
    assert decided(contract, batch).verdict == "duplicate"
    assert table == before


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"_key": None}, "null_key"),
        ({"_value": None}, "null_value"),
        ({"_value": b"garbage"}, "bad_magic"),
        ({"_key": playback_key(USER, "c" * 32)}, "key_mismatch"),
        ({"_partition": (HOME + 1) % PARTITIONS}, "wrong_partition"),
    ],
)
def test_given_poison_nothing_is_sent_or_kept_and_its_cause_is_named(
    contract: Contract, change: dict[str, Any], cause: str
) -> None:
    record = replace(Record(KEY, contract.encode(REPORT)), **change)
    with pytest.raises(Permanent) as caught:
        run(contract, record)
    assert caught.value.cause == cause


def test_given_another_event_on_the_topic_it_is_poison(contract: Contract) -> None:
    stray = CacheInvalidated(
        event_id="e",
        correlation_id="c",
        source_id="home",
        received_at=1,
        cache_key="k",
        model_epoch=1,
        log_epoch=1,
        partition=0,
        version=1,
    )
    with pytest.raises(Permanent) as caught:
        run(contract, Record(KEY, contract.encode(stray)))
    assert caught.value.cause == "wrong_event"


def test_given_a_report_the_rules_reject_its_dead_letter_keeps_its_correlation(contract: Contract) -> None:
    value = contract.encode(replace(REPORT, kind="completed"))
    with pytest.raises(Permanent) as caught:
        run(contract, Record(KEY, value))
    assert (caught.value.cause, caught.value.correlation_id, caught.value.source_id) == ("rejected", "c-1", "home")


class _Registry(Contract):
    """A contract whose registry has this to say about every id."""

    def __init__(self, says: Exception) -> None:
        super().__init__(SchemaIds(), registry=None)
        self._says = says

    def decode(self, data: bytes) -> Any:
        raise self._says


def test_given_only_an_absent_registry_could_tell_the_record_is_to_be_tried_again() -> None:
    batch, table, done = run(_Registry(Unavailable("away")), Record(KEY, b"\0\0\0\0\1"))
    assert not done
    assert not batch.sent
    assert not table


def test_given_a_record_of_a_newer_build_the_worker_refuses_and_says_upgrade() -> None:
    with pytest.raises(Refused, match="upgrade"):
        run(_Registry(ConfigurationError("upgrade Playhead")), Record(KEY, b"\0\0\0\0\1"))


def test_given_an_unexpected_error_it_carries_the_correlation_id_of_its_report(contract: Contract) -> None:
    with pytest.raises(ValueError, match="damaged") as caught:
        run(contract, Record(KEY, contract.encode(REPORT)), {KEY: b"\1"})
    assert caught.value.__notes__ == ["correlation id c-1"]


def test_given_a_row_of_a_newer_build_the_worker_refuses(contract: Contract) -> None:
    with pytest.raises(Refused, match="this build knows up to"):
        run(contract, Record(KEY, contract.encode(REPORT)), {KEY: b"\xff"})
