"""When a batch counts as acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from streams.runtime import outlet as outlet_module
from streams.runtime.errors import ConfigurationError, Permanent, Unavailable
from streams.runtime.outlet import Outlet
from streams.runtime.publisher import Record
from streams.runtime.settings import KafkaSettings

Outcome = tuple[KafkaError | None, int | None]


def outlet(monkeypatch: pytest.MonkeyPatch, outcomes: list[Outcome | None]) -> Outlet:
    """An outlet whose producer reports these (error, offset) for its records; None: no report at all."""

    class Fake:
        def __init__(self, config: dict[str, Any], logger: object) -> None:
            self.reports: list[Callable[[], None]] = []
            self.outcomes = iter(outcomes)

        def produce(self, topic: str, on_delivery: Callable[[KafkaError | None, Any], None], **_: Any) -> None:
            outcome = next(self.outcomes)
            if outcome is not None:
                error, offset = outcome
                message: Message[Any, Any] = (
                    Message(topic=topic) if offset is None else Message(topic=topic, offset=offset)
                )
                self.reports.append(lambda: on_delivery(error, message))

        def flush(self, timeout: float) -> int:
            for report in self.reports:
                report()
            self.reports.clear()
            return 0

        def purge(self) -> None:
            self.reports.clear()

    monkeypatch.setattr(outlet_module, "Producer", Fake)
    return Outlet(KafkaSettings())


RECORDS = [Record("t", 0, b"k", b"v")] * 2


def test_a_batch_is_published_when_every_record_has_an_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    outlet(monkeypatch, [(None, 4), (None, 5)]).publish(RECORDS)


@pytest.mark.parametrize(
    "doubt",
    [None, (None, None), (KafkaError(KafkaError._MSG_TIMED_OUT), None)],
    ids=["no report", "delivered nowhere", "timed out"],
)
def test_any_doubt_about_one_record_is_doubt_about_the_batch(
    monkeypatch: pytest.MonkeyPatch, doubt: Outcome | None
) -> None:
    with pytest.raises(Unavailable):
        outlet(monkeypatch, [(None, 4), doubt]).publish(RECORDS)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(KafkaError.TOPIC_AUTHORIZATION_FAILED, ConfigurationError), (KafkaError.MSG_SIZE_TOO_LARGE, Permanent)],
)
def test_a_refusal_is_told_from_an_absence(monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        outlet(monkeypatch, [(None, 4), (KafkaError(code), None)]).publish(RECORDS)
