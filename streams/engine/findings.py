"""What hangs in the partitions of an app, in words and for machines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from .verdict import Abort, Commit, Leave, Verdict, verb
from .wire import Open

Role = Literal["output", "changelog", "offsets"]

UNWEIGHED = Leave("no evidence was looked for")


@dataclass(frozen=True, slots=True)
class Hanging:
    """Open for ever: nobody will decide it. ``transactional_id`` is that of its producer, if one has it still."""

    role: Role
    transaction: Open
    transactional_id: str | None
    verdict: Verdict = UNWEIGHED

    def __str__(self) -> str:
        open_ = self.transaction
        owner = self.transactional_id or "no transactional id"
        return (
            f"{self.role} {open_.topic}[{open_.partition}] from offset {open_.start_offset}: "
            f"producer {open_.producer_id} epoch {open_.producer_epoch} ({owner})"
        )


@dataclass(frozen=True, slots=True)
class Pending:
    """Open, and its coordinator will end it: at its commit, its abort or its timeout."""

    transaction: Open
    transactional_id: str
    state: str


@dataclass(frozen=True, slots=True)
class Findings:
    """``hanging`` is in the order to settle in, ``foreign`` hangs as well and is of another app."""

    hanging: tuple[Hanging, ...]
    pending: tuple[Pending, ...] = ()
    foreign: tuple[Hanging, ...] = ()

    @property
    def left(self) -> tuple[Hanging, ...]:
        """What cannot be settled by evidence."""
        return tuple(item for item in self.hanging if isinstance(item.verdict, Leave))

    @property
    def outdates_copies(self) -> bool:
        """Whether local copies may hold rows that are now aborted."""
        return any(item.role == "changelog" and isinstance(item.verdict, Abort) for item in self.hanging)

    def commands(self) -> list[str]:
        """What is to be aborted by Kafka's own tool, in this order. It cannot write the marker of a commit."""
        return [
            "kafka-transactions.sh --bootstrap-server ... abort "
            f"--topic {h.transaction.topic} --partition {h.transaction.partition} "
            f"--start-offset {h.transaction.start_offset}"
            for h in self.hanging
            if isinstance(h.verdict, Abort)
        ]

    def lines(self, *, settled: bool) -> list[str]:
        """Say what was found, a line each, and what to do next."""
        lines = [
            f"{verb(item.verdict, done=True)}: {item}: {item.verdict.because}"
            if settled
            else f"hangs: {item}; {verb(item.verdict)}: {item.verdict.because}"
            for item in self.hanging
        ]
        lines += [f"hangs, but is of another app: {item}" for item in self.foreign]
        lines += [
            f"open: {p.transaction.topic}[{p.transaction.partition}] from offset {p.transaction.start_offset}: "
            f"{p.transactional_id} is {p.state}, its coordinator ends it by itself"
            for p in self.pending
        ]
        if not self.hanging:
            return [*lines, "nothing hangs"]
        if not settled:
            return lines + self._advice()
        if self.outdates_copies:
            lines.append(
                "Delete the local state of all workers of this app before they start: it may hold rows of what is "
                "now aborted. It is rebuilt from the changelogs."
            )
        return lines

    def _advice(self) -> list[str]:
        lines = ["Stop all workers, then settle it with --settle."]
        if any(isinstance(item.verdict, Commit) for item in self.hanging):
            lines.append("Kafka's own tool can only abort: what is to be committed would be lost by it.")
        if commands := self.commands():
            lines.append("What is to be aborted, after all that is to be committed, is for Kafka's own tool:")
            lines += [f"  {command}" for command in commands]
        return lines

    def as_json(self) -> dict[str, object]:
        """For machines."""
        return {
            "hanging": [_hanging(item) for item in self.hanging],
            "foreign": [_hanging(item) for item in self.foreign],
            "pending": [
                asdict(p.transaction) | {"transactional_id": p.transactional_id, "state": p.state} for p in self.pending
            ],
        }


def _hanging(item: Hanging) -> dict[str, object]:
    said = {"role": item.role, "transactional_id": item.transactional_id}
    return asdict(item.transaction) | said | {"verdict": verb(item.verdict), "because": item.verdict.because}
