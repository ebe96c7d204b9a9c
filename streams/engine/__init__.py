"""Faust agents at batch speed, exactly once: see README.md.

What needs Faust or RocksDB loads it on first use, so that a reader of positions or settings need not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import native as native  # first: it decides which of the modules below are compiled
from .batch import Batch
from .config import EngineConfig
from .errors import (
    EXIT_CLEAN,
    EXIT_CRASH,
    EXIT_REFUSED,
    EXIT_RESTART,
    Crash,
    EngineError,
    FloodError,
    Hung,
    PermanentError,
    Refused,
)
from .ports import FAILPOINTS, DeadLetterPort, Failpoint, MetricsPort, NoMetrics, Output
from .position import SOURCE_POSITION, SourcePosition
from .topics import ensure_changelogs
from .versions import Versioned

if TYPE_CHECKING:
    from .app import App, changelog_topics
    from .inspection import Look, Reach, local_partitions, look_committed, look_local
    from .process import run_together
    from .table import Table

__all__ = [
    "EXIT_CLEAN",
    "EXIT_CRASH",
    "EXIT_REFUSED",
    "EXIT_RESTART",
    "FAILPOINTS",
    "SOURCE_POSITION",
    "App",
    "Batch",
    "Crash",
    "DeadLetterPort",
    "EngineConfig",
    "EngineError",
    "Failpoint",
    "FloodError",
    "Hung",
    "Look",
    "MetricsPort",
    "NoMetrics",
    "Output",
    "PermanentError",
    "Reach",
    "Refused",
    "SourcePosition",
    "Table",
    "Versioned",
    "changelog_topics",
    "ensure_changelogs",
    "local_partitions",
    "look_committed",
    "look_local",
    "run_together",
]

_LATER = {
    "App": "app",
    "changelog_topics": "app",
    "run_together": "process",
    "Look": "inspection",
    "Reach": "inspection",
    "local_partitions": "inspection",
    "look_committed": "inspection",
    "look_local": "inspection",
    "Table": "table",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LATER[name]}", __name__), name)
