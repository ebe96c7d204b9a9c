"""A topic was refused for want of brokers while the only one started, or had been too busy for its heartbeats: whoever
asked ended with exit code 78, as for a wrong setting."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from streams.runtime import kafka

TOPIC = NewTopic("t", 1, 1)


class Controller:
    """Answers what it is told to, then that the topic was made."""

    def __init__(self, *codes: int) -> None:
        self._codes = list(codes)
        self.asked = 0

    def create_topics(self, topics: list[NewTopic], **_: Any) -> dict[str, Future[None]]:
        self.asked += 1
        future: Future[None] = Future()
        if self._codes:
            future.set_exception(KafkaException(KafkaError(self._codes.pop(0))))
        else:
            future.set_result(None)
        return {topics[0].topic: future}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "_POLL_S", 0.001)
    monkeypatch.setattr(kafka, "_BROKERS_BACK_S", 0.05)


def test_given_too_few_brokers_for_a_moment_then_the_topic_is_made() -> None:
    controller: Any = Controller(KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.INVALID_REPLICATION_FACTOR)
    assert kafka._made(controller, TOPIC)
    assert controller.asked == 3


def test_given_too_few_brokers_for_good_then_refused() -> None:
    controller: Any = Controller(*[KafkaError.INVALID_REPLICATION_FACTOR] * 1_000)
    with pytest.raises(KafkaException):
        kafka._made(controller, TOPIC)


def test_given_another_error_then_refused_at_once_and_a_topic_that_is_there_is_not_made() -> None:
    controller: Any = Controller(KafkaError.POLICY_VIOLATION)
    with pytest.raises(KafkaException):
        kafka._made(controller, TOPIC)
    assert controller.asked == 1
    assert not kafka._made(Controller(KafkaError.TOPIC_ALREADY_EXISTS), TOPIC)  # type: ignore[arg-type]
