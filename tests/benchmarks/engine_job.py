"""The bench job, the same for every engine: Avro decode, table get, table set, Avro encode, one output.

A record says that a user watched a media up to a position; the row keeps count, last position and total.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from typing import Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer

SOURCE: Any = parse_schema(
    {
        "type": "record",
        "name": "Watched",
        "fields": [
            {"name": "event_id", "type": "string"},
            {"name": "user", "type": "string"},
            {"name": "media", "type": "string"},
            {"name": "position_ms", "type": "long"},
            {"name": "duration_ms", "type": ["null", "long"]},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["start", "progress", "stop"]}},
            {"name": "device", "type": ["null", "string"]},
            {"name": "at", "type": "long"},
        ],
    }
)
ROW: Any = parse_schema(
    {
        "type": "record",
        "name": "Progress",
        "fields": [
            {"name": "count", "type": "long"},
            {"name": "position_ms", "type": "long"},
            {"name": "total_ms", "type": "long"},
            {"name": "device", "type": ["null", "string"]},
            {"name": "at", "type": "long"},
        ],
    }
)


def encode(schema: Any, record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, schema, record)
    return out.getvalue()


def decode(schema: Any, data: bytes) -> dict[str, Any]:
    record: dict[str, Any] = schemaless_reader(io.BytesIO(data), schema, None)
    return record


def records(count: int, keys: int, seed: int = 1) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value)."""
    chance = random.Random(seed)
    kinds = ["start", "progress", "stop"]
    for index in range(count):
        number = chance.randrange(keys)
        user, media = f"user-{number % 997:05d}", f"media-{number:07d}"
        value = {
            "event_id": f"{index:016x}", "user": user, "media": media, "position_ms": chance.randrange(7_200_000),
            "duration_ms": 7_200_000, "kind": kinds[index % 3], "device": f"device-{number % 5}",
            "at": 1_700_000_000_000 + index,
        }  # fmt: skip
        yield f"{user}:{media}".encode(), encode(SOURCE, value)


def step(value: bytes, row: bytes | None) -> bytes:
    """Return the row after ``value``; it is also the output."""
    event = decode(SOURCE, value)
    old = {"count": 0, "position_ms": 0, "total_ms": 0} if row is None else decode(ROW, row)
    return encode(
        ROW,
        {
            "count": old["count"] + 1,
            "position_ms": event["position_ms"],
            "total_ms": old["total_ms"] + abs(event["position_ms"] - old["position_ms"]),
            "device": event["device"],
            "at": event["at"],
        },
    )
