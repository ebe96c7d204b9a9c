"""Restore and its refusals against real Kafka: units without Faust, each ``with`` is one life of a worker."""

from __future__ import annotations

import gc
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType

from streams.engine import Refused, ensure_changelogs
from streams.engine.batch import TableSpec
from streams.engine.logs import Logs
from tests.kafka import delete_records

from .lab import Lab

pytestmark = pytest.mark.services


@pytest.fixture
def lab(kafka_bootstrap: str, topic_prefix: str, tmp_path: Path) -> Lab:
    made = Lab(kafka_bootstrap, topic_prefix, tmp_path / "state")
    made.create_all()
    producer = Producer({"bootstrap.servers": kafka_bootstrap})
    for partition in range(made.partitions):
        for _ in range(10):
            producer.produce(made.source, b"v", b"k", partition)
    assert producer.flush(30) == 0
    return made


def committed_rows(lab: Lab, rows: dict[bytes, bytes | None], offset: int = 4) -> None:
    """One life that commits ``rows`` to partition 0."""
    with lab.worker() as worker:
        worker.restore()
        worker.commit(0, offset, rows)


def test_invariant_07_given_a_wiped_store_then_all_rows_come_back_though_a_marker_ends_the_log(lab: Lab) -> None:
    committed_rows(lab, {b"a": b"1", b"b": b"2"})
    shutil.rmtree(lab.folder)
    with lab.worker() as worker:
        units = worker.restore({0: 5})
        assert sorted(worker.restored) == [0, 1]
        assert worker.rows(0) == {b"a": b"1", b"b": b"2"}
        state = units[0].store.state
        assert state is not None
        # Two rows, the source mark and the commit marker.
        assert state.changelogs[lab.table.changelog].offset == 4


def test_given_a_tombstone_then_the_row_stays_deleted_after_a_replay(lab: Lab) -> None:
    with lab.worker() as worker:
        worker.restore()
        worker.commit(0, 3, {b"a": b"1", b"b": b"2"})
        worker.commit(0, 4, {b"a": None})
    shutil.rmtree(lab.folder)
    with lab.worker() as worker:
        worker.restore({0: 5})
        assert worker.rows(0) == {b"b": b"2"}


def test_given_an_aborted_transaction_then_its_rows_are_not_restored(lab: Lab) -> None:
    committed_rows(lab, {b"a": b"1"})
    left_open = Producer({"bootstrap.servers": lab.bootstrap, "transactional.id": f"{lab.prefix}-0"})
    left_open.init_transactions(30)
    left_open.begin_transaction()
    left_open.produce(lab.table.changelog, b"never", b"a", 0)
    left_open.flush(30)
    shutil.rmtree(lab.folder)
    with lab.worker() as worker:
        worker.restore({0: 5})
        assert worker.rows(0) == {b"a": b"1"}


def test_given_a_copy_that_lags_then_only_the_rest_is_replayed(lab: Lab) -> None:
    committed_rows(lab, {b"a": b"1"})
    shutil.copytree(lab.folder, lab.folder.with_name("old"))
    with lab.worker() as worker:
        worker.restore({0: 5})
        worker.commit(0, 5, {b"b": b"2"})
    shutil.rmtree(lab.folder)
    shutil.copytree(lab.folder.with_name("old"), lab.folder)
    with lab.worker() as worker:
        worker.restore({0: 6})
        assert worker.rows(0) == {b"a": b"1", b"b": b"2"}


def test_given_expired_group_offsets_then_units_resume_from_the_changelogs_own(lab: Lab) -> None:
    committed_rows(lab, {b"a": b"1"}, offset=6)
    shutil.rmtree(lab.folder)
    with lab.worker() as worker:
        units = worker.restore()
        assert units[0].start_at == {lab.source: 7}
        assert units[1].start_at == {lab.source: 0}


def test_invariant_06_given_a_reset_group_then_refused_until_told_to_trust_it(lab: Lab) -> None:
    committed_rows(lab, {b"a": b"1"})
    with lab.worker() as worker, pytest.raises(Refused, match="the group's offset is 0, the changelog says 5"):
        worker.restore({0: 0})
    with lab.worker(trust_group_offsets=True) as worker:
        assert worker.restore({0: 0})[0].start_at == {lab.source: 0}
    with lab.worker() as worker:
        assert worker.restore({0: 0})[0].start_at == {lab.source: 0}
        worker.commit(0, 0, {b"a": b"again"})
    shutil.rmtree(lab.folder)
    with lab.worker() as worker:
        assert worker.restore()[0].start_at == {lab.source: 1}


def test_given_a_first_table_that_was_removed_then_a_unit_without_a_copy_resumes_from_what_it_left(lab: Lab) -> None:
    removed = TableSpec.of(lab.prefix, "first")
    ensure_changelogs(lab.config(), [removed.changelog], partitions=lab.partitions)
    lab.tables.append(removed)
    committed_rows(lab, {b"a": b"1"})
    lab.tables.remove(removed)
    shutil.rmtree(lab.folder)
    with lab.worker() as worker:
        assert worker.restore({0: 5})[0].start_at == {lab.source: 5}
    lab.delete(removed.changelog)
    shutil.rmtree(lab.folder)
    with lab.worker() as worker:
        assert worker.restore({0: 5})[0].start_at == {lab.source: 5}
        assert worker.rows(0) == {b"a": b"1"}


def test_given_records_deleted_before_they_were_processed_then_refused(lab: Lab) -> None:
    committed_rows(lab, {b"a": b"1"}, offset=2)
    delete_records(lab.admin, [TopicPartition(lab.source, 0, 8)])
    with lab.worker() as worker, pytest.raises(Refused, match="outside the log"):
        worker.restore({0: 3})


def test_given_a_recreated_source_then_refused(lab: Lab) -> None:
    committed_rows(lab, {b"a": b"1"})
    lab.create_again(lab.source)
    with lab.worker() as worker, pytest.raises(Refused, match="was recreated"):
        worker.restore()


def test_given_a_recreated_changelog_then_refused_as_the_state_is_gone(lab: Lab) -> None:
    committed_rows(lab, {b"a": b"1"})
    lab.create_again(lab.table.changelog, {"cleanup.policy": "compact"})
    with lab.worker() as worker, pytest.raises(Refused, match="the changelog says nothing"):
        worker.restore({0: 5})


def test_pitfall_11_given_a_changelog_then_its_head_cannot_be_deleted_by_mistake(lab: Lab) -> None:
    committed_rows(lab, {b"a": b"1"})
    cut = TopicPartition(lab.table.changelog, 0, 1)
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
        delete_records(lab.admin, [cut])


def test_invariant_08_given_a_changelog_without_its_head_then_an_intact_copy_goes_on_and_a_lost_one_refuses(
    lab: Lab,
) -> None:
    committed_rows(lab, {b"a": b"1", b"b": b"2"})
    _policy(lab, "compact,delete")
    cut = TopicPartition(lab.table.changelog, 0, 2)
    delete_records(lab.admin, [cut])
    with lab.worker() as worker, pytest.raises(Refused, match=r"cleanup\.policy=compact,delete"):
        worker.restore({0: 5})
    _policy(lab, "compact")
    with lab.worker() as worker:
        worker.restore({0: 5})
        assert worker.rows(0) == {b"a": b"1", b"b": b"2"}
    shutil.rmtree(lab.folder)
    with lab.worker() as worker, pytest.raises(Refused, match="head was deleted"):
        worker.restore({0: 5})


def _policy(lab: Lab, value: str) -> None:
    entry = ConfigEntry("cleanup.policy", value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, lab.table.changelog, incremental_configs=[entry])
    for future in lab.admin.incremental_alter_configs([resource]).values():
        future.result(30)
    config = lab.config()
    seen: Any = None
    deadline = time.monotonic() + 30
    while seen != value:
        assert time.monotonic() < deadline
        seen = Logs(config).settings([lab.table.changelog])[lab.table.changelog]["cleanup.policy"]


def test_invariant_09_given_missing_or_uneven_topics_then_refused(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    lab = Lab(kafka_bootstrap, topic_prefix, tmp_path / "state")
    lab.create(lab.source)
    with lab.worker() as worker, pytest.raises(Refused, match=f"missing topics: {lab.out}, {lab.table.changelog}"):
        worker.restore()
    lab.create(lab.out)
    lab.create(lab.table.changelog, partitions=3, settings={"cleanup.policy": "compact"})
    with lab.worker() as worker, pytest.raises(Refused, match=r"has 2 partitions, but .* has 3"):
        worker.restore()


def test_given_topics_that_were_all_grown_then_refused_as_keys_have_moved(lab: Lab) -> None:
    committed_rows(lab, {b"a": b"1"})
    grown = [NewPartitions(name, 4) for name in (lab.source, lab.out, lab.table.changelog)]
    for future in lab.admin.create_partitions(grown).values():
        future.result(30)
    lab.wait_visible([change.topic for change in grown], 4)
    with lab.worker() as worker, pytest.raises(Refused, match="had 2 partitions and has 4"):
        worker.restore({0: 5})


def test_given_a_transaction_that_stays_open_on_an_output_then_refused_until_it_is_aborted(lab: Lab) -> None:
    foreign = Producer({"bootstrap.servers": lab.bootstrap, "transactional.id": f"{lab.prefix}-foreign"})
    foreign.init_transactions(30)
    foreign.begin_transaction()
    foreign.produce(lab.out, b"undecided", b"k", 1)
    assert foreign.flush(30) == 0
    impatient = {"transaction_timeout": 1.0, "hanging_timeout": 1.5}
    with lab.worker(**impatient) as worker:
        with pytest.raises(Refused, match=rf"hanging transaction: {lab.out}\[1\] is undecided from 0 \(end 1\)"):
            worker.restore()
        assert worker.restored == []
    foreign.abort_transaction(30)
    with lab.worker(**impatient) as worker:
        worker.restore()
        assert sorted(worker.restored) == [0, 1]


def test_pitfall_09_given_garbage_collection_then_topic_facts_still_arrive(lab: Lab) -> None:
    for _ in range(5):
        logs = Logs(lab.config())
        gc.collect()
        assert logs.describe([lab.source, "no-such-topic"]).keys() == {lab.source}
