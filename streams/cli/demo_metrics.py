"""The demo's end: where each process answers with its metrics, and where the dashboard for them lies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from streams.cli.demo_waiting import until
from streams.local import ports

_TREE: Final = Path(__file__).parents[2]
_PREFIX: Final = "playhead_"


def show(processes: Mapping[str, int], targets: Path, console: Any) -> None:
    """Ask every process at its port, and print where it can be asked; ``targets``: the file that names them all.

    Raises RuntimeError when one does not answer, or not with numbers of Playhead's.
    """
    from rich.table import Table

    table = Table(title="Metrics, while it runs", title_justify="left")
    for column in ("process", "address", "series"):
        table.add_column(column, overflow="fold")
    for process, port in processes.items():
        address = f"http://{ports.LOOPBACK}:{port}/metrics"
        text = until(f"{process} answers at {address}", lambda address=address: asked(address))  # type: ignore[misc]
        table.add_row(process, address, str(series(text)))
    console.print()
    console.print(table)
    console.print(f"Prometheus finds them by {targets}", soft_wrap=True)
    for dashboard in dashboards(_TREE):
        console.print(f"A dashboard of them: {dashboard}", soft_wrap=True)


def asked(address: str) -> str | None:
    """What is answered there; None while that is nothing of Playhead's."""
    try:
        answer = httpx.get(address, timeout=5)
    except httpx.HTTPError:
        return None  # it is being started again
    return answer.text if answer.status_code == httpx.codes.OK and _PREFIX in answer.text else None


def series(text: str) -> int:
    """How many of Playhead's own are in an answer."""
    return sum(line.startswith(_PREFIX) for line in text.splitlines())


def dashboards(tree: Path) -> list[Path]:
    """Of this tree, relative to it; none where it was installed without."""
    return [path.relative_to(tree) for path in sorted((tree / "docker").glob("observe/**/*.json"))]
