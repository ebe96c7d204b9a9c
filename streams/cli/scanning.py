"""Scans from the operator's side: the command into the log, then what becomes of it, read from two places.

The task's row says whether a worker has it and how far the listing is; the read model says what the library made of
it. A command counts once Kafka has it, so nothing here is lost by being interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any, Final, Self

import psycopg
from psycopg.rows import dict_row
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from schemas.library import Command
from streams.cli.admin import answering
from streams.runtime.clock import SystemClock
from streams.runtime.commands import command_record, scan_cancelled, scan_confirmed, scan_id, scan_requested
from streams.runtime.contract import Contract
from streams.runtime.errors import Permanent, Unavailable
from streams.runtime.outlet import Outlet
from streams.runtime.settings import Role, Settings
from streams.runtime.trees import scannable

POLL_S: Final = 0.25
HINT_AFTER_S: Final = 10.0
LAG_S: Final = 60.0
"""So long the read model may lag behind a task that is done."""
GOES_ON: Final = frozenset({"running", "finalizing"})
COUNTS: Final = ("seen", "added", "changed", "moved", "missing", "unreadable")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a scan. ``status``: as in the read model, or dead when it was given up."""

    scan: str
    status: str
    reason: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at both places; None: there is no such row."""

    task: Mapping[str, Any] | None
    scan: Mapping[str, Any] | None


def settled(seen: Seen, source_id: str, generation: int, *, held_before: int | None = None) -> Outcome | None:
    """What became of the scan that was asked for under ``generation``; None: it goes on.

    A scan that is repeated, or asked for once more meanwhile, has a later generation and answers for this one.
    ``held_before``: version of the row that said it was held, when that is no news.
    """
    task, scan = seen.task, seen.scan
    asked = scan_id(source_id, generation)
    wanted = -1
    if task is not None and task["wanted_version"] >= generation:
        if task["dead_at"] is not None:
            return Outcome(asked, "dead", task["last_error"])
        if task["wanted_version"] > max(task["done_version"], task["cancelled_version"]):
            wanted = task["wanted_version"]
    if scan is None:
        gone = task is not None and task["cancelled_version"] >= generation
        return Outcome(asked, "cancelled") if gone else None
    if scan["status"] in GOES_ON or (scan["status"] == "held" and scan["version"] == held_before):
        return None
    if scan["status"] != "finalized" and scan["generation"] < wanted:
        return None  # it is repeated
    counts = {name: scan[name] for name in COUNTS}
    skipped = dict(scan["skipped"] or {})
    return Outcome(scan_id(source_id, scan["generation"]), scan["status"], scan["reason"], counts, skipped)


def taken(seen: Seen, generation: int) -> bool:
    """Whether a worker has, or had, the scan that was asked for."""
    task = seen.task
    has = task is not None and (task["lease_token"] is not None or task["done_version"] >= generation)
    return has or seen.scan is not None


class Desk:
    """An operator's look at one source; use as a context manager.

    Raises Permanent, saying what to do, for a source that is unknown or can't be scanned, Unavailable when Kafka or
    PostgreSQL is away.
    """

    def __init__(self, settings: Settings, source_id: str) -> None:
        self._settings = settings
        self._source_id = source_id
        self._clock = SystemClock()
        self._held_before: int | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._door = stack.enter_context(closing(self._connect("door")))
            with answering(self._settings):
                scannable(self._door, self._source_id)
            self._reader = stack.enter_context(closing(self._connect("reader")))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def request(self, *, full: bool) -> int:
        """Ask for a scan; its generation."""
        return self._send(scan_requested(self._source_id, self._clock, requested_by="operator", full=full))

    def confirm(self) -> int:
        """Say that the newest scan, which is held, tells the truth; its generation."""
        scan = self._scan(0)
        if scan is None or scan["status"] != "held":
            status = f"; the newest is {scan['status']}" if scan else ""
            raise Permanent(f"no scan of {self._source_id} is held{status}", cause="not_held")
        self._held_before = int(scan["version"])
        self._send(scan_confirmed(self._source_id, self._clock, scan["generation"]))
        return int(scan["generation"])

    def cancel(self) -> int:
        """Stop what runs and waits; its generation."""
        task = self._task()
        if task is None or task["wanted_version"] <= max(task["done_version"], task["cancelled_version"]):
            raise Permanent(f"no scan of {self._source_id} runs or waits", cause="nothing_to_cancel")
        generation = max(task["wanted_version"], task["running_version"] or 0)
        self._send(scan_cancelled(self._source_id, self._clock, generation))
        return int(generation)

    def follow(self, generation: int, *, quiet: bool) -> Outcome:
        """Wait for the end of a scan, showing how far it is unless ``quiet``."""
        console = Console(stderr=True, quiet=quiet)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[said]}", markup=False),
            TimeElapsedColumn(),
        )
        began = time.monotonic()
        done_at: float | None = None
        hinted = False
        with Progress(*columns, console=console, transient=True) as bar:
            shown = bar.add_task(f"{self._source_id}: waiting for a worker", total=None, said="")
            while True:
                seen = Seen(self._task(), self._scan(generation))
                outcome = settled(seen, self._source_id, generation, held_before=self._held_before)
                if outcome is not None:
                    return outcome
                now = time.monotonic()
                if not taken(seen, generation) and not hinted and now - began > HINT_AFTER_S:
                    hinted = True
                    console.print("no worker has taken it yet: does 'playhead work' run?", markup=False)
                done_at = self._lagging(seen, generation, done_at, now)
                bar.update(shown, **described(self._source_id, seen))
                time.sleep(POLL_S)

    def _lagging(self, seen: Seen, generation: int, done_at: float | None, now: float) -> float | None:
        """Since when only the read model is waited for. Raises Unavailable when that is too long."""
        if seen.task is None or seen.task["done_version"] < generation:
            return None
        if done_at is not None and now - done_at > LAG_S:
            raise Unavailable(
                f"scan {scan_id(self._source_id, generation)} was listed, but nothing says what came of it: do "
                "'playhead agents' and 'playhead project library' run?"
            )
        return now if done_at is None else done_at

    def _send(self, command: Command) -> int:
        outlet = Outlet(self._settings.kafka)
        contract = Contract.of(self._settings)
        try:
            [place] = outlet.publish([command_record(contract, command)])
        finally:
            outlet.close()
            contract.close()
        return place.offset

    def _task(self) -> dict[str, Any] | None:
        return self._row(self._door, "SELECT * FROM core.tasks WHERE kind = 'scan' AND key = %s", (self._source_id,))

    def _scan(self, generation: int) -> dict[str, Any] | None:
        """The newest scan that is not older than ``generation``."""
        return self._row(
            self._reader,
            "SELECT * FROM api.scans WHERE source_id = %s AND generation >= %s ORDER BY generation DESC LIMIT 1",
            (self._source_id, generation),
        )

    def _row(
        self, connection: psycopg.Connection[Any], query: str, values: tuple[object, ...]
    ) -> dict[str, Any] | None:
        with answering(self._settings):
            cursor = connection.cursor(row_factory=dict_row)
            return cursor.execute(query.encode(), values).fetchone()

    def _connect(self, role: Role) -> psycopg.Connection[Any]:
        with answering(self._settings):
            return psycopg.connect(**self._settings.postgres.conninfo(role), autocommit=True)


def described(source_id: str, seen: Seen) -> dict[str, Any]:
    """How far it is, for the progress bar: description, total, completed and what else to say."""
    task, scan = seen.task, seen.scan
    progress = (task or {}).get("progress") or {}
    if progress:
        items, seconds = int(progress["items"]), float(progress["seconds"])
        before = int(scan["present_before"]) if scan else 0
        said = f"{items} items"
        if seconds > 0:
            said += f", {items / seconds:.0f}/s"
        if progress["changed"]:
            said += f", {progress['changed']} new or changed"
        if progress["unreadable"]:
            said += f", {progress['unreadable']} unreadable"
        total = max(before, items) if before else None
        return {"description": f"{source_id}: listing", "total": total, "completed": items, "said": said}
    if task is not None and task["last_error"] and task["lease_token"] is None:
        return {"description": f"{source_id}: is tried again soon", "total": None, "said": str(task["last_error"])[:80]}
    listed = task is not None and task["done_version"] >= task["wanted_version"]
    if listed or (scan is not None and scan["status"] in GOES_ON):
        said = f"{scan['observations']} observations" if scan else ""
        return {"description": f"{source_id}: deciding", "total": None, "said": said}
    return {"description": f"{source_id}: waiting for a worker", "total": None, "said": ""}
