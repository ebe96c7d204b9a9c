"""One process of the bench: `engine` or `stock`, prints its figures as a line of JSON and ends.

Time runs from the first record in an agent's hands to the last one durable (engine: committed with its
state; stock: processed, its outputs and changelog sent, which promises less).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from .engine_job import Job


class Stopwatch:
    """Counts records and ends the process when all are done."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.wall = self.cpu = 0.0
        self.over = False

    def begin(self) -> None:
        if not self.wall:
            self.wall, self.cpu = time.perf_counter(), time.process_time()

    def add(self, records: int) -> None:
        self.done += records
        if self.done >= self.total and not self.over:
            self.over = True
            wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
            # Stock Faust redirects sys.stdout into its log.
            print(json.dumps({"records": self.done, "wall_s": wall, "cpu_s": cpu}), file=sys.__stdout__, flush=True)
            os.kill(os.getpid(), signal.SIGTERM)


def engine(settings: dict[str, Any]) -> None:
    from streams.engine import App, EngineConfig, NoMetrics

    watch = Stopwatch(settings["records"])

    class Metrics(NoMetrics):
        def batch_committed(self, topic: str, partition: int, records: int, seconds: float) -> None:
            watch.add(records)

    app = App(
        EngineConfig(
            bootstrap=settings["bootstrap"], group=settings["group"], state_dir=Path(settings["state_dir"]),
            max_batch=settings["batch"], metrics=Metrics(),
        )
    )  # fmt: skip
    progress = app.Table("progress")
    out = settings["out"]
    step = Job().step

    @app.agent(app.source(settings["source"]), outputs=[out])
    async def watched(stream: Any) -> None:
        async for batch in stream:
            watch.begin()
            for record in batch.records:
                with batch.guard(record):
                    key = record.key()
                    row = step(record.value(), progress.get(key))
                    progress[key] = row
                    batch.send(out, row, key, batch.partition)

    if settings.get("profile"):
        import cProfile

        profile = cProfile.Profile()
        app.hard_exit = lambda: None  # type: ignore[method-assign]
        original = os._exit
        os._exit = lambda code: (profile.dump_stats(settings["profile"]), original(code))  # type: ignore
        profile.enable()
    app.run(loglevel="WARNING")


def stock(settings: dict[str, Any]) -> None:
    import faust

    watch = Stopwatch(settings["records"])
    app = faust.App(
        settings["group"], broker=f"kafka://{settings['bootstrap']}", store="rocksdb://?driver=rocksdict",
        datadir=settings["state_dir"], web_enabled=False, key_serializer="raw", value_serializer="raw",
        topic_disable_leader=True, topic_partitions=settings["partitions"], topic_replication_factor=1,
        consumer_auto_offset_reset="earliest", stream_wait_empty=False, worker_redirect_stdouts=False,
    )  # fmt: skip
    source = app.topic(settings["source"], key_type=bytes, value_type=bytes)
    out = app.topic(settings["out"], key_type=bytes, value_type=bytes)
    progress = app.Table("progress", key_type=bytes, value_type=bytes, partitions=settings["partitions"])
    step = Job().step

    @app.agent(source)  # type: ignore[untyped-decorator]
    async def watched(stream: Any) -> None:
        async for key, value in stream.items():
            watch.begin()
            row = step(value, progress.get(key))
            progress[key] = row
            out.send_soon(key=key, value=row)
            watch.add(1)

    sys.argv = [sys.argv[0], "worker", "--without-web", "-l", "error"]
    app.main()


if __name__ == "__main__":
    {"engine": engine, "stock": stock}[sys.argv[1]](json.loads(sys.argv[2]))
