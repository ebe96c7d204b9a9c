"""The results as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

NAMES = {
    "engine": "this engine", "kafka_streams": "Kafka Streams EOS v2", "quix": "Quix Streams",
    "quix_lent": "Quix Streams, our codec", "stock": "stock Faust", "raw": "raw confluent-kafka",
    "agent": "playback agent, full rules", "decide": "playback rules alone",
}  # fmt: skip


def show(results: Mapping[str, Any], console: Console) -> None:
    """Print what is there of: throughput by keys, playback, latency by rate, restore, failover, idle."""
    for keys, rows in results.get("throughput", {}).items():
        _rates(f"decode, state, encode, forward; exactly once; {int(keys):,} keys", rows, console)
    if "playback" in results:
        _rates("playback.reported to playback.decided", results["playback"], console)
    if "latency" in results:
        table = _table("sent to visible (read_committed)", "", "p50 ms", "p95 ms", "p99 ms", "worker CPU")
        for rate, row in results["latency"].items():
            table.add_row(
                f"{int(rate):,}/s", f"{row['p50_ms']:.0f}", f"{row['p95_ms']:.0f}", f"{row['p99_ms']:.0f}",
                f"{row['cpu_share']:.1%}",
            )  # fmt: skip
        console.print(table)
    table = _table("", "", "")
    for name, line in _lines(results):
        table.add_row(name, line)
    if table.row_count:
        console.print(table)
    for name, value in results.get("ratios", {}).items():
        console.print(f"{name.replace('_', ' ')}: {value:.2f}")


def _rates(title: str, rows: Mapping[str, Any], console: Console) -> None:
    table = _table(title, "", "records", "wall s", "CPU s", "records/s", "per CPU-s", "peak MiB")
    for name, row in rows.items():
        label = NAMES.get(name, name.replace("_", " "))
        if "absent" in row:
            table.add_row(label, *[""] * 6)
            console.print(f"{label}: not measured. {row['absent']}", style="yellow", markup=False)
        else:
            table.add_row(
                label, f"{row['records']:,.0f}", f"{row['wall_s']:.1f}", f"{row['cpu_s']:.1f}",
                f"{row['per_s']:,.0f}", f"{row['per_cpu_s']:,.0f}", f"{row['peak_rss_mib']:.0f}",
            )  # fmt: skip
    console.print(table)


def _lines(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    lines = []
    if "restore" in results:
        row = results["restore"]
        lines += [
            ("changelog restored", f"{row['changelog_records']:,.0f} records, {row['restored_s']:.1f} s, "
             f"{row['records_per_s']:,.0f}/s"),
            ("  assignment to resumed", f"{row['assigned_to_resumed_s']:.1f} s"),
            ("  process start to first record", f"{row['started_to_first_record_s']:.1f} s"),
        ]  # fmt: skip
    if "failover" in results:
        row = results["failover"]
        lines += [
            ("one of two workers killed: its keys move", f"{row['moved_s']:.1f} s"),
            ("  pause of the other keys", f"{row['kept_pause_s']:.1f} s"),
            ("the only worker killed and started again", f"{row['resumed_s']:.1f} s"),
        ]
    if "idle" in results:
        row = results["idle"]
        lines.append(("idle worker", f"{row['cpu_share']:.2%} of a core, {row['rss_mib']:.0f} MiB"))
    return lines


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title or None, title_justify="left", show_header=any(columns))
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left")
    return table
