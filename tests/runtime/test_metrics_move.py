"""Numbers that an operator trusts: each moves when what it counts happens, and only then."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from schemas.topics import PLAYBACK_DECIDED
from streams.cli import role
from streams.local.processes import wait_until
from streams.local.supervisor import Role, Supervisor
from streams.runtime import logs, metrics
from streams.runtime.clock import SystemClock
from streams.runtime.settings import KafkaSettings
from tests.agents.library_desk import Desk as LibraryDesk
from tests.agents.library_desk import scan, started
from tests.effects.scan.desk import Desk as ScanDesk
from tests.effects.scan.desk import make_wav
from tests.regressions.test_an_old_high_watermark import STANDS, Guard


def value(name: str, **labels: str) -> float:
    """Of a sample; 0 when nothing was counted yet."""
    return metrics.REGISTRY.get_sample_value(f"playhead_{name}", labels) or 0.0


def test_a_finalized_scan_says_how_long_it_took_and_what_arrived_and_was_found() -> None:
    desk = LibraryDesk()
    received = value("scan_received_total")
    items = {what: value("scan_items_total", what=what) for what in ("seen", "added", "missing")}
    took = value("scan_seconds_count", status="finalized")
    desk.feed(*scan(1, range(3), new=True))
    desk.feed(*scan(2, range(2), new=False))
    assert value("scan_seconds_count", status="finalized") == took + 2
    assert value("scan_received_total") == received + 5
    moved = {what: value("scan_items_total", what=what) - n for what, n in items.items()}
    assert moved == {"seen": 5, "added": 3, "missing": 1}


def test_a_scan_of_which_more_may_become_is_not_counted_as_over() -> None:
    before = sum(s.value for s in next(iter(metrics.SCAN_SECONDS.collect())).samples if s.name.endswith("_count"))
    LibraryDesk().feed(started(1))
    after = sum(s.value for s in next(iter(metrics.SCAN_SECONDS.collect())).samples if s.name.endswith("_count"))
    assert after == before


def test_what_a_listing_sent_is_counted_when_it_came_to_its_end(tmp_path: Path) -> None:
    root = tmp_path / "media"
    root.mkdir()
    for number in range(3):
        make_wav(root / f"{number}.wav", salt=number)
    before = value("scan_listed_total")
    told = ScanDesk(root).scan()
    assert value("scan_listed_total") == before + told.listed.observations == before + 3


def test_what_is_left_of_the_log_is_what_lies_before_its_ends() -> None:
    guard = Guard(KafkaSettings(bootstrap="127.0.0.1:1"), PLAYBACK_DECIDED, "playback", SystemClock())
    guard.end = 25
    assert guard.check([STANDS]) == 15
    guard.end = 10
    assert guard.check([STANDS]) == 0


def test_a_role_that_ends_is_counted_and_says_anew_when_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = value("crashes_total", role="short")
    supervisor = Supervisor(
        [Role("short", [sys.executable, "-c", "import time; time.sleep(3600)"])],
        logs=tmp_path / "logs",
        state_file=tmp_path / "state.json",
    )
    supervisor.start()
    assert wait_until(lambda: supervisor.pid("short") is not None, 30)
    supervisor.signal("short", signal.SIGKILL)
    assert wait_until(lambda: value("crashes_total", role="short") == before + 1, 30)
    supervisor.stop()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)
    began_ms = SystemClock().now_ms()
    role.begin("serve")
    assert value("role_started_seconds", role="serve") >= began_ms // 1000
