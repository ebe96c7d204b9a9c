"""How long a worker whose disk is gone takes to have its tables again, out of the changelog."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from .broker import PARTITIONS, Topics, client, fill, topics
from .engine_job import Job
from .live import Worker, job_settings, watched
from .processes import measure, worker_command


def restore(bootstrap: str, keys: int) -> dict[str, float]:
    """Make ``keys`` rows, delete the local state, start again.

    ``assigned_to_resumed_s``: from the assignment to a record in hand in every partition.
    ``started_to_first_record_s``: from the start of the process to a record in hand in any.
    """
    with topics(bootstrap) as made, tempfile.TemporaryDirectory(prefix="restore-bench-") as name:
        folder = Path(name)
        settings = job_settings(made, folder, "restore")
        fill(bootstrap, settings["source"], _distinct(keys))
        measure(worker_command("engine", {**settings, "records": keys, "warm": 0}))
        shutil.rmtree(settings["state_dir"])
        _one_more_each(made, settings)
        with Worker(settings, folder / "worker.log") as worker:
            firsts = worker.wait("first", PARTITIONS)
            assigned = worker.wait("assigned", 1)[0]["at"]
            read = sum(event["records"] for event in worker.told("restored"))
            restored = max(event["at"] for event in worker.told("restored")) - assigned
            size = worker.rss_mib()
            worker.end(signal.SIGTERM)
        return {
            "changelog_records": read,
            "restored_s": restored,
            "records_per_s": read / restored,
            "assigned_to_resumed_s": max(event["at"] for event in firsts) - assigned,
            "started_to_first_record_s": min(event["at"] for event in firsts) - worker.started,
            "rss_mib": size,
        }


def _distinct(keys: int) -> Iterator[tuple[bytes, bytes]]:
    encode, now = Job().encode_watched, time.time_ns()
    for number in range(keys):
        yield f"user-{number % 997:05d}:media-{number:07d}".encode(), encode(watched(number, number, now), b"")


def _one_more_each(made: Topics, settings: dict[str, Any]) -> None:
    """What shows that a partition has resumed."""
    producer = Producer(client(made.bootstrap))
    encode = Job().encode_watched
    for partition in range(PARTITIONS):
        value = encode(watched(partition, partition, time.time_ns()), b"")
        producer.produce(settings["source"], value, b"one more", partition)
    producer.flush(30)
