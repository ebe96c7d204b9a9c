"""The bench job on Quix Streams. Runs in its own environment (peer.py), with the same step as everybody.

Exactly once, RocksDB state with its changelog, bytes in and out (no JSON), fetching as Quix does by default. It commits
every COMMIT_EVERY records, about what its default of five seconds gives, so that the last commit comes with the
last record.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]
from quixstreams.checkpointing import Checkpoint  # type: ignore[import-not-found]

from tests.benchmarks.engine_job import Job
from tests.benchmarks.stopwatch import Stopwatch

COMMIT_EVERY = 50_000


def main(settings: dict[str, Any]) -> None:
    records = settings["records"]
    watch = Stopwatch(records, settings["warm"])
    step = Job(compiled=settings["compiled"]).step
    app = Application(
        broker_address=settings["bootstrap"], consumer_group=settings["group"], auto_offset_reset="earliest",
        processing_guarantee="exactly-once", state_dir=settings["state_dir"], loglevel="WARNING",
        commit_interval=3600, commit_every=min(COMMIT_EVERY, records),
        producer_extra_config={"compression.type": "lz4"},
    )  # fmt: skip
    source = app.topic(settings["source"], key_deserializer="bytes", value_deserializer="bytes")
    out = app.topic(settings["out"], key_serializer="bytes", value_serializer="bytes")

    def job(value: bytes, key: Any, timestamp: int, headers: Any, state: Any) -> bytes:
        watch.taken(1)
        # One row a key: Quix keeps state under the record's key, and the name below inside it.
        row = step(value, state.get_bytes("p"))
        state.set_bytes("p", row)
        return row

    app.dataframe(source).apply(job, stateful=True, metadata=True).to_topic(out)
    commit = Checkpoint.commit

    def commit_and_count(self: Any, **options: Any) -> None:
        commit(self, **options)
        if watch.handed >= records and watch.durable(watch.handed - watch.done):
            os._exit(0)

    Checkpoint.commit = commit_and_count
    app.run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
