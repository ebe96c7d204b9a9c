"""Rebuilds while reports arrive and people read, killed at every boundary: nobody is shown anything wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
import pytest

from schemas.events import PlaybackDecided
from streams.runtime.failpoints import POINTS
from tests.integration.projections.world import World, environment_of, eventually, expect_rows
from tests.projections.decisions import Household, fold, placed

pytestmark = [pytest.mark.services, pytest.mark.faults, pytest.mark.xdist_group("rebuild"), pytest.mark.long]

SCALE = int(os.environ.get("PLAYHEAD_REBUILD_SCALE", "1"))
RECORDS_MAX = 700


def child(world: World, point: str | None) -> subprocess.CompletedProcess[bytes]:
    """A rebuild with its switch; at ``point`` it kills itself."""
    failpoints = {"PLAYHEAD_FAILPOINTS": f"{point}=kill"} if point else {}
    return subprocess.run(
        [sys.executable, "-m", "tests.integration.rebuild.child", world.topic.name, str(RECORDS_MAX)],
        env={**os.environ, **environment_of(world.settings, **failpoints)},
        capture_output=True,
        timeout=300,
        check=False,
    )


@dataclass
class Reader:
    """Reads everything there is, again and again, and holds each row against the record its version names."""

    world: World
    log: dict[tuple[int, int], PlaybackDecided]
    wrong: list[str] = field(default_factory=list)
    rounds: int = 0
    epochs: set[int] = field(default_factory=set)
    _seen: dict[tuple[str, str], tuple[int, int, int]] = field(default_factory=dict)

    def run(self, stop: threading.Event) -> None:
        with self.world.connect("reader") as connection:
            connection.autocommit = True
            while not stop.is_set():
                self.read(connection)

    def read(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        rows = connection.execute(
            "SELECT user_ref, media_id, model_epoch, log_epoch, version, partition, position_ms, event_time, played,"
            " play_count FROM api.progress"
        ).fetchall()
        self.rounds += 1
        for user, media, model_epoch, log_epoch, version, partition, *state in rows:
            assert isinstance(version, int)
            assert isinstance(partition, int)
            self.epochs.add(int(str(model_epoch)))
            event = self.log[partition, version]
            if [event.position_ms, event.event_time, event.played, event.play_count] != state:
                self.wrong.append(f"{user} {media} at {version} shows {state}")
            now = (int(str(model_epoch)), int(str(log_epoch)), version)
            before = self._seen.get((str(user), str(media)), now)
            # An epoch that is older than one seen is as wrong as an older row.
            if now[0] < before[0] or now[1:] < before[1:]:
                self.wrong.append(f"{user} {media} went from {before} to {now}")
            self._seen[str(user), str(media)] = now
        if len(rows) < len(self._seen):
            self.wrong.append(f"{len(self._seen) - len(rows)} rows disappeared")


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """``work`` in a thread, stopped at the end; what it raised is raised."""
    stop = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work(stop)
        except BaseException as exc:
            failed.append(exc)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
    assert failed == []


def test_rebuilds_under_load_killed_at_every_boundary_show_nobody_anything_wrong(world: World) -> None:
    points = [point for point in POINTS if point.startswith("rebuild.")]
    events = Household(70, users=12, media=8, now_ms=int((time.time() - 86_400) * 1000)).decisions(12_000 * SCALE)
    log = {(one.partition, one.offset): one.event for one in placed(events)}
    begin = len(events) // 2
    world.produce(events[:begin])
    world.project(begin)
    sent = begin

    def load(stop: threading.Event) -> None:
        nonlocal sent
        while not stop.wait(0.05) and sent < len(events):
            world.produce(events[sent : sent + 10])
            sent += 10

    reader = Reader(world, log)
    with world.running(), beside(load), beside(reader.run):
        for point in points:
            done = child(world, point)
            assert done.returncode == -signal.SIGKILL, (point, done.stderr.decode()[-2_000:])
        done = child(world, None)
        assert done.returncode == 0, done.stderr.decode()[-2_000:]
        rounds = reader.rounds
        eventually(lambda: reader.rounds > rounds + 1 or bool(reader.wrong), "the rebuilt model was read")
        sent_until = sent
    world.project(sent)

    assert reader.wrong == []
    # Killed once after its switch was committed, then once to the end.
    assert reader.epochs == {1, 2, 3}
    assert sent_until > begin
    expect_rows(world.rows(), fold(placed(events[:sent])))
    assert world.query("SELECT count(*) FROM model.outbox WHERE cache_key = 'model'") == [(2,)]
    [(others,)] = world.query("SELECT count(*) FROM model.outbox WHERE cache_key <> 'model' AND model_epoch > 1")
    assert others <= 3 * (sent - begin)
