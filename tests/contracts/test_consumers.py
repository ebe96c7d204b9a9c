"""Every consumer takes every example of its events, and makes a dead letter of everything else."""

from __future__ import annotations

import pytest

from schemas.golden import Example, Garbage, examples, garbage
from streams.runtime.deadletter import CauseClass
from tests.contracts.consumers import CONSUMERS, Consumer

# What a value, as opposed to its bytes, can be given up for.
SEMANTIC = {CauseClass.INVALID_VALUE, CauseClass.REJECTED, CauseClass.KEY_MISMATCH, CauseClass.WRONG_PARTITION}

consumers = pytest.mark.parametrize("consumer", CONSUMERS, ids=lambda consumer: consumer.name)


@consumers
@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_an_example_is_taken_by_who_is_there_for_it(consumer: Consumer, example: Example) -> None:
    cause = consumer.feed(example.wire)
    if example.schema.event not in consumer.takes:
        assert cause == CauseClass.WRONG_EVENT
    elif consumer.judges and example.name.rpartition("/")[2] not in {"minimal", "full"}:
        assert cause is None or cause in SEMANTIC
    else:
        assert cause is None


@consumers
@pytest.mark.parametrize("piece", garbage(), ids=lambda piece: piece.name)
def test_garbage_becomes_a_dead_letter_of_its_class(consumer: Consumer, piece: Garbage) -> None:
    assert consumer.feed(piece.data) == piece.cause


def test_every_class_of_garbage_is_in_the_closed_list() -> None:
    assert {piece.cause for piece in garbage()} <= set(CauseClass)


@consumers
def test_a_neighbour_of_garbage_is_taken_as_before(consumer: Consumer) -> None:
    good = next(example for example in examples() if example.schema.event in consumer.takes)
    for piece in garbage():
        consumer.feed(piece.data)
        assert consumer.feed(good.wire) is None
