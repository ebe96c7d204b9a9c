"""The bench runs, with very little to do. How fast is not asked."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks import engine_bench
from tests.benchmarks.failover import failover
from tests.benchmarks.latency import latency
from tests.benchmarks.restore import restore

pytestmark = [pytest.mark.services, pytest.mark.long]


def test_the_bench_measures_the_engine_and_tells_all_figures(
    kafka_bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--records", "4000", "--keys", "300", "--rounds", "1"]
    engine_bench.main(["--bootstrap", kafka_bootstrap, "--only", "throughput", "--no-peers", *size])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    row = found["throughput"]["300"]["engine"]
    assert 0 < row["records"] <= 4_000
    assert all(row[name] > 0 for name in ("wall_s", "cpu_s", "per_s", "per_cpu_s", "peak_rss_mib"))


def test_a_wiped_worker_is_measured_until_it_has_all_rows_again(kafka_bootstrap: str) -> None:
    found = restore(kafka_bootstrap, 2_000)
    # The rows, and the source marks that are in the changelog beside them.
    assert found["changelog_records"] >= 2_000
    assert 0 < found["restored_s"] <= found["assigned_to_resumed_s"] < found["started_to_first_record_s"] + 60


def test_latency_is_measured_of_every_record_in_the_window(kafka_bootstrap: str) -> None:
    found = latency(kafka_bootstrap, 200, 2)
    assert 300 < found["records"] < 450
    assert 0 < found["p50_ms"] <= found["p95_ms"] <= found["p99_ms"] <= found["max_ms"]


def test_a_killed_workers_partitions_move(kafka_bootstrap: str) -> None:
    found = failover(kafka_bootstrap)
    assert found["moved_partitions"] == 2
    assert found["moved_s"] > 0
