"""What the relay makes of outbox rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from projections.relay import OutboxRow, coalesce, invalidation

ROW = OutboxRow(
    id=1,
    cache_key="progress:u:m",
    model_epoch=1,
    log_epoch=1,
    partition=3,
    version=10,
    correlation_id="c-1",
    event_id="e-1",
    source_id="home",
    reason="progress accepted",
    committed_at=datetime(2026, 11, 30, 12, 0, 0, 250_000, tzinfo=UTC),
)


def test_the_newest_version_of_a_key_covers_the_others_whatever_their_order() -> None:
    rows = [ROW, replace(ROW, id=2, version=12), replace(ROW, id=3, version=11), replace(ROW, id=4, cache_key="other")]
    assert [row.id for row in coalesce(rows)] == [2, 4]


def test_epochs_go_before_offsets() -> None:
    adopted = replace(ROW, id=2, log_epoch=2, version=0)
    rebuilt = replace(ROW, id=3, model_epoch=2, log_epoch=1, version=0)
    assert coalesce([adopted, ROW]) == [adopted]
    assert coalesce([adopted, rebuilt]) == [rebuilt]


def test_an_invalidation_carries_the_version_and_is_the_same_event_each_time() -> None:
    event = invalidation(ROW)
    assert (event.cache_key, event.model_epoch, event.log_epoch, event.version) == ("progress:u:m", 1, 1, 10)
    assert (event.correlation_id, event.partition, event.received_at) == ("c-1", 3, 1_796_040_000_250)
    assert invalidation(replace(ROW, id=77)).event_id == event.event_id
    assert invalidation(replace(ROW, version=11)).event_id != event.event_id
