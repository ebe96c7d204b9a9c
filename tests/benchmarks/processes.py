"""Worker processes of the bench: started, listened to, ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .figures import Figures, parse

REPOSITORY = Path(__file__).resolve().parents[2]
#: Longest time one process may take, seconds.
PATIENCE = 900.0

Settings = Mapping[str, Any]


class NoFigures(Exception):
    """A worker ended without its line of figures."""


def worker_command(kind: str, settings: Settings) -> list[str]:
    """The command of one of our own workers (engine_workers.py)."""
    return [sys.executable, "-m", "tests.benchmarks.engine_workers", kind, json.dumps(settings)]


def measure(command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> Figures:
    """Run a worker to its end and return its figures. Raises NoFigures with the end of what it wrote."""
    process = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, errors="replace",
        timeout=PATIENCE, check=False, env={**os.environ, **(environment or {})},
    )  # fmt: skip
    figures = parse(process.stdout)
    if figures is None:
        raise NoFigures(
            f"{command[0]} … ended with {process.returncode} and no figures:\n"
            f"{process.stdout[-1500:]}\n{process.stderr[-3000:]}"
        )
    return figures
