"""One process of the bench: `engine`, `live`, `stock` (Faust as it comes) or `raw` (no engine, no state: a ceiling).

All but `live` print their figures as a line of JSON and end. Durable means, for the engine, committed with its state;
for raw, committed; for stock, processed, its outputs and changelog sent, which promises less.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streams.engine import App, Batch, EngineConfig, NoMetrics

from .engine_job import Job
from .stopwatch import Stopwatch

RAW_BATCH = 5_000


class Metrics(NoMetrics):
    """Counts what is durable and ends the process when that is all."""

    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch

    def batch_committed(self, topic: str, partition: int, records: int, seconds: float) -> None:
        if self._watch.durable(records):
            os.kill(os.getpid(), signal.SIGTERM)


class Tell(NoMetrics):
    """Says as lines of JSON what happens to a worker that goes on until it is stopped. ``at``: Unix time."""

    def __init__(self) -> None:
        self._begun: set[int] = set()

    def units_assigned(self, count: int) -> None:
        self._begun.clear()
        self._say("assigned", count=count)

    def restored(self, partition: int, records: int, seconds: float) -> None:
        self._say("restored", partition=partition, records=records)

    def taken(self, partition: int) -> None:
        """A batch of ``partition`` is in the agent's hands."""
        if partition not in self._begun:
            self._begun.add(partition)
            self._say("first", partition=partition)

    def _say(self, event: str, **facts: int) -> None:
        print(json.dumps({"event": event, "at": time.time(), **facts}), flush=True)


def engine(settings: dict[str, Any]) -> None:
    """The job until all records are durable."""
    watch = Stopwatch(settings["records"], settings["warm"])
    job_app(settings, Metrics(watch), lambda batch: watch.taken(len(batch.records))).run(loglevel="WARNING")


def live(settings: dict[str, Any]) -> None:
    """The job until SIGTERM."""
    tell = Tell()
    job_app(settings, tell, lambda batch: tell.taken(batch.partition)).run(loglevel="WARNING")


def job_app(settings: dict[str, Any], metrics: NoMetrics, taken: Callable[[Batch], None]) -> App:
    """The job on the engine; ``taken`` sees every batch before its records are worked on."""
    app = App(
        EngineConfig(
            bootstrap=settings["bootstrap"], group=settings["group"], state_dir=Path(settings["state_dir"]),
            metrics=metrics, **settings.get("engine", {}),
        )
    )  # fmt: skip
    progress = app.Table("progress")
    out = settings["out"]
    step = Job(compiled=settings["compiled"]).step

    @app.agent(app.source(settings["source"]), outputs=[out])
    async def watched(stream: Any) -> None:
        async for batch in stream:
            taken(batch)
            for record in batch.records:
                with batch.guard(record):
                    key = record.key()
                    row = step(record.value(), progress.get(key))
                    progress[key] = row
                    batch.send(out, row, key, batch.partition)

    return app


def stock(settings: dict[str, Any]) -> None:
    import faust

    watch = Stopwatch(settings["records"], settings["warm"])
    step = Job(compiled=settings["compiled"]).step
    app = faust.App(
        settings["group"], broker=f"kafka://{settings['bootstrap']}", store="rocksdb://?driver=rocksdict",
        datadir=settings["state_dir"], web_enabled=False, key_serializer="raw", value_serializer="raw",
        topic_disable_leader=True, topic_partitions=settings["partitions"], topic_replication_factor=1,
        consumer_auto_offset_reset="earliest", stream_wait_empty=False, worker_redirect_stdouts=False,
    )  # fmt: skip
    source = app.topic(settings["source"], key_type=bytes, value_type=bytes)
    out = app.topic(settings["out"], key_type=bytes, value_type=bytes)
    progress = app.Table("progress", key_type=bytes, value_type=bytes, partitions=settings["partitions"])

    @app.agent(source)  # type: ignore[untyped-decorator]
    async def watched(stream: Any) -> None:
        async for key, value in stream.items():
            watch.taken(1)
            row = step(value, progress.get(key))
            progress[key] = row
            out.send_soon(key=key, value=row)
            if watch.durable(1):
                os.kill(os.getpid(), signal.SIGTERM)

    sys.argv = [sys.argv[0], "worker", "--without-web", "-l", "error"]
    app.main()


def raw(settings: dict[str, Any]) -> None:
    """Consume, decode, encode, produce; offsets and outputs in one transaction a batch. No table."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    watch = Stopwatch(settings["records"], settings["warm"])
    step = Job(compiled=settings["compiled"]).step
    servers, out = {"bootstrap.servers": settings["bootstrap"]}, settings["out"]
    consumer = Consumer(
        {**servers, "group.id": settings["group"], "auto.offset.reset": "earliest", "enable.auto.commit": False,
         "isolation.level": "read_committed"}
    )  # fmt: skip
    producer = Producer(
        {**servers, "transactional.id": settings["group"], "compression.type": "lz4", "linger.ms": 5,
         "retry.backoff.ms": 10, "queue.buffering.max.messages": 1_000_000}
    )  # fmt: skip
    producer.init_transactions(30)
    consumer.subscribe([settings["source"]])
    while not watch.over:
        messages = consumer.consume(RAW_BATCH, 0.05)
        if not messages:
            continue
        watch.taken(len(messages))
        producer.begin_transaction()
        ends: dict[int, int] = {}
        for message in messages:
            key, value, partition, offset = message.key(), message.value(), message.partition(), message.offset()
            if key is None or value is None or partition is None or offset is None:
                raise RuntimeError(str(message.error()))
            producer.produce(out, step(value, None), key, partition)
            ends[partition] = offset + 1
        producer.send_offsets_to_transaction(
            [TopicPartition(settings["source"], partition, end) for partition, end in ends.items()],
            consumer.consumer_group_metadata(),
            30,
        )
        producer.commit_transaction(30)
        watch.durable(len(messages))
    os._exit(0)


if __name__ == "__main__":
    {"engine": engine, "live": live, "stock": stock, "raw": raw}[sys.argv[1]](json.loads(sys.argv[2]))
