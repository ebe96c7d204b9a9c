"""What a run gives, and the arithmetic on it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

_LINE = re.compile(r'\{"records".*?\}')


@dataclass(frozen=True, slots=True)
class Figures:
    """``records`` in the counted window, and what the process took for them. Times are seconds."""

    records: float
    wall_s: float
    cpu_s: float
    peak_rss_mib: float

    @property
    def per_s(self) -> float:
        """Records per second of wall time."""
        return self.records / self.wall_s

    @property
    def per_cpu_s(self) -> float:
        """Records per second of the process's CPU time, all its threads together."""
        return self.records / self.cpu_s

    def plain(self) -> dict[str, float]:
        """For JSON."""
        return {
            "records": self.records, "wall_s": self.wall_s, "cpu_s": self.cpu_s, "peak_rss_mib": self.peak_rss_mib,
            "per_s": self.per_s, "per_cpu_s": self.per_cpu_s,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Absent:
    """Somebody could not be measured here, and why."""

    reason: str

    def plain(self) -> dict[str, str]:
        """For JSON."""
        return {"absent": self.reason}


Row = Figures | Absent


def parse(output: str) -> Figures | None:
    """The last line of figures in a worker's output; None without one. Other text may share the line."""
    found = _LINE.findall(output)
    if not found:
        return None
    read: dict[str, Any] = json.loads(found[-1])
    return Figures(*(float(read[name]) for name in ("records", "wall_s", "cpu_s", "peak_rss_mib")))


def middle(rows: Sequence[Row]) -> Row:
    """The median of every figure by itself; the first reason when somebody was absent. ``rows`` is not empty."""
    present = [row for row in rows if isinstance(row, Figures)]
    if len(present) < len(rows):
        return next(row for row in rows if isinstance(row, Absent))
    # Of the rates, not of times and records apart: those could belong to different runs.
    chosen = sorted(present, key=lambda row: row.per_s)[len(present) // 2]
    cpu = median(row.cpu_s / row.records for row in present) * chosen.records
    return Figures(chosen.records, chosen.wall_s, cpu, max(row.peak_rss_mib for row in present))


def ratios(rows: Mapping[str, Row]) -> dict[str, float]:
    """How many times the engine is as fast as each peer that was there: wall, and per CPU-second."""
    ours = rows.get("engine")
    if not isinstance(ours, Figures):
        return {}
    found: dict[str, float] = {}
    for name, row in rows.items():
        if name != "engine" and isinstance(row, Figures):
            found[f"times_{name}_wall"] = ours.per_s / row.per_s
            found[f"times_{name}_cpu"] = ours.per_cpu_s / row.per_cpu_s
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` (0 to 1) of all values do not exceed. Not empty."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)]
