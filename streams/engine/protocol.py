"""Kafka's messages about open transactions, which librdkafka's admin client does not have.

Written down as Kafka's message definitions have them, in one version each, with aiokafka's field types. They are
the four that Kafka's own `kafka-transactions.sh` is made of; every broker from Kafka 3.0 on speaks them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

from .errors import Refused

_TAGS = ("tags", TaggedFields)
_TEXT = CompactString("utf-8")
_PARTITIONS = CompactArray(("topic", _TEXT), ("partitions", CompactArray(Int32)), _TAGS)


def _message(name: str, api_key: int, version: int, asks: Schema, answers: Schema) -> Callable[..., Any]:
    """A request class, called with its fields in order. All are of the flexible kind."""
    ids = {"API_KEY": api_key, "API_VERSION": version}
    response = type(f"{name}Response", (Response,), {**ids, "SCHEMA": answers})
    fields = {**ids, "FLEXIBLE_VERSION": True, "RESPONSE_TYPE": response, "SCHEMA": asks}
    return type(f"{name}Request", (RequestStruct,), fields)


describe_producers = _message(
    "DescribeProducers", 61, 0,
    Schema(("topics", _PARTITIONS), _TAGS),
    Schema(
        ("throttle_time_ms", Int32),
        ("topics", CompactArray(
            ("topic", _TEXT),
            ("partitions", CompactArray(
                ("partition", Int32), ("error_code", Int16), ("error_message", _TEXT),
                ("producers", CompactArray(
                    ("producer_id", Int64), ("producer_epoch", Int32), ("last_sequence", Int32),
                    ("last_timestamp", Int64), ("coordinator_epoch", Int32), ("start_offset", Int64), _TAGS,
                )),
                _TAGS,
            )),
            _TAGS,
        )),
        _TAGS,
    ),
)  # fmt: skip

list_transactions = _message(
    "ListTransactions", 66, 0,
    Schema(("states", CompactArray(_TEXT)), ("producer_ids", CompactArray(Int64)), _TAGS),
    Schema(
        ("throttle_time_ms", Int32), ("error_code", Int16), ("unknown_states", CompactArray(_TEXT)),
        ("transactions", CompactArray(("transactional_id", _TEXT), ("producer_id", Int64), ("state", _TEXT), _TAGS)),
        _TAGS,
    ),
)  # fmt: skip

describe_transactions = _message(
    "DescribeTransactions", 65, 0,
    Schema(("transactional_ids", CompactArray(_TEXT)), _TAGS),
    Schema(
        ("throttle_time_ms", Int32),
        ("transactions", CompactArray(
            ("error_code", Int16), ("transactional_id", _TEXT), ("state", _TEXT), ("timeout_ms", Int32),
            ("start_time_ms", Int64), ("producer_id", Int64), ("producer_epoch", Int16), ("topics", _PARTITIONS), _TAGS,
        )),
        _TAGS,
    ),
)  # fmt: skip

write_markers = _message(
    "WriteTxnMarkers", 27, 1,
    Schema(
        ("markers", CompactArray(
            ("producer_id", Int64), ("producer_epoch", Int16), ("committed", Boolean), ("topics", _PARTITIONS),
            ("coordinator_epoch", Int32), _TAGS,
        )),
        _TAGS,
    ),
    Schema(
        ("markers", CompactArray(
            ("producer_id", Int64),
            ("topics", CompactArray(
                ("topic", _TEXT),
                ("partitions", CompactArray(("partition", Int32), ("error_code", Int16), _TAGS)),
                _TAGS,
            )),
            _TAGS,
        )),
        _TAGS,
    ),
)  # fmt: skip


class Exactly:
    """A message in the one version written here; what aiokafka asks of a request before it sends it."""

    def __init__(self, message: Any) -> None:
        self._message = message

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Any:
        lowest, highest = versions.get(self._message.API_KEY, (0, -1))
        if not lowest <= self._message.API_VERSION <= highest:
            raise Refused(
                f"the broker does not speak {type(self._message).__name__} version {self._message.API_VERSION}: "
                "Kafka 3.0 or later is needed"
            )
        return self._message
