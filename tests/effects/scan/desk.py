"""A scan with everything around it in memory: what it said, and a read model made of that."""

from __future__ import annotations

import os
import wave
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from schemas.codec import Codec
from schemas.ids import SchemaIds
from schemas.library import (
    ItemDetails,
    ItemObserved,
    Observation,
    PathSkipped,
    ScanFailed,
    ScanListed,
    ScanStarted,
)
from streams.domain.library.validity import hold
from streams.effects.scan.ports import KnownFile, Source
from streams.effects.scan.scanner import ScanCounts, ScanJob, scan
from streams.effects.scan.trees import FileTree
from streams.runtime.clock import FakeClock
from streams.upstream.files.posix import Posix
from streams.upstream.files.reading.reader import Reader

_CODEC = Codec(SchemaIds())
LONG_AGO_NS = 1_600_000_000_000_000_000


def make_wav(path: Path, seconds: float = 0.1, *, salt: int = 0, old: bool = True) -> Path:
    """A small sound, another one for each salt."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8_000)
        file.writeframes(salt.to_bytes(2, "little") * int(8_000 * seconds))
    if old:
        make_old(path)
    return path


def make_old(path: Path | bytes) -> None:
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS), follow_symlinks=False)


@dataclass
class FakeKnown:
    """The read model: what the last scan that was listed saw."""

    files: dict[bytes, KnownFile] = field(default_factory=dict)
    asked: list[bytes] = field(default_factory=list)

    def folder(self, source_id: str, folder: bytes) -> Mapping[bytes, KnownFile]:
        self.asked.append(folder)
        return {path: known for path, known in self.files.items() if path.rpartition(b"/")[0] == folder}

    def folders(self, source_id: str) -> Iterable[bytes]:
        return {path.rpartition(b"/")[0] for path in self.files}

    def learn(self, observed: Iterable[ItemObserved]) -> None:
        self.files.clear()
        for event in observed:
            at = event.locator
            assert at is not None
            if event.failed is not None or not event.settled:
                self.files[at.path] = KnownFile(at.path, None, None, at.device, at.inode)
            else:
                self.files[at.path] = KnownFile(at.path, at.size, at.mtime_ns, at.device, at.inode)


@dataclass
class FakeSink:
    events: list[Observation] = field(default_factory=list)
    durable: int = 0
    on_flush: Callable[[int], None] = lambda _: None

    def send(self, event: Observation) -> None:
        """As the log takes it: within every limit of the contract."""
        assert _CODEC.decode(_CODEC.encode(event)) == event
        hold(event)
        self.events.append(event)

    def flush(self) -> None:
        self.durable = len(self.events)
        self.on_flush(self.durable)


@dataclass
class FakeLease:
    checks: int = 0
    on_check: Callable[[int], None] = lambda _: None

    def check(self) -> None:
        self.checks += 1
        self.on_check(self.checks)


@dataclass
class FakeProgress:
    totals: list[tuple[int, int, int]] = field(default_factory=list)

    def seen(self, items: int, changed: int, unreadable: int) -> None:
        self.totals.append((items, changed, unreadable))


class Told:
    """What one scan said."""

    def __init__(self, events: list[Observation], counts: ScanCounts | None) -> None:
        self.events = events
        self.counts = counts or ScanCounts()
        self.items = [event for event in events if isinstance(event, ItemObserved)]
        self.skipped = [(event.path, event.folder, event.reason) for event in events if isinstance(event, PathSkipped)]
        self.started = [event for event in events if isinstance(event, ScanStarted)]
        self.failed = [(event.reason, event.detail) for event in events if isinstance(event, ScanFailed)]

    @property
    def listed(self) -> ScanListed:
        [event] = [event for event in self.events if isinstance(event, ScanListed)]
        assert self.events[-1] is event
        return event

    @property
    def paths(self) -> list[bytes]:
        return [event.locator.path for event in self.items if event.locator is not None]

    @property
    def read(self) -> list[bytes]:
        """Whose details were told."""
        return [event.locator.path for event in self.items if event.locator is not None and event.details is not None]

    def of(self, path: bytes | str) -> ItemObserved:
        wanted = path if isinstance(path, bytes) else path.encode()
        [event] = [event for event in self.items if event.locator is not None and event.locator.path == wanted]
        return event

    def details(self, path: bytes | str) -> ItemDetails:
        found = self.of(path).details
        assert found is not None
        return found

    def count(self, reason: str) -> int:
        return {one.reason: one.count for one in self.listed.skipped}.get(reason, 0)


class Desk:
    """``scan()`` scans the tree once more, with what the scans before it told as what is known."""

    def __init__(self, root: Path, reader: Reader | None = None) -> None:
        self.root = root
        self.clock = FakeClock()
        self.known = FakeKnown()
        self.sink = FakeSink()
        self.lease = FakeLease()
        self.progress = FakeProgress()
        self.posix = Posix()
        self.reader = reader or Reader()
        self.generation = 0

    def tree(self) -> FileTree:
        return FileTree(self.root, self.clock, self.posix, readers=[self.reader])

    def scan(self, source: Source | None = None, *, full: bool = False) -> Told:
        """What it told. Raises what the scan raises; ``told()`` is what it had told until then."""
        self.generation += 1
        self.sink.events.clear()
        job = ScanJob("home", self.generation, "operator", full, "corr")
        counts = scan(job, source or self.tree(), self.known, self.sink, self.lease, self.progress, self.clock)
        told = Told(list(self.sink.events), counts)
        check_contract(told)
        self.known.learn([event for event in told.items if event.locator is not None])
        return told

    def told(self) -> Told:
        return Told(list(self.sink.events), None)


def check_contract(told: Told) -> None:
    """What holds of every listing: it begins and ends, its ordinals have no gap, everything is durable and unique."""
    assert isinstance(told.events[0], ScanStarted)
    ordinals = [event.ordinal for event in told.events if isinstance(event, ItemObserved | PathSkipped)]
    assert ordinals == list(range(len(ordinals)))
    assert told.listed.observations == len(ordinals) == told.counts.observations
    assert len({event.event_id for event in told.events}) == len(told.events)
    assert len(told.listed.skipped) <= 16
