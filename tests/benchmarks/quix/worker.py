"""The bench job on Quix Streams. Runs in its own environment (peer.py).

As Quix comes: its own Avro serializers and its state of plain values. With ``lent``: bytes in, in the state and out,
and the step with our compiled codec. Either way exactly once, RocksDB state with its changelog, fetching as by default.
It commits every COMMIT_EVERY records, about what its default of five seconds gives, so that the last commit comes with
the last record.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]
from quixstreams.checkpointing import Checkpoint  # type: ignore[import-not-found]
from quixstreams.models.serializers.avro import (  # type: ignore[import-not-found]
    AvroDeserializer,
    AvroSerializer,
)

from tests.benchmarks.engine_job import SCHEMAS, Job
from tests.benchmarks.stopwatch import Stopwatch

COMMIT_EVERY = 50_000


def main(settings: dict[str, Any]) -> None:
    records = settings["records"]
    watch = Stopwatch(records, settings["warm"])
    app = Application(
        broker_address=settings["bootstrap"], consumer_group=settings["group"], auto_offset_reset="earliest",
        processing_guarantee="exactly-once", state_dir=settings["state_dir"], loglevel="WARNING",
        commit_interval=3600, commit_every=min(COMMIT_EVERY, records),
        producer_extra_config={"compression.type": "lz4"},
    )  # fmt: skip
    (lent if settings["lent"] else as_it_comes)(app, settings, watch)
    commit = Checkpoint.commit

    def commit_and_count(self: Any, **options: Any) -> None:
        commit(self, **options)
        if watch.handed >= records and watch.durable(watch.handed - watch.done):
            os._exit(0)

    Checkpoint.commit = commit_and_count
    app.run()


def as_it_comes(app: Any, settings: dict[str, Any], watch: Stopwatch) -> None:
    source = app.topic(
        settings["source"], key_deserializer="bytes", value_deserializer=AvroDeserializer(_schema("Watched"))
    )
    out = app.topic(settings["out"], key_serializer="bytes", value_serializer=AvroSerializer(_schema("Progress")))

    def job(event: dict[str, Any], state: Any) -> dict[str, Any]:
        watch.taken(1)
        position = event["position_ms"]
        # One row a key: Quix keeps state under the record's key, and the name below inside it.
        old = state.get("p")
        reports, total = (0, position) if old is None else (old["reports"], old["total_ms"])
        moved = 0 if old is None else abs(position - old["position_ms"])
        row = {
            "reports": reports + 1, "position_ms": position, "total_ms": total + moved, "device": event["device"],
            "at": event["at"],
        }  # fmt: skip
        state.set("p", row)
        return row

    app.dataframe(source).apply(job, stateful=True).to_topic(out)


def lent(app: Any, settings: dict[str, Any], watch: Stopwatch) -> None:
    step = Job(compiled=settings["compiled"]).step
    source = app.topic(settings["source"], key_deserializer="bytes", value_deserializer="bytes")
    out = app.topic(settings["out"], key_serializer="bytes", value_serializer="bytes")

    def job(value: bytes, key: Any, timestamp: int, headers: Any, state: Any) -> bytes:
        watch.taken(1)
        row = step(value, state.get_bytes("p"))
        state.set_bytes("p", row)
        return row

    app.dataframe(source).apply(job, stateful=True, metadata=True).to_topic(out)


def _schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((SCHEMAS / f"{name}.avsc").read_text("utf-8"))
    return schema


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
