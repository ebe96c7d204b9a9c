"""What a scan would change, found out here and now: nothing is sent anywhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from streams.cli.admin import answering, door_connection
from streams.effects.comparing import Comparison, Difference
from streams.effects.known import KnownFiles
from streams.effects.scan.ports import SourceFailed
from streams.effects.scan.scanner import ScanCounts, ScanJob, scan
from streams.effects.sources import source_of
from streams.runtime.clock import SystemClock
from streams.runtime.errors import Permanent
from streams.runtime.logs import escape
from streams.runtime.settings import Settings
from streams.runtime.trees import scannable

SHOWN_MAX: Final = 20
"""Paths shown of each list; --json has them all."""


@dataclass(frozen=True, slots=True)
class Found:
    source_id: str
    difference: Difference
    counts: ScanCounts
    seconds: float

    def changes(self) -> Sequence[object]:
        one = self.difference
        return [*one.new, *one.changed, *one.moved, *one.gone]

    def as_json(self) -> dict[str, Any]:
        one = self.difference
        return {
            "source": self.source_id,
            "complete": self.counts.complete,
            "items": self.counts.items,
            "same": one.same,
            "new": [shown(path) for path in one.new],
            "changed": [shown(path) for path in one.changed],
            "moved": [{"from": shown(before), "to": shown(after)} for before, after in one.moved],
            "gone": [shown(path) for path in one.gone],
            "unreadable": [shown(path) for path, reason in one.skipped if reason == "unreadable"],
            "ignored": [shown(path) for path, reason in one.skipped if reason == "ignored"],
            "failed": [shown(path) for path in one.failed],
            "unsettled": [shown(path) for path in one.unsettled],
            "skipped": dict(self.counts.skipped or {}),
            "seconds": round(self.seconds, 3),
        }

    def lines(self) -> list[str]:
        one = self.difference
        rate = self.counts.items / self.seconds if self.seconds else 0
        lines = [f"{self.counts.items} items in {self.seconds:.1f} s ({rate:.0f}/s), {one.same} of them as known"]
        unreadable = [path for path, reason in one.skipped if reason == "unreadable"]
        named = {
            "new": one.new,
            "changed": one.changed,
            "gone": one.gone,
            "could not be looked at": unreadable,
            "details could not be read": one.failed,
            "still being written": one.unsettled,
        }
        for what, paths in named.items():
            lines += _listed(what, [shown(path) for path in paths])
        lines += _listed("moved", [f"{shown(before)} → {shown(after)}" for before, after in one.moved])
        if self.counts.skipped:
            passed = ", ".join(f"{count} {reason}" for reason, count in sorted(self.counts.skipped.items()))
            lines.append(f"passed over: {passed}")
        if not one:
            lines.append("a scan would change nothing")
        return lines


def dry_run(settings: Settings, source_id: str, *, full: bool, quiet: bool) -> Found:
    """List a source here. Raises Permanent when it can't be listed from here, Unavailable without a database."""
    clock = SystemClock()
    with door_connection(settings) as connection:
        source = source_of(scannable(connection, source_id), clock)
    job = ScanJob(source_id, 0, "operator", full, "dry-run")
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    began = time.monotonic()
    with (
        answering(settings),
        KnownFiles(settings.postgres.conninfo("reader")) as known,
        Progress(*columns, console=Console(stderr=True, quiet=quiet), transient=True) as bar,
    ):
        comparison = Comparison(source_id, known)
        task = bar.add_task(f"{source_id}: listing", total=None)

        class Shown:
            def seen(self, items: int, changed: int, unreadable: int) -> None:
                rate = items / max(time.monotonic() - began, 0.001)
                said = f"{items} items, {rate:.0f}/s, {changed} new or changed, {unreadable} unreadable"
                bar.update(task, description=f"{source_id}: {said}")

        try:
            counts = scan(job, source, comparison, comparison, _Nobodys(), Shown(), clock)
        except SourceFailed as exc:
            raise Permanent(f"{source_id} can't be listed from here: {exc}", cause="bad_source") from None
        return Found(source_id, comparison.difference(), counts, time.monotonic() - began)


class _Nobodys:
    """The lease of what needs none."""

    def check(self) -> None:
        return


def shown(path: bytes) -> str:
    return escape(path.decode("utf-8", "backslashreplace"))


def _listed(what: str, texts: Sequence[str]) -> list[str]:
    if not texts:
        return []
    rest = len(texts) - SHOWN_MAX
    more = [f"  … and {rest} more (--json shows all)"] if rest > 0 else []
    return [f"{what}: {len(texts)}", *(f"  {text}" for text in texts[:SHOWN_MAX]), *more]
