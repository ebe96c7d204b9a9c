"""The group's offsets: expired, which costs nothing; reset or out of range, which is refused."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

from streams.engine import EXIT_CLEAN
from tests.kafka import delete_records

from ..case import Case, add
from ..field import Field, Violation
from ..refusals import assert_refused, start_all


def expired(field: Field) -> None:
    """Delete the group while nobody is in it: units resume from their changelogs."""
    field.wait_progress(1500)
    field.stop_all()
    field.delete_offsets()
    field.faults["group deleted"] += 1
    field.cluster.wipe(0)
    for number in field.workers:
        field.start(number)
    field.wait_progress(500)


def reset(field: Field) -> None:
    """Move the group's offsets behind the engine's back: back to 0, and to the end."""
    places = [TopicPartition(field.cluster.a, p) for p in range(field.cluster.partitions)]
    consumer = Consumer({"bootstrap.servers": field.cluster.bootstrap, "group.id": field.cluster.group})
    try:
        with field.by_hand():
            consumer.commit(
                offsets=[TopicPartition(place.topic, place.partition, 0) for place in places], asynchronous=False
            )
    finally:
        consumer.close()
    field.faults["group reset"] += 1
    assert_refused(field, "the group's offset is 0", "delete the group's offsets")
    # The way out that the refusal names.
    field.delete_offsets()
    field.more(2_000)
    start_all(field)
    field.wait_drained()
    field.stop_all()
    if found := field.cluster.violations(stores=True, interventions=field.interventions):
        raise Violation(f"after the way out: {found}")
    if not any("went back" in text for text in field.cluster.violations()):
        raise Violation("had it been the engine, the oracle would not have seen it")


def out_of_range(field: Field) -> None:
    """Records are deleted before they are processed."""
    field.more(2_000)
    ends = field.cluster.ends()
    cuts = [TopicPartition(topic, p, end) for (topic, p), end in ends.items() if topic == field.cluster.b]
    delete_records(field.cluster.admin, cuts)
    field.faults["source cut past the group"] += len(cuts)
    # Whoever is first: the look at the log, or the consumer that is told so.
    assert_refused(field, "deleted before they were processed|are gone", "start once with trust_group_offsets")


add(
    Case(
        name="offsets-expired",
        does="all stopped, the group deleted, one state lost: resumed from the changelogs",
        act=expired,
        codes=frozenset({EXIT_CLEAN}),
    )
)
add(
    Case(
        name="offsets-reset",
        does="the group's offsets set to 0: refused; then by the way out it names",
        act=lambda field: field.wait_progress(1000),
        refusal=reset,
    )
)
add(
    Case(
        name="offsets-out-of-range",
        does="a source cut past the group's offsets",
        act=lambda field: field.wait_progress(1000),
        refusal=out_of_range,
    )
)
