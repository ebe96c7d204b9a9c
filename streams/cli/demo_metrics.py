"""The demo's end: where each role answers with its metrics, and where the dashboard for them lies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from streams.cli.demo_waiting import until

_TREE: Final = Path(__file__).parents[2]
_PREFIX: Final = "playhead_"


def show(url: str, roles: list[str], logs: Path, console: Any) -> None:
    """Ask every role, and print what it can be asked at. Raises RuntimeError when one does not answer."""
    from rich.table import Table

    table = Table(title="Metrics, while it runs", title_justify="left")
    for column in ("role", "address", "series"):
        table.add_column(column, overflow="fold")
    for role, address in addresses(url, roles, logs).items():
        answer = httpx.get(address, timeout=10)
        series = sum(line.startswith(_PREFIX) for line in answer.text.splitlines())
        if answer.status_code != httpx.codes.OK or not series:
            raise RuntimeError(f"{role} answers {answer.status_code} at {address}, with {series} series of Playhead's")
        table.add_row(role, address, str(series))
    console.print()
    console.print(table)
    for dashboard in dashboards(_TREE):
        console.print(f"The dashboard for them: {dashboard}", soft_wrap=True)


def addresses(url: str, roles: list[str], logs: Path) -> Mapping[str, str]:
    """Role → address of its metrics: the door's own, and what the others have written to their logs.

    Raises RuntimeError when a role has written none.
    """
    found = {}
    for role in roles:
        if role == "serve":
            found[role] = f"{url}/metrics"
        else:
            file = logs / f"{role}.log"
            found[role] = until(f"{role} says where its metrics are", lambda file=file: last_address(file))  # type: ignore[misc]
    return found


def last_address(log: Path) -> str | None:
    """What a role said when it started last."""
    said = None
    for line in log.read_text("utf-8", "replace").splitlines() if log.exists() else ():
        if '"metrics"' in line and line.startswith("{"):
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # cut by the end of its process
            if entry.get("event") == "metrics":
                said = entry.get("url")
    return said


def dashboards(tree: Path) -> list[Path]:
    """Of this tree, relative to it; none where it was installed without."""
    return [path.relative_to(tree) for path in sorted((tree / "docker").glob("observe/**/*.json"))]
