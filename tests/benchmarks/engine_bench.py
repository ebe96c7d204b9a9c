"""Engine events per second, wall and per CPU-second, beside stock Faust, in one run on one topic.

    python -m tests.benchmarks.engine_bench [--records N] [--bootstrap HOST:PORT]

Starts the embedded Kafka when no address is given. Stock Faust works on a prefix sized for 20 to 60 s.
Prints a table and, as the last line, one JSON object. Ratios count, not figures: the broker shares the
machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streams.engine import EngineConfig, ensure_changelogs

from .engine_job import records

PARTITIONS = 4
#: Longest time one process may take.
PATIENCE = 600.0
REPOSITORY = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def kafka(bootstrap: str | None) -> Iterator[str]:
    """Yield the given address, or that of an embedded Kafka that ends with the block."""
    if bootstrap is not None:
        yield bootstrap
        return
    from streams.local import Stack

    with Stack() as stack:
        yield str(stack.addresses.bootstrap)


def fill(bootstrap: str, topic: str, count: int, keys: int) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 20, "batch.size": 262_144}
    )
    for key, value in records(count, keys):
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def measure(kind: str, settings: dict[str, Any]) -> dict[str, float]:
    """Run one worker process; return records, wall_s, cpu_s and the two rates."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.engine_workers", kind, json.dumps(settings)],
        cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=False, env=os.environ,
    )  # fmt: skip
    # Stock Faust draws a spinner on the same line.
    found = re.findall(r'\{"records".*\}', process.stdout)
    if not found:
        raise SystemExit(f"{kind} ended with {process.returncode} and no figures:\n{process.stdout[-2000:]}")
    figures: dict[str, float] = json.loads(found[-1])
    figures["per_s"] = figures["records"] / figures["wall_s"]
    figures["per_cpu_s"] = figures["records"] / figures["cpu_s"]
    return figures


def run(bootstrap: str, count: int, stock_count: int, keys: int, batch: int, profile: str | None) -> dict[str, Any]:
    name = f"bench-{secrets.token_hex(4)}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    source, out, stock_out = f"{name}-source", f"{name}-out", f"{name}-stock-out"
    for future in admin.create_topics([NewTopic(t, PARTITIONS, 1) for t in (source, out, stock_out)]).values():
        future.result(30)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="engine-bench-") as folder:
        group = f"{name}-engine"
        config = EngineConfig(bootstrap=bootstrap, group=group, state_dir=Path(folder))
        ensure_changelogs(config, [f"{group}-progress-changelog"], partitions=PARTITIONS)
        fill(bootstrap, source, count, keys)
        common = {"bootstrap": bootstrap, "source": source, "batch": batch, "partitions": PARTITIONS}
        results["engine"] = measure(
            "engine",
            {**common, "group": group, "out": out, "records": count, "state_dir": f"{folder}/engine",
             "profile": profile},
        )  # fmt: skip
        if stock_count:
            results["stock_faust"] = measure(
                "stock",
                {**common, "group": f"{name}-stock", "out": stock_out, "records": min(stock_count, count),
                 "state_dir": f"{folder}/stock"},
            )  # fmt: skip
    admin.delete_topics([source, out, stock_out, f"{group}-progress-changelog"])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="a running Kafka; left out: an embedded one")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--stock-records", type=int, default=20_000, help="prefix for stock Faust; 0: leave it out")
    parser.add_argument("--keys", type=int, default=5_000)
    parser.add_argument("--batch", type=int, default=2_000)
    parser.add_argument("--profile", help="write the engine worker's cProfile there (slows it down)")
    given = parser.parse_args()
    with kafka(given.bootstrap) as bootstrap:
        results = run(bootstrap, given.records, given.stock_records, given.keys, given.batch, given.profile)
    print(f"\n{'':14}{'records':>10}{'wall s':>9}{'CPU s':>9}{'events/s':>11}{'per CPU-s':>11}")
    for name, row in results.items():
        print(f"{name:14}{row['records']:>10,.0f}{row['wall_s']:>9.2f}{row['cpu_s']:>9.2f}"
              f"{row['per_s']:>11,.0f}{row['per_cpu_s']:>11,.0f}")  # fmt: skip
    summary: dict[str, Any] = {"bench": "engine", "keys": given.keys, "batch": given.batch, "results": results}
    if "stock_faust" in results:
        summary["times_stock_wall"] = results["engine"]["per_s"] / results["stock_faust"]["per_s"]
        summary["times_stock_cpu"] = results["engine"]["per_cpu_s"] / results["stock_faust"]["per_cpu_s"]
        print(f"\nengine is {summary['times_stock_wall']:.1f} x stock Faust (wall), "
              f"{summary['times_stock_cpu']:.1f} x per CPU-second")  # fmt: skip
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
