"""The bar chart of the bench as an SVG: no library, no script, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from .report import NAMES

WIDTH, LABEL, RIGHT, BAR, GAP, TOP = 720, 170, 100, 15, 16, 58
INK, QUIET = "#57606a", "#8c959f"
OURS, OURS_CPU, PEER, PEER_CPU = "#0969da", "#54aeff", "#8c959f", "#c4cbd2"
ORDER = ("engine", "kafka_streams", "quix_lent", "quix", "stock")


@dataclass(frozen=True, slots=True)
class Bar:
    """One engine: records per second of wall time, and of its own CPU time."""

    label: str
    per_s: float
    per_cpu_s: float
    ours: bool


def bars(rows: Mapping[str, Any]) -> list[Bar]:
    """Those that were measured, ours first. The raw ceiling does less than the job and is left out."""
    return [
        Bar(NAMES[name], rows[name]["per_s"], rows[name]["per_cpu_s"], name == "engine")
        for name in ORDER
        if name in rows and "absent" not in rows[name]
    ]


def svg(title: str, subtitle: str, chosen: list[Bar]) -> str:
    """The chart. ``chosen`` is not empty."""
    largest = max(max(bar.per_s, bar.per_cpu_s) for bar in chosen)
    height = TOP + len(chosen) * (2 * BAR + GAP) + 28
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title, {chr(34): "&quot;"})}" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        _text(0, 18, title, INK, size=15, weight="600"),
        _text(0, 38, subtitle, QUIET),
    ]
    for index, bar in enumerate(chosen):
        top = TOP + index * (2 * BAR + GAP)
        parts.append(
            _text(LABEL - 10, top + BAR + 4, bar.label, INK, anchor="end", weight="600" if bar.ours else "400")
        )
        wall, cpu = (OURS, OURS_CPU) if bar.ours else (PEER, PEER_CPU)
        for row, (value, colour) in enumerate(((bar.per_s, wall), (bar.per_cpu_s, cpu))):
            length = max(1.0, value / largest * (WIDTH - LABEL - RIGHT))
            y = top + row * BAR
            parts.append(f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR - 2}" rx="2" fill="{colour}"/>')
            unit = "/s" if row == 0 else "/CPU-s"
            parts.append(_text(LABEL + length + 6, y + BAR - 4, f"{value:,.0f}{unit}", INK, size=11))
    parts.append(_text(LABEL, height - 8, "upper bar: wall time, lower bar: CPU time of the process", QUIET, size=11))
    return "\n".join([*parts, "</svg>", ""])


def _text(
    x: float, y: float, text: str, colour: str, *, anchor: str = "start", size: int = 12, weight: str = "400"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )
