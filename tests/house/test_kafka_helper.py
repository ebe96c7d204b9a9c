"""What the tests' questions to a broker do about its errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.kafka import answered, committed, is_transient


def asked(*answers: int) -> tuple[Callable[[], int], list[int]]:
    """A question that fails with each of these codes and then is answered; and the codes that are left."""
    left = list(answers)

    def ask() -> int:
        if left:
            raise KafkaException(KafkaError(left.pop(0)))
        return 7

    return ask, left


def test_a_question_is_asked_again_until_the_broker_can_answer() -> None:
    ask, left = asked(KafkaError.NOT_COORDINATOR, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._TRANSPORT)
    assert answered(ask, pause_s=0) == 7
    assert left == []


def test_an_error_that_stays_is_raised_at_once() -> None:
    ask, left = asked(KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.NOT_COORDINATOR)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        answered(ask, pause_s=0)
    assert left == [KafkaError.NOT_COORDINATOR]


def test_the_last_error_is_raised_after_the_deadline() -> None:
    ask, left = asked(KafkaError.NOT_COORDINATOR, KafkaError.NOT_LEADER_FOR_PARTITION)
    with pytest.raises(KafkaException, match="NOT_COORDINATOR"):
        answered(ask, deadline_s=0, pause_s=0)
    assert len(left) == 1


def test_what_the_client_calls_retriable_is_asked_again() -> None:
    assert is_transient(KafkaException(KafkaError(KafkaError.UNKNOWN, "later", retriable=True)))
    assert not is_transient(KafkaException(KafkaError(KafkaError.UNKNOWN, "never")))
    assert not is_transient(ValueError("no broker's word"))


def test_a_partitions_own_error_is_not_taken_for_an_offset() -> None:
    class Place:
        error: KafkaError | None = KafkaError(KafkaError.NOT_COORDINATOR)

    class Asked:
        times = 0

        def committed(self, partitions: list[TopicPartition], timeout: float) -> list[Any]:
            self.times += 1
            place = Place()
            if self.times > 1:
                place.error = None
            return [place]

    consumer = Asked()
    committed(cast(Consumer, consumer), [TopicPartition("a", 0)])
    assert consumer.times == 2
