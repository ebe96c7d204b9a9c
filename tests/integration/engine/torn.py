"""A unit's transaction that is committed in some of its partitions and hangs in others, made on purpose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from confluent_kafka import Consumer, Producer, TopicPartition

from streams.engine import SourcePosition
from streams.engine.changelog import SourceMark, source_key
from streams.engine.logs import Logs
from streams.engine.parts import Parts
from tests.faults.engine.brokers import Row, hang

from .lab import Lab

PARTITION = 1
#: So many records are processed before.
BEFORE = 3
#: The source offset of the record whose transaction is in doubt.
DOUBT = BEFORE


def process(lab: Lab) -> None:
    """Records wait in the source; the first of them are processed."""
    lab.create_all()
    producer = Producer({"bootstrap.servers": lab.bootstrap})
    for number in range(BEFORE + 2):
        producer.produce(lab.source, b"%d" % number, b"k", PARTITION)
    assert producer.flush(30) == 0
    with lab.worker() as worker:
        worker.restore()
        for offset in range(BEFORE):
            worker.commit(PARTITION, offset, {b"k": b"%d" % offset})


def commits(lab: Lab, hangs: Iterable[str], *, says: int | None = 1) -> None:
    """The transaction of one more record is committed; the parts in ``hangs`` never hear of it.

    ``says``: of how many outputs it is, in its own words; None for an older build's, which says nothing.
    """
    hangs = set(hangs)
    config = lab.config()
    source_id = Logs(config).describe([lab.source])[lab.source].topic_id
    changelog_id = Logs(config).describe([lab.table.changelog])[lab.table.changelog].topic_id
    header = SourcePosition(lab.source, source_id, PARTITION, DOUBT, 0).header()
    written = Parts(DOUBT, DOUBT, {(lab.out, PARTITION): says or 0, (lab.table.changelog, PARTITION): 2})
    said = [header] if says is None else [header, written.header()]
    mark = SourceMark(source_id, DOUBT + 1, lab.partitions, ((lab.table.name, changelog_id),))
    parts = {
        "output": (lab.out, [Row(b"k", b"%d" % DOUBT, [header])]),
        "changelog": (
            lab.table.changelog,
            [Row(b"k", b"%d" % DOUBT), Row(source_key(lab.source), mark.encode(), said)],
        ),
    }
    producer = Producer(config.producer(PARTITION))
    asker = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": lab.prefix})
    producer.init_transactions(30)
    producer.begin_transaction()
    for name in parts.keys() - hangs:
        topic, rows = parts[name]
        for row in rows:
            producer.produce(topic, row.value, row.key, PARTITION, headers=list(row.headers))
    if "offsets" not in hangs:
        ended = [TopicPartition(lab.source, PARTITION, DOUBT + 1)]
        producer.send_offsets_to_transaction(ended, asker.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    asker.close()
    hang(
        config,
        f"{lab.prefix}-{PARTITION}",
        {(topic, PARTITION): rows for name, (topic, rows) in parts.items() if name in hangs},
        {(lab.source, PARTITION): DOUBT + 1} if "offsets" in hangs else None,
    )


def aborts(lab: Lab, where: Sequence[str]) -> None:
    """The unit's next transaction writes into the same partitions, and is aborted: it decides what hangs there."""
    asker = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": lab.prefix})
    producer = Producer(lab.config().producer(PARTITION))
    producer.init_transactions(30)
    producer.begin_transaction()
    for name, topic in (("output", lab.out), ("changelog", lab.table.changelog)):
        if name in where:
            producer.produce(topic, b"aborted", b"k", PARTITION)
    if "offsets" in where:
        producer.send_offsets_to_transaction(
            [TopicPartition(lab.source, PARTITION, DOUBT + 2)], asker.consumer_group_metadata(), 30
        )
    assert producer.flush(30) == 0
    producer.abort_transaction(30)
    asker.close()
