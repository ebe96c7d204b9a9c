"""The oracle's verdict over a finished run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from . import oracle
from .evidence import Intervention, Reader, Sample, Topics
from .oracle import PARTITION_ROWS, TOLD, Expected, Log


@dataclass
class Verdict:
    """Findings by row of the oracle; none at all when everything is as it must be. Counts are what was judged,
    ``repeated`` what a reader drops that has seen its source position (``oracle.read_once``)."""

    findings: dict[str, list[str]] = field(default_factory=dict)
    inputs: int = 0
    outputs: int = 0
    superseded: int = 0
    dead: int = 0
    repeated: int = 0
    rows: int = 0

    def note(self, row: str, found: Iterator[str]) -> None:
        texts = list(islice(found, TOLD))
        if texts:
            self.findings.setdefault(row, []).extend(texts)

    def texts(self) -> list[str]:
        return [f"{row}: {text}" for row, texts in self.findings.items() for text in texts[:TOLD]]


def judge(
    bootstrap: str,
    group: str,
    topics: Topics,
    partitions: int,
    committed: Mapping[tuple[str, int], int],
    *,
    states: Sequence[Path] = (),
    history: Sequence[int] | None = None,
    samples: Sequence[Sample] = (),
    interventions: Sequence[Intervention] = (),
) -> Verdict:
    """Hold everything that is left of a run against the fold of its inputs.

    ``states`` are state directories of stopped workers; without any, local copies are not judged. ``history`` is the
    load's, ``samples`` what a monitor saw meanwhile, ``interventions`` those in the group's offsets. After one that
    was a repair identical outputs may be repeated; they are counted once. ``committed`` is what the group tells.
    """
    repaired = any(each.repair for each in interventions)
    verdict, log = Verdict(), Log()
    with Reader(bootstrap, topics, states) as reader:
        for number in range(partitions):
            offsets = {role: max(0, committed.get((t, number), 0)) for role, t in (("a", topics.a), ("b", topics.b))}
            partition = reader.partition(number, offsets)
            if repaired:
                partition, dropped = oracle.read_once(partition)
                verdict.repeated += dropped
            expected = Expected.of(partition)
            for row in PARTITION_ROWS:
                if states or row is not oracle.some_copy_is_complete:
                    verdict.note(row.__name__, (f"[{number}] {text}" for text in row(partition, expected)))
            verdict.note(
                oracle.offsets_pass_nothing_unapplied.__name__,
                oracle.offsets_pass_nothing_unapplied(partition, samples, topics),
            )
            log.add(partition)
            verdict.inputs += sum(map(len, partition.inputs.values()))
            verdict.outputs += len(partition.outputs)
            verdict.superseded += len(expected.superseded)
            verdict.dead += len(partition.letters)
            verdict.rows += sum(map(len, expected.tables.values()))
        written = reader.offsets(group)
    if history is not None:
        verdict.note(oracle.acknowledged_is_in_the_log.__name__, oracle.acknowledged_is_in_the_log(history, log))
    verdict.note(oracle.offsets_do_not_go_back.__name__, oracle.offsets_do_not_go_back(written, interventions))
    verdict.note(oracle.offsets_told_were_written.__name__, oracle.offsets_told_were_written(committed, written))
    return verdict
