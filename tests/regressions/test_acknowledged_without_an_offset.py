"""A producer with several requests in flight "delivered" records to a new partition without an offset; they were in
no log. No producer of ours may have more than one in flight, and no such delivery may count as acknowledged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import KafkaException

from streams.engine import EngineConfig, Refused
from streams.runtime import publisher
from streams.runtime.outlet import Outlet
from streams.runtime.settings import KafkaSettings

IN_FLIGHT = "max.in.flight.requests.per.connection"


class Delivered:
    def __init__(self, offset: int | None) -> None:
        self._offset = offset

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int | None:
        return self._offset


def outcome_of(*offsets: int | None) -> list[int]:
    async def wait() -> list[int]:
        call = publisher._Call(len(offsets))
        for index, offset in enumerate(offsets):
            call.delivered(index, None, cast(Any, Delivered(offset)))
        return [one.offset for one in await asyncio.wait_for(call.future, 5)]

    return asyncio.run(wait())


def test_given_every_record_has_an_offset_the_call_is_acknowledged() -> None:
    assert outcome_of(3, 4) == [3, 4]


def test_given_a_record_was_delivered_nowhere_the_call_is_in_doubt() -> None:
    with pytest.raises(KafkaException, match="without an offset"):
        outcome_of(3, None)


def test_no_producer_has_more_than_one_request_in_flight() -> None:
    kafka = KafkaSettings()
    engine = EngineConfig(bootstrap="b", group="g", state_dir=Path("state"))
    assert publisher._config(kafka.client(), 5.0, 100)[IN_FLIGHT] == 1
    assert Outlet(kafka)._config[IN_FLIGHT] == 1
    assert engine.producer(0)[IN_FLIGHT] == 1


def test_given_settings_that_would_allow_more_the_engine_refuses_them() -> None:
    with pytest.raises(Refused, match=IN_FLIGHT):
        EngineConfig(bootstrap="b", group="g", state_dir=Path("state"), client={IN_FLIGHT: 5})
