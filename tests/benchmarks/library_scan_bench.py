"""A library of 100,000 files: what scans of it cost, and what playback feels of one.

    python -m tests.benchmarks.library_scan_bench [--files 100000] [--changed 500] [--latency] [--per-s 200]

A whole deployment, each role a process, on the embedded Kafka and PostgreSQL. A scan lasts from its request until the
read model says that it is finalized. ``--latency``: reports arrive at the door at an even rate, first alone, then while
the first scan runs; their time is from when each was due, sent or not, until its decision can be read (looked for every
20 ms). Before anything is counted they come beside the scan of a small tree: a broker that has just started is still
compiling itself, and so much slower. What postgres holds counts shared memory once for each connection.

The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg
from rich.console import Console
from rich.table import Table

from schemas.topics import LIBRARY_CHANGED, LIBRARY_COMMANDS, LIBRARY_OBSERVED, MEDIA_MERGED
from streams.cli import running
from streams.cli.admin import door_connection
from streams.cli.deployment import Options
from streams.cli.running import Running
from streams.local.unprivileged import temporary_folder
from streams.runtime.clock import SystemClock
from streams.runtime.commands import command_record, scan_requested
from streams.runtime.contract import Contract
from streams.runtime.outlet import Outlet
from streams.runtime.tokens import create_source, create_token
from streams.runtime.trees import SourceTree, add_tree

from . import library_tree
from .counting import Counter
from .figures import percentile
from .steady import SETTLE_S, Steady

SOURCE, WARMING = "shelf", "warming"
TOPICS = (LIBRARY_COMMANDS, LIBRARY_OBSERVED, LIBRARY_CHANGED, MEDIA_MERGED)
ROLES = ("work", "agents-library", "project-library", "agents", "project", "serve")
POLL_S = 0.02
PATIENCE_S = 1_800.0
WARM_S = 45.0
WARM_SHARES = (0.25, 0.5, 1.0)
"""Of the rate, one after another: what a cold broker can't take would wait for minutes."""
WARM_FILES = 5_000


@dataclass(slots=True)
class Scanned:
    """``listed_s``: until everything there is was in the log. ``records``: by topic and event. ``cpu_s``, ``peak_mib``:
    by role, children included."""

    status: str
    listed_s: float
    finalized_s: float
    seen: int
    added: int
    changed: int
    load: float
    records: dict[str, dict[str, int]] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    peak_mib: dict[str, float] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class Bench:
    """One deployment with one source of files. Use as a context manager."""

    def __init__(self, playhead: Running, root: Path) -> None:
        self._playhead = playhead
        self.settings = playhead.settings
        self.root = root
        with door_connection(self.settings) as connection:
            create_source(connection, "home", "native", "Home")
            self.token = create_token(connection, "home", ["report", "read"])
        self._database = psycopg.connect(**self.settings.postgres.conninfo("owner"), autocommit=True)
        self._contract = Contract.of(self.settings)
        self._add(SOURCE, root)

    def warm(self) -> None:
        """Scan another, small tree."""
        small = self.root.parent / WARMING
        small.mkdir()
        library_tree.make(small, WARM_FILES)
        self._add(WARMING, small)
        self.scan(WARMING)

    def _add(self, source: str, folder: Path) -> None:
        with door_connection(self.settings) as connection:
            create_source(connection, source, "files", source)
            add_tree(connection, SourceTree(source, os.fsencode(folder), watch=False), None)

    def scan(self, source: str = SOURCE) -> Scanned:
        """Ask for a scan and wait for its end in the read model."""
        counters = [Counter(self.settings, topic, source, self._contract) for topic in TOPICS]
        pids = self._pids()
        before = {name: _cpu_s(_family(pid)) for name, pid in pids.items()}
        began = time.monotonic()
        with Peaks(pids) as peaks:
            generation = self._ask(source)
            listed, row = self._ended(source, generation, began)
        finalized = time.monotonic() - began
        cpu = {name: round(_cpu_s(_family(pid)) - before[name], 2) for name, pid in pids.items()}
        return Scanned(
            status=row[0], seen=row[1], added=row[2], changed=row[3], listed_s=round(listed, 2),
            finalized_s=round(finalized, 2), load=round(os.getloadavg()[0], 1),
            records={counter.topic.name: counter.count() for counter in counters},
            cpu_s=cpu, peak_mib={role: round(mib, 0) for role, mib in peaks.mib.items()},
        )  # fmt: skip

    def _pids(self) -> dict[str, int]:
        found = {role: self._playhead.supervisor.pid(role) for role in ROLES}
        services = {"kafka": self._playhead.stack.kafka.pid, "postgres": self._playhead.stack.postgres.pid}
        return {name: pid for name, pid in (found | services).items() if pid is not None}

    def _ask(self, source: str) -> int:
        outlet = Outlet(self.settings.kafka)
        try:
            command = scan_requested(source, SystemClock(), requested_by="operator", full=False)
            [place] = outlet.publish([command_record(self._contract, command)])
        finally:
            outlet.close()
        return place.offset

    def _ended(self, source: str, generation: int, began: float) -> tuple[float, tuple[Any, ...]]:
        listed = 0.0
        while True:
            if not listed:
                task = self._one("SELECT done_version FROM core.tasks WHERE kind = 'scan' AND key = %s", (source,))
                listed = time.monotonic() - began if task is not None and task[0] >= generation else 0.0
            row = self._one(
                "SELECT status, seen, added, changed FROM api.scans WHERE source_id = %s AND generation >= %s",
                (source, generation),
            )
            if row is not None and row[0] not in ("running", "finalizing"):
                return listed or time.monotonic() - began, row
            if time.monotonic() - began > PATIENCE_S:
                raise TimeoutError(f"the scan is {row} after {PATIENCE_S:.0f} s")
            self._playhead.supervisor.raise_refusal()
            time.sleep(POLL_S)

    def _one(self, query: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self._database.execute(query.encode(), values).fetchone()
        return found

    def steady(self, per_s: int) -> Steady:
        """Reports at an even rate, until it is closed."""
        return Steady(self._playhead.url, self.token, self.settings.postgres.conninfo("reader"), per_s)


class Peaks:
    """The largest resident size of processes and their children together, looked at often."""

    EVERY_S = 0.25

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self.mib: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            for role, pid in self._pids.items():
                now = sum(_rss_mib(one) for one in _family(pid))
                self.mib[role] = max(self.mib.get(role, 0.0), now)
            if self._stop.wait(self.EVERY_S):
                return


def _family(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def _cpu_s(processes: list[psutil.Process]) -> float:
    """Of processes that live, and of children that have ended."""
    spent = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            spent += times.user + times.system + times.children_user + times.children_system
    return spent


def _rss_mib(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        return float(process.memory_info().rss) / (1 << 20)
    return 0.0


@contextlib.contextmanager
def deployed(files: int, console: Console, *, lasting: bool = False) -> Iterator[Bench]:
    folder = temporary_folder("playhead-library-bench-")
    try:
        root = folder / "media"
        root.mkdir()
        began = time.monotonic()
        library_tree.make(root, files)
        console.print(f"{files:,} files made in {time.monotonic() - began:.1f} s")
        # The door is to take the load, not to refuse it.
        options = Options(http_port=None, log_level="WARNING", lasting=lasting)
        with running.deployment(folder / "data", options, console, registry=False) as playhead:
            yield Bench(playhead, root)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def change(root: Path, files: int, changed: int) -> None:
    """Other content in ``changed`` files, evenly over the tree."""
    every = max(1, files // changed)
    for number, path in enumerate(library_tree.paths(root, files)):
        if number % every == 0 and number // every < changed:
            library_tree.write(path, number, edition=1)


def scans(bench: Bench, files: int, changed: int, console: Console) -> dict[str, Any]:
    found = {"first": bench.scan()}
    show(found, console)
    found["unchanged"] = bench.scan()
    change(bench.root, files, changed)
    found[f"{changed} changed"] = bench.scan()
    show(found, console)
    return {name: one.plain() for name, one in found.items()}


def latency(bench: Bench, per_s: int, seconds: float, console: Console) -> dict[str, Any]:
    """Without a scan for ``seconds``, then while the first scan runs, then while an unchanged tree is scanned."""
    found: dict[str, Any] = {}
    with bench.steady(per_s) as steady:
        for share in WARM_SHARES:
            steady.per_s = per_s * share
            time.sleep(WARM_S)
        bench.warm()
        if not steady.settled(SETTLE_S):
            raise SystemExit(f"{per_s} reports/s are more than this machine can take")
        with steady.window() as alone:
            time.sleep(seconds)
        found["alone"] = alone
        with steady.window() as beside:
            first = bench.scan()
        found["first scan"] = beside
        with steady.window() as again:
            unchanged = bench.scan()
        found["unchanged rescan"] = again
    show({"first, reports beside": first, "unchanged, reports beside": unchanged}, console)
    table = Table("reports", "number", "answer p50 ms", "p99", "visible p50 ms", "p99", "max", "refused")
    rows: dict[str, Any] = {"per_s": per_s}
    for name, window in found.items():
        answered, visible = window.answered_ms, window.visible_ms
        row = {
            "reports": len(visible), "answer_p50_ms": percentile(answered, 0.5),
            "answer_p99_ms": percentile(answered, 0.99), "visible_p50_ms": percentile(visible, 0.5),
            "visible_p99_ms": percentile(visible, 0.99), "visible_max_ms": max(visible),
        }  # fmt: skip
        rows[name] = {key: round(value, 1) for key, value in row.items()} | {"refused": dict(window.refused)}
        refused = str(window.refused.total())
        table.add_row(name, str(row["reports"]), *(f"{row[key]:.0f}" for key in list(row)[1:6]), refused)
    rows["times"] = round(rows["first scan"]["visible_p99_ms"] / rows["alone"]["visible_p99_ms"], 2)
    console.print(table)
    console.print(f"visible p99 while the first scan runs: {rows['times']} times that of without")
    return {**rows, "scans": {"first": first.plain(), "unchanged": unchanged.plain()}}


def show(found: dict[str, Scanned], console: Console) -> None:
    table = Table("scan", "status", "listed s", "finalized s", "seen", "added", "changed", "records", "load")
    for name, one in found.items():
        records = "\n".join(
            f"{topic}: " + ", ".join(f"{count:,} {event}" for event, count in sorted(events.items()))
            for topic, events in one.records.items()
            if events
        )
        table.add_row(
            name, one.status, f"{one.listed_s:.1f}", f"{one.finalized_s:.1f}", f"{one.seen:,}", f"{one.added:,}",
            f"{one.changed:,}", records, str(one.load),
        )  # fmt: skip
    console.print(table)
    names = [*ROLES, "kafka", "postgres"]
    table = Table("CPU s · peak MiB", *names)
    for name, one in found.items():
        table.add_row(name, *(f"{one.cpu_s.get(who, 0):.1f} · {one.peak_mib.get(who, 0):.0f}" for who in names))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--changed", type=int, default=500)
    parser.add_argument("--latency", action="store_true", help="reports beside the first scan, instead of the scans")
    parser.add_argument("--per-s", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0, help="of reports without a scan")
    given = parser.parse_args()
    console = Console(width=150)
    with deployed(given.files, console, lasting=given.latency) as bench:
        if given.latency:
            found = latency(bench, given.per_s, given.seconds, console)
        else:
            found = scans(bench, given.files, given.changed, console)
    print(json.dumps({"bench": "library", "files": given.files, **found}))


if __name__ == "__main__":
    main()
