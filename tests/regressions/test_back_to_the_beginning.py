"""A worker of a new group ended with "consumption went back": the consumer had jumped to the partition's beginning.

Where the group had no offset the partition was assigned at the logical beginning and paused. The answer to the
look-up of that offset then counts as outdated; when the seek to the unit's start comes while an answer is under way,
librdkafka asks again half a second later and goes to the beginning, over what was read meanwhile. On a broker that
takes 60 ms to answer 3 of 15 starts went back; from absolute offsets none of 17.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from streams.engine import Crash
from tests.engine.fakes import kafka_error
from tests.engine.test_consumer import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    made = Bench(tmp_path, {0: 5})
    yield made
    made.close()


def test_given_no_offset_of_the_group_then_no_logical_offset_is_assigned(bench: Bench) -> None:
    bench.assign(0, 1)
    assert "assign [(0, 5), (1, 3)]" in bench.log


def test_given_a_leader_on_the_move_then_the_first_offset_is_asked_for_again(bench: Bench) -> None:
    bench.fake.watermark_errors = [kafka_error(KafkaError.LEADER_NOT_AVAILABLE)] * 2
    bench.assign(1)
    assert "assign [(1, 3)]" in bench.log


def test_given_a_rebalance_that_overtakes_a_seek_then_it_is_sought_again(bench: Bench) -> None:
    bench.assign(0)
    unit = bench.group.units[0]
    unit.start_at, unit.restored = {"source": 9}, True
    bench.fake.seek_errors = [kafka_error(KafkaError._OUTDATED)]
    assert bench.poller._resume_restored(bench.consumer)
    assert not bench.poller._resume_restored(bench.consumer)
    assert bench.log[-2:] == ["seek 0 9", "resume [0]"]


def test_given_nobody_tells_the_first_offset_then_the_worker_ends(tmp_path: Path) -> None:
    bench = Bench(tmp_path, operation_timeout=0.05)
    bench.fake.watermark_errors = [kafka_error(KafkaError.LEADER_NOT_AVAILABLE)] * 100
    with pytest.raises(Crash, match=r"first offset of source\[1\]"):
        bench.assign(1)
    bench.close()
