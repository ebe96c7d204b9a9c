"""Reports decided again by this build's rules, on paper: nothing is sent, no table of the agent is touched.

The agent's own step (playback.process) runs on throw-away tables and a batch that goes nowhere, so what is compared is
what the agent would do. Each report's output is held against the recorded decision of the same cause.

Merges reach the agent by another topic; which reports it had decided before one is not recorded. Here a merge counts
from its log-append time on, so reports of that moment may differ under ``media``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, cast

from confluent_kafka import Message
from rocksdict import Options, Rdict

from schemas.events import PlaybackDecided, UserForgotten
from streams.agents import playback
from streams.domain.policy import Policy
from streams.engine import Batch
from streams.runtime.contract import Contract
from streams.runtime.errors import Permanent, Unavailable

EXAMPLES_MAX: Final = 5
Recorded = PlaybackDecided | UserForgotten

_GROUPS: Final = {
    "position_ms": "position",
    "resume_position_ms": "position",
    "position_moved": "position",
    "play_counted": "plays",
    "play_epoch": "plays",
    "played": "plays",
    "play_count": "plays",
    "last_played_at": "plays",
    "listened_added_ms": "listening",
    "listened_ms": "listening",
    "epoch": "epoch",
    "epoch_started_at": "epoch",
    "pending": "pending",
    "conflict": "conflict",
    "media_id": "media",
    "joined": "media",
}
_OTHER: Final = "other"


class PaperTable:
    """A table of the agent, on disk and thrown away. What a refused report wrote is taken back."""

    def __init__(self, path: Path) -> None:
        options: Any = Options(raw_mode=True)
        options.create_if_missing(True)
        self._db: Any = Rdict(str(path), options)
        self._unsettled: dict[bytes, bytes | None] = {}

    def get(self, key: bytes, /) -> bytes | None:
        if key in self._unsettled:
            return self._unsettled[key]
        return cast(bytes | None, self._db.get(key))

    def __setitem__(self, key: bytes, value: bytes, /) -> None:
        self._unsettled[key] = value

    def __delitem__(self, key: bytes, /) -> None:
        self._unsettled[key] = None

    def scan(self, prefix: bytes = b"", /) -> Iterator[tuple[bytes, bytes]]:
        self.settle()
        for key, value in self._db.items(from_key=prefix):
            if not key.startswith(prefix):
                return
            yield key, value

    def settle(self) -> None:
        for key, value in self._unsettled.items():
            if value is None:
                self._db.delete(key)
            else:
                self._db[key] = value
        self._unsettled.clear()

    def undo(self) -> None:
        self._unsettled.clear()

    def close(self) -> None:
        self._db.close()


class _Paper:
    """As much of a batch as the agent's step uses; it goes nowhere."""

    def __init__(self, partition: int, topic_id: str, tables: Iterable[PaperTable]) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self._tables = tuple(tables)
        self.output: bytes | None = None
        self.refused: Permanent | None = None

    @contextmanager
    def guard(self, record: Message) -> Iterator[None]:
        del record
        self.output = self.refused = None
        try:
            yield
        except Permanent as exc:
            self.output, self.refused = None, exc
            for table in self._tables:
                table.undo()
        else:
            for table in self._tables:
                table.settle()

    def send(self, topic: str, value: bytes, *, key: bytes, partition: int) -> None:
        del topic, key, partition
        self.output = value


@dataclass(frozen=True, slots=True)
class Example:
    """One decision that would differ: ``fields`` are name → (recorded, now)."""

    partition: int
    offset: int
    event_id: str
    user_ref: str
    media_id: str
    fields: dict[str, tuple[Any, Any]]


@dataclass(slots=True)
class Findings:
    """``reports``: compared; ``followed``: differ, and an earlier one of their key did already; ``undecided``: the
    agent has not come so far; ``keys``: of which the newest decision differs."""

    reports: int = 0
    same: int = 0
    followed: int = 0
    undecided: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Example]] = field(default_factory=dict)
    keys: set[tuple[str, str]] = field(default_factory=set)

    @property
    def differing(self) -> int:
        return self.causes.total() + self.followed


class Redecider:
    """One partition: feed merges and reports in the order of the log, against its recorded decisions."""

    def __init__(
        self,
        partition: int,
        topic_id: str,
        recorded: Iterator[Message],
        contract: Contract,
        policy: Policy,
        folder: Path,
        findings: Findings,
        *,
        since_ms: int = 0,
    ) -> None:
        """``recorded``: the partition's decisions in order; ``folder``: empty; ``since_ms``: reports appended before
        are decided, and not told of."""
        self._progress, self._aliases, self._forgotten = (PaperTable(folder / name) for name in ("p", "a", "f"))
        self._tables = (self._progress, self._aliases, self._forgotten)
        self._paper = _Paper(partition, topic_id, self._tables)
        self._recorded = recorded
        self._next: Message | None = next(recorded, None)
        self._contract = contract
        self._policy = policy
        self._findings = findings
        self._since_ms = since_ms
        self._differed: set[tuple[str, str]] = set()

    def merge(self, record: Message) -> None:
        """A merge, before the reports that are appended after it."""
        if not playback.merge(cast(Batch, self._paper), record, self._aliases, self._contract):
            raise Unavailable("only the registry can tell what a record is, and it is away")

    def report(self, record: Message) -> bool:
        """Decide one report again and compare. False, and nothing done, when the agent has not come so far."""
        if self._next is None:
            return False
        tables = (self._progress, self._aliases, self._forgotten)
        if not playback.process(cast(Batch, self._paper), record, *tables, self._contract, self._policy):
            raise Unavailable("only the registry can tell what a record is, and it is away")
        offset = record.offset()
        assert offset is not None
        if self._next.value() == self._paper.output:
            # The same bytes: verdict, state, cause and all.
            self._next = next(self._recorded, None)
            self._count(record, None, None, {})
            return True
        then, now = self._decision_of(offset), self._decided(self._paper.output)
        self._count(record, then, now, _differences(then, now))
        return True

    def close(self) -> None:
        for table in self._tables:
            table.close()

    def _decision_of(self, offset: int) -> Recorded | None:
        """The recorded decision of the report at ``offset``; repeats of earlier ones, and those of another log, are
        passed."""
        while self._next is not None:
            found = self._decided(self._next.value())
            cause = None if found is None else found.cause
            if cause is not None and cause.topic_id == self._paper.topic_id and cause.offset >= offset:
                if cause.offset > offset:
                    return None
                self._next = next(self._recorded, None)
                return found
            self._next = next(self._recorded, None)
        return None

    def _decided(self, value: bytes | None) -> Recorded | None:
        if value is None:
            return None
        event = self._contract.decode(value)
        return event if isinstance(event, PlaybackDecided | UserForgotten) else None

    def _count(
        self, record: Message, then: Recorded | None, now: Recorded | None, differ: dict[str, tuple[Any, Any]]
    ) -> None:
        told = self._findings
        counts = record.timestamp()[1] >= self._since_ms
        told.reports += counts
        if not differ:
            told.same += counts
            self._agree(now)
            return
        some = now or then
        assert some is not None
        key = (some.user_ref, some.media_id if isinstance(some, PlaybackDecided) else "")
        told.keys.add(key)
        earlier = key in self._differed
        self._differed.add(key)
        if not counts:
            return
        if earlier and _verdict(then) == _verdict(now):
            told.followed += 1
            return
        cause = _cause(then, now, differ)
        told.causes[cause] += 1
        examples = told.examples.setdefault(cause, [])
        if len(examples) < EXAMPLES_MAX:
            examples.append(Example(self._paper.partition, record.offset() or 0, some.event_id, *key, differ))

    def _agree(self, decision: Recorded | None) -> None:
        """Whatever differed of this key before, its newest decision does not."""
        if not self._differed:
            return
        if decision is None:
            decision = self._decided(self._paper.output)
        if isinstance(decision, PlaybackDecided):
            self._differed.discard((decision.user_ref, decision.media_id))
            self._findings.keys.discard((decision.user_ref, decision.media_id))


def _differences(then: Recorded | None, now: Recorded | None) -> dict[str, tuple[Any, Any]]:
    if then is None and now is None:
        return {}
    if type(then) is not type(now):
        return {"decision": (_verdict(then), _verdict(now))}
    return {
        one.name: (getattr(then, one.name), getattr(now, one.name))
        for one in fields(cast(Any, now))
        if getattr(then, one.name) != getattr(now, one.name)
    }


def _verdict(decision: Recorded | None) -> str:
    match decision:
        case None:
            return "none"
        case UserForgotten():
            return "forgotten"
        case PlaybackDecided():
            return decision.verdict if decision.reason is None else f"{decision.verdict} ({decision.reason})"


def _cause(then: Recorded | None, now: Recorded | None, differ: dict[str, tuple[Any, Any]]) -> str:
    if _verdict(then) != _verdict(now):
        return f"{_verdict(then)} → {_verdict(now)}"
    return f"{_verdict(now)}: " + ", ".join(sorted({_GROUPS.get(name, _OTHER) for name in differ}))
