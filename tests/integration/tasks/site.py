"""Commands in a real log, the task projection and workers on a real database, and a folder of media."""

from __future__ import annotations

import threading
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from projections.models.tasks import TaskProjection
from projections.runner import Runner
from schemas.ids import SchemaIds
from schemas.library import Command
from schemas.topics import LIBRARY_COMMANDS, LIBRARY_OBSERVED
from streams.effects.wiring import make_worker
from streams.runtime.clock import SystemClock
from streams.runtime.commands import command_record, scan_requested
from streams.runtime.contract import Contract
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.outlet import Outlet
from streams.runtime.settings import Settings
from streams.runtime.tokens import create_source
from streams.runtime.trees import SourceTree, add_tree
from tests.integration.projections.world import eventually, read_all
from tests.integration.tasks.bench import Bench

LONG_AGO = 1_700_000_000


def sound(path: Path, seconds: float = 0.1, *, settled: bool = True) -> None:
    """A file with a little silence in it, written long ago unless it is not ``settled``."""
    import os

    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8_000)
        file.writeframes(b"\0\0" * int(8_000 * seconds))
    if settled:
        os.utime(path, (LONG_AGO, LONG_AGO))


@dataclass
class Site:
    settings: Settings
    bench: Bench
    source_id: str
    root: Path
    contract: Contract = field(default_factory=lambda: Contract(SchemaIds(), registry=None))

    def add_source(self, *, watch: bool = False) -> None:
        with psycopg.connect(**self.settings.postgres.conninfo("door")) as connection:
            create_source(connection, self.source_id, "files", self.source_id)
            add_tree(connection, SourceTree(self.source_id, bytes(self.root), watch), None)

    def give(self, command: Command) -> int:
        """Its offset."""
        outlet = Outlet(self.settings.kafka)
        try:
            [place] = outlet.publish([command_record(self.contract, command)])
        finally:
            outlet.close()
        return place.offset

    def ask(self, by: str = "operator", *, full: bool = False) -> int:
        """Ask for a scan; its generation."""
        return self.give(scan_requested(self.source_id, SystemClock(), requested_by=by, full=full))

    @contextmanager
    def projecting(self) -> Iterator[None]:
        runner = Runner(TaskProjection(), self.settings, self.contract, group=f"tasks-{self.source_id}")
        with in_thread(runner.run):
            yield

    @contextmanager
    def working(self, *, ttl_s: float = 30.0, failpoint: Failpoint = disarmed, **options: Any) -> Iterator[None]:
        """A worker; what ended it is raised at the end."""
        with (
            make_worker(self.settings, self.contract, ttl_s=ttl_s, failpoint=failpoint, **options) as worker,
            in_thread(worker.run),
        ):
            yield

    def wait_done(self, generation: int) -> dict[str, Any]:
        """The row of the scan task when it is done up to ``generation``."""

        def done() -> bool:
            return bool(self.rows() and self.rows()[0]["done_version"] >= generation)

        eventually(done, f"scan {generation} is done")
        return self.rows()[0]

    def rows(self) -> list[dict[str, Any]]:
        return self.bench.query("SELECT * FROM core.tasks WHERE key = %s", (self.source_id,))

    def observed(self) -> list[Any]:
        return self._of(LIBRARY_OBSERVED.name)

    def commands(self) -> list[Any]:
        return self._of(LIBRARY_COMMANDS.name)

    def _of(self, topic: str) -> list[Any]:
        key = self.source_id.encode()
        return [
            self.contract.decode(message.value() or b"")
            for message in read_all(self.settings.kafka, topic)
            if message.key() == key
        ]


@contextmanager
def in_thread(run: Any) -> Iterator[None]:
    """``run(stop)`` beside; stopped at the end, and what ended it is raised."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            run(stop)
        except BaseException as exc:
            errors.append(exc)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()
        if errors:
            raise errors[0]
