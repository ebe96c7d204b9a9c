"""How long a record takes from being sent to being visible to a read_committed consumer, and what that costs.

Also what an idle worker costs: the same worker, before there is anything to do.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from .broker import PARTITIONS, topics
from .figures import percentile
from .live import Worker, flowing, job_settings

SETTLE_S = 4.0


def latency(bootstrap: str, per_s: int, seconds: float) -> dict[str, float]:
    """Percentiles in ms over ``seconds`` of even traffic; ``cpu_share`` is the worker's, of one core."""
    with topics(bootstrap) as made, tempfile.TemporaryDirectory(prefix="latency-bench-") as name:
        folder = Path(name)
        settings = job_settings(made, folder, "latency")
        with Worker(settings, folder / "worker.log") as worker:
            worker.wait("restored", PARTITIONS)
            with flowing(made, settings, per_s) as watcher:
                worker.wait("first", PARTITIONS)
                time.sleep(SETTLE_S)
                began, cpu = time.time_ns(), worker.cpu_s()
                time.sleep(seconds)
                ended, cpu = time.time_ns(), worker.cpu_s() - cpu
            waits = [(seen - sent) / 1e6 for _, sent, seen in watcher.seen if began <= sent < ended]
    return {
        "records": len(waits), "p50_ms": percentile(waits, 0.5), "p95_ms": percentile(waits, 0.95),
        "p99_ms": percentile(waits, 0.99), "max_ms": max(waits), "cpu_share": cpu / seconds,
    }  # fmt: skip


def idle(bootstrap: str, seconds: float) -> dict[str, float]:
    """The share of a core that a worker with nothing to do takes, and its size."""
    with topics(bootstrap) as made, tempfile.TemporaryDirectory(prefix="idle-bench-") as name:
        folder = Path(name)
        with Worker(job_settings(made, folder, "idle"), folder / "worker.log") as worker:
            worker.wait("restored", PARTITIONS)
            time.sleep(SETTLE_S)
            cpu = worker.cpu_s()
            time.sleep(seconds)
            return {"cpu_share": (worker.cpu_s() - cpu) / seconds, "rss_mib": worker.rss_mib(), "seconds": seconds}
