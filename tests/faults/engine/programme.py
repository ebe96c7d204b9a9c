"""Runs cases one after the other and tells what came of each."""

from __future__ import annotations

import contextlib
import subprocess
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from streams.local.kafka_cluster import KafkaCluster
from tests.integration.engine.cluster import REPOSITORY, Cluster
from tests.stack import unique

from . import oracle
from .case import Case
from .field import Field, Violation
from .verdict import Verdict, judge
from .workload import OK, UNKNOWN

#: Weights of a worker's first half minute, in which it is still growing into its work.
STARTING = 6
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Scale:
    """How large each case is. ``rate`` is records a second, ``patience`` multiplies deadlines."""

    records: int = 10_000
    rate: float = 700.0
    partitions: int = 12
    workers: int = 3
    seed: int = 1
    patience: float = 1.0


@dataclass
class Result:
    """What a case did and what the oracle says. Times are seconds; ``drained`` is from the last fault to lag 0."""

    case: str
    brokers: int = 1
    records: int = 0
    unknown: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    exits: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    drained: float = 0.0
    stall_one: float = 0.0
    stall_all: float = 0.0
    stall_others: float = 0.0
    samples: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    problems: list[str] = field(default_factory=list)
    #: MiB of each worker's longest life, after half a minute: the median of each tenth of it, then the most.
    memory: dict[str, list[int]] = field(default_factory=dict)

    @property
    def violations(self) -> list[str]:
        return [*self.problems, *self.verdict.texts()]

    def summary(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "case": self.case, "brokers": self.brokers, "records": self.records, "unknown_outcome": self.unknown,
            "outputs": self.verdict.outputs, "superseded": self.verdict.superseded, "dead": self.verdict.dead,
            "repeated": self.verdict.repeated,
            "faults": dict(self.faults), "exit_codes": {str(code): n for code, n in sorted(self.exits.items())},
            "seconds": round(self.seconds, 1), "drained_s": round(self.drained, 1),
            "longest_stall_one_partition_s": round(self.stall_one, 1),
            "longest_stall_all_s": round(self.stall_all, 1),
            "longest_stall_beside_one_s": round(self.stall_others, 1), "samples": self.samples,
            "violations": self.violations, **({"memory_mib": self.memory} if self.memory else {}),
        }  # fmt: skip


def run(case: Case, arena: Field, tell: Tell = lambda _: None) -> Result:
    """Let a case happen on an entered field and judge it. Raises nothing that the case or the oracle finds."""
    result, began = Result(case.name, brokers=arena.cluster.replication), time.monotonic()
    try:
        _happen(case, arena, result, tell)
    except Violation as error:
        result.problems.append(str(error))
    except Exception as error:
        # Whatever else went wrong, other cases are still worth running, and this one has not been proven.
        result.problems.append("".join(traceback.format_exception(error))[-4000:])
    _weigh(arena, result)
    result.problems += [text for text in arena.problems() if text not in "".join(result.problems)]
    result.records = arena.load.attempted
    result.stall_others = arena.stall_others
    result.unknown = arena.load.count(UNKNOWN)
    result.faults = +arena.faults
    result.exits = Counter(code for _, code in arena.exits)
    result.seconds = time.monotonic() - began
    return result


def _happen(case: Case, arena: Field, result: Result, tell: Tell) -> None:
    tell("starting workers and load")
    arena.begin()
    tell(case.does)
    case.act(arena)
    tell("waiting until everything is processed")
    result.drained = arena.drain()
    arena.monitor.stop()
    arena.stop_all()
    tell("the oracle folds")
    result.verdict = judge(
        arena.cluster.bootstrap, arena.cluster.group, arena.cluster.topics, arena.cluster.partitions,
        arena.cluster.committed(), states=arena.states(), history=arena.load.history, samples=arena.monitor.samples,
        interventions=arena.interventions,
    )  # fmt: skip
    if not arena.load.count(OK):
        raise Violation("no record was acknowledged")
    if case.refusal is not None and not result.violations:
        tell("what must be refused")
        case.refusal(arena)


def _weigh(arena: Field, result: Result) -> None:
    for number in arena.workers:
        lives = [weights for (worker, _), weights in list(arena.monitor.memory.items()) if worker == number]
        longest = max(lives, key=len, default=[])
        if len(longest) > STARTING:
            settled = longest[STARTING:]
            series = [median(part) for part in _tenths(settled)]
            result.memory[f"worker-{number}"] = [round(mib) for mib in (*series, max(settled))]
    samples, sources = list(arena.monitor.samples), (arena.cluster.a, arena.cluster.b)
    result.samples = len(samples)
    if samples:
        numbers = range(arena.cluster.partitions)
        until = samples[-1].at
        result.stall_all = oracle.longest_stall(samples, sources, numbers, until)
        result.stall_one = max(oracle.longest_stall(samples, sources, [number], until) for number in numbers)


def _tenths(values: Sequence[float]) -> list[Sequence[float]]:
    """``values`` in ten runs of about the same length, in fewer when there are fewer."""
    parts = min(10, len(values))
    return [values[len(values) * n // parts : len(values) * (n + 1) // parts] for n in range(parts)]


@contextlib.contextmanager
def arena(case: Case, bootstrap: str, folder: Path, scale: Scale, kafka: KafkaCluster | None) -> Iterator[Field]:
    """A field of its own for a case, on running brokers. ``kafka`` is given to cases that may break it."""
    replication = kafka.replication if kafka is not None else 1
    cluster = Cluster(
        bootstrap, unique(case.name), folder, partitions=scale.partitions, seed=scale.seed, replication=replication
    )
    with Field(
        case, cluster, workers=scale.workers, rate=scale.rate, records=scale.records,
        brokers=kafka if case.brokers else None, patience=scale.patience,
    ) as made:  # fmt: skip
        yield made


def commit() -> str:
    """The commit under test, with a + when files differ from it; empty outside a clone."""
    git = ["git", "-C", str(REPOSITORY)]
    try:
        head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")
