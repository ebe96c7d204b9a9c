"""A case of the fault programme: its name, what it does to a running field, what may come of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from signal import SIGKILL
from typing import TYPE_CHECKING, Any

from streams.engine import EXIT_CLEAN

if TYPE_CHECKING:
    from .field import Field

KILLED = -SIGKILL
Act = Callable[["Field"], None]


@dataclass(frozen=True, kw_only=True)
class Case:
    """``act`` runs while load is written and workers work; then all must drain, stop cleanly and be judged.

    ``refusal`` runs after that verdict, on stopped workers: it breaks what only an operator may mend and asserts that
    workers refuse, say what to do, and reset nothing.
    """

    name: str
    does: str
    act: Act
    refusal: Act | None = None
    #: Exit codes that workers may have besides 0.
    codes: frozenset[int] = frozenset()
    #: What the engine config and the worker's settings add, for every worker.
    config: Mapping[str, Any] = field(default_factory=dict)
    worker: Mapping[str, Any] = field(default_factory=dict)
    #: Static members, which get the same partitions again.
    static: bool = False
    keys: int = 500
    poison: float = 0.005
    #: Needs brokers of its own, which it stops, kills or freezes.
    brokers: bool = False
    #: Server properties of these.
    properties: Mapping[str, str] = field(default_factory=dict)
    #: Needs three of them.
    replicated: bool = False
    #: Broker restarts may leave transactions hanging, or lose their offsets: workers refuse, and the case does what
    #: they say and goes on.
    repairs: bool = False
    #: Everything must be processed so many seconds after the last fault.
    heal_s: float = 90.0

    @property
    def allowed(self) -> frozenset[int]:
        return self.codes | {EXIT_CLEAN}


CASES: dict[str, Case] = {}


def add(case: Case) -> Case:
    """Put a case at the end of the programme. Names are unique."""
    assert case.name not in CASES, case.name
    CASES[case.name] = case
    return case
