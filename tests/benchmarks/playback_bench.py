"""The playback agent with its full rules, reports to decisions, and the rules alone.

Real topics, schemas, limits and metrics. On a single broker the event topics flush every record to the disk, as they
do in a deployment of one: part of the wall time.
"""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

from confluent_kafka import Producer

from schemas.topics import PLAYBACK_REPORTED
from streams.agents.app import create_changelogs
from streams.runtime import kafka
from streams.runtime.contract import Contract

from .broker import client
from .figures import Absent, Row
from .playback_worker import settings_of
from .playback_workload import placed
from .processes import measure


def playback(bootstrap: str, count: int, *, warm: float = 0.25) -> dict[str, Row]:
    """``agent``: from a commit, warm-up over, to the last one. ``decide``: one core, no input or output."""
    decide = measure(_command("decide", {"records": count, "warm": int(count * warm)}))
    with tempfile.TemporaryDirectory(prefix="playback-bench-") as folder:
        given: dict[str, Any] = {"bootstrap": bootstrap, "state_dir": folder}
        settings = settings_of(given)
        if any(name == PLAYBACK_REPORTED.name for name in kafka.admin_client(settings.kafka).list_topics().topics):
            return {
                "agent": Absent("the broker has Playhead's topics already: give it one of its own"),
                "decide": decide,
            }
        kafka.apply_topics(settings.kafka)
        create_changelogs(settings)
        written = _fill(bootstrap, count, Contract.of(settings))
        given |= {"records": written, "warm": int(written * warm)}
        return {"agent": measure(_command("agent", given)), "decide": decide}


def _command(kind: str, given: dict[str, Any]) -> list[str]:
    return [sys.executable, "-m", "tests.benchmarks.playback_worker", kind, json.dumps(given)]


def _fill(bootstrap: str, count: int, contract: Contract) -> int:
    # Large batches: each is one flush of the broker.
    producer = Producer({**client(bootstrap), "linger.ms": 100, "batch.size": 131_072, "compression.type": "lz4"})
    written = 0
    for partition, key, value in placed(count, contract):
        while True:
            try:
                producer.produce(PLAYBACK_REPORTED.name, value, key, partition)
                break
            except BufferError:
                producer.poll(0.1)
        written += 1
    if producer.flush(120):
        raise RuntimeError("the reports could not be written")
    return written
