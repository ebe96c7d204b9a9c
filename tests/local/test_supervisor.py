"""The supervisor on small real processes."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streams.local.processes import wait_until
from streams.local.supervisor import Role, Supervisor
from streams.runtime.errors import ConfigurationError

TIMEOUT_S = 30.0
_SLEEPS = "import time; print('up', flush=True); time.sleep(3600)"

Start = Callable[..., Supervisor]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Supervisor] = []

    def make(*roles: Role, on_line: Callable[[str, str], None] | None = None) -> Supervisor:
        supervisor = Supervisor(roles, logs=tmp_path / "logs", state_file=tmp_path / "state.json", on_line=on_line)
        started.append(supervisor)
        supervisor.start()
        return supervisor

    yield make
    for supervisor in started:
        supervisor.stop()


def python(name: str, code: str) -> Role:
    return Role(name, [sys.executable, "-c", code])


def test_given_a_role_is_killed_it_is_started_again(start: Start) -> None:
    supervisor = start(python("worker", _SLEEPS))
    assert wait_until(lambda: supervisor.pid("worker") is not None, TIMEOUT_S)
    first = supervisor.signal("worker", signal.SIGKILL)
    assert wait_until(lambda: supervisor.pid("worker") not in (None, first), TIMEOUT_S)
    assert supervisor.starts("worker") == 2


def test_given_a_role_ends_by_itself_even_cleanly_it_is_started_again_and_said_so(start: Start) -> None:
    lines: list[tuple[str, str]] = []
    supervisor = start(python("worker", "print('hello')"), on_line=lambda *line: lines.append(line))
    assert wait_until(lambda: supervisor.starts("worker") >= 2, TIMEOUT_S)
    assert ("worker", "hello") in lines
    assert any("exit code 0; starting again in 0.5 s" in line for _, line in lines)


def test_given_a_role_refuses_with_78_nothing_is_retried_and_its_last_lines_are_the_reason(start: Start) -> None:
    supervisor = start(python("ok", _SLEEPS), python("bad", "print('no password set'); raise SystemExit(78)"))
    with pytest.raises(ConfigurationError, match="no password set"):
        supervisor.wait(TIMEOUT_S)
    assert supervisor.starts("bad") == 1


def test_given_stop_every_role_ends_with_its_children_and_the_state_file_is_gone(start: Start, tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(0)); " + _SLEEPS.partition(" ")[2]
    up = threading.Semaphore(0)
    supervisor = start(python("a", _SLEEPS), python("b", "import time; " + stubborn), on_line=lambda *_: up.release())
    for _ in range(2):
        assert up.acquire(timeout=TIMEOUT_S)
    state = tmp_path / "state.json"
    assert wait_until(lambda: len(json.loads(state.read_text())["roles"]) == 2, TIMEOUT_S)
    supervisor.stop()
    assert supervisor.pid("a") is None
    assert supervisor.pid("b") is None
    assert not state.exists()


def test_given_output_it_is_in_the_roles_log(start: Start, tmp_path: Path) -> None:
    start(python("worker", _SLEEPS))
    log = tmp_path / "logs" / "worker.log"
    assert wait_until(lambda: log.exists() and log.read_text().startswith("up"), TIMEOUT_S)


def test_given_environment_of_a_role_it_reaches_only_that_role(start: Start) -> None:
    lines: list[tuple[str, str]] = []
    code = "import os, time; print(os.environ.get('PLAYHEAD_X', 'none'), flush=True); time.sleep(3600)"
    start(
        Role("with", [sys.executable, "-c", code], {"PLAYHEAD_X": "yes"}),
        python("without", code),
        on_line=lambda *line: lines.append(line),
    )
    assert wait_until(lambda: len(lines) == 2, TIMEOUT_S)
    assert sorted(lines) == [("with", "yes"), ("without", "none")]
