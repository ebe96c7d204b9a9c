"""Faust agents at batch speed, exactly once: see README.md.

``App`` and ``Table`` load Faust on first use, so that a reader of positions or settings need not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    "MetricsPort",
    "NoMetrics",
    "Output",
    "PermanentError",
    "Refused",
    "SourcePosition",
    "Table",
    "Versioned",
    "changelog_topics",
    "ensure_changelogs",
    "run_together",
]

_FAUST = {"App": "app", "changelog_topics": "app", "run_together": "process", "Table": "table"}


def __getattr__(name: str) -> Any:
    if name not in _FAUST:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_FAUST[name]}", __name__), name)
