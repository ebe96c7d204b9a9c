"""Starting, stopping, killing and freezing one service."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from streams.local import ports
from streams.local import service as service_module
from streams.local.errors import (
    BootFailedError,
    NotRunningError,
    PortTakenError,
    StartCancelledError,
)
from streams.local.guard import Guard
from streams.local.processes import ProcessMark, wait_until
from tests.local.fake_service import FakeService, lives

Make = Callable[..., FakeService]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[FakeService] = []

    def service(**options: object) -> FakeService:
        made.append(FakeService(tmp_path, **options))  # type: ignore[arg-type]
        return made[-1]

    yield service
    for one in made:
        one.kill()


def test_given_a_start_then_it_listens_and_a_second_start_changes_nothing(make: Make) -> None:
    service = make()
    service.start()
    pid = service.pid
    service.start()
    assert service.pid == pid
    assert ports.is_listening(service.port)


def test_given_a_stop_then_nothing_is_left_and_it_can_start_again(make: Make) -> None:
    service = make()
    service.start()
    pid, child = service.pid, service.child
    service.stop()
    assert not service.running
    assert wait_until(lambda: not lives(pid) and not lives(child), 10)
    service.start()
    assert service.running


def test_given_a_server_that_ignores_the_signal_then_stop_kills_it(make: Make) -> None:
    service = make(mode="stubborn")
    service.start()
    pid = service.pid
    service.stop(timeout_s=0.3)
    assert not lives(pid)


def test_given_a_kill_then_children_with_their_own_session_die_too(make: Make) -> None:
    service = make()
    service.start()
    child = service.child
    service.kill()
    assert not lives(child)


def test_given_a_pause_then_all_processes_are_frozen_until_resume(make: Make) -> None:
    service = make()
    service.start()
    both = [psutil.Process(service.pid), psutil.Process(service.child)]
    service.pause()
    assert wait_until(lambda: all(p.status() == psutil.STATUS_STOPPED for p in both), 10)
    service.resume()
    assert wait_until(lambda: all(p.status() != psutil.STATUS_STOPPED for p in both), 10)


def test_given_a_paused_server_then_stop_ends_it(make: Make) -> None:
    service = make()
    service.start()
    service.pause()
    service.stop()
    assert not service.running


def test_given_a_server_that_dies_at_once_then_the_error_carries_the_end_of_its_log(make: Make) -> None:
    service = make(mode="dies")
    with pytest.raises(BootFailedError, match="exit code 3") as caught:
        service.start()
    assert "the reason why" in caught.value.tail
    assert "the reason why" in str(caught.value)
    assert not service.running


def test_given_a_server_that_never_answers_then_it_is_ended_after_the_deadline(make: Make) -> None:
    service = make(mode="deaf")
    with pytest.raises(BootFailedError, match="did not answer within"):
        service.start(timeout_s=0.5)
    assert not service.running


def test_given_a_cancel_then_a_waiting_start_gives_up(make: Make) -> None:
    service = make(mode="deaf")
    errors: list[BaseException] = []

    def start() -> None:
        try:
            service.start()
        except StartCancelledError as error:
            errors.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    assert wait_until(lambda: service.running, 10)
    service.cancel()
    thread.join(20)
    assert len(errors) == 1
    assert not service.running


def test_given_a_taken_port_then_the_error_names_service_and_port(make: Make) -> None:
    service = make()
    with socket.socket() as other:
        other.bind((ports.LOOPBACK, service.port))
        other.listen(1)
        with pytest.raises(PortTakenError, match=f"fake must listen on 127.0.0.1:{service.port}"):
            service.start()


def test_given_no_process_then_pause_says_so(make: Make) -> None:
    with pytest.raises(NotRunningError, match="fake is not running"):
        make().pause()


OWNER = """
import sys, time
from pathlib import Path
from tests.local.fake_service import FakeService, lives
service = FakeService(Path(sys.argv[1]), port=int(sys.argv[2]), mode=sys.argv[3])
service.start()
print(service.pid, service.child, flush=True)
sys.stdin.readline()
if sys.argv[4] == "leave":
    sys.exit(0)
"""


def owner(root: Path, port: int, end: str, mode: str = "works") -> tuple[subprocess.Popen[str], int, int]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(root), str(port), mode, end],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert process.stdout is not None
    pid, child = map(int, process.stdout.readline().split())
    return process, pid, child


def finish(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.wait(30)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, None], ids=["kill -9", "TERM", "exit"])
def test_given_an_owner_that_ends_in_any_way_then_its_services_end(
    tmp_path: Path, signum: signal.Signals | None
) -> None:
    process, pid, child = owner(tmp_path, ports.choose(), "leave")
    if signum:
        process.send_signal(signum)
    finish(process)
    assert wait_until(lambda: not lives(pid) and not lives(child), 30)


def test_given_a_process_left_by_a_killed_owner_then_the_next_start_stops_it(tmp_path: Path, make: Make) -> None:
    port = ports.choose()
    process, pid, child = owner(tmp_path, port, "stay")
    # Guard and owner killed together, as by a container's end or the out-of-memory killer.
    guards = [p for p in psutil.Process(process.pid).children() if p.pid != pid]
    assert len(guards) == 1
    for victim in (*guards, psutil.Process(process.pid)):
        victim.kill()
    finish(process)
    assert lives(pid)
    service = make(port=port)
    service.start()
    assert service.pid != pid
    assert not lives(pid)
    assert wait_until(lambda: not lives(child), 10)


def guard_of_services() -> psutil.Process:
    process = service_module._guard._process
    assert process is not None
    return psutil.Process(process.pid)


def test_given_a_killed_guard_then_the_next_start_brings_one_that_knows_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One of its own: the process's watches what other tests still need, and takes it along.
    monkeypatch.setattr(service_module, "_guard", Guard())
    first, second = FakeService(tmp_path / "first"), FakeService(tmp_path / "second")
    first.start()
    killed = guard_of_services()
    killed.kill()
    assert wait_until(lambda: not lives(killed.pid), 20)
    second.start()
    guard = guard_of_services()
    assert guard.pid != killed.pid
    first_pid, second_pid = first.pid, second.pid
    # It ends at the end of its input, as when its owner dies, and takes both along.
    service_module._guard.close()
    assert not guard.is_running() or not lives(guard.pid)
    assert wait_until(lambda: not lives(first_pid) and not lives(second_pid), 20)
    first.stop()
    second.stop()


def test_given_a_mark_of_a_process_id_used_again_then_the_stranger_is_left_alone(tmp_path: Path, make: Make) -> None:
    service = make()
    service.folder.mkdir(parents=True)
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        started = psutil.Process(stranger.pid).create_time() - 3600
        ProcessMark(stranger.pid, started).write(service.folder / "process.json")
        service.start()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_given_half_a_mark_then_it_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "mark").write_text('{"pid": 1')
    assert ProcessMark.read(tmp_path / "mark") is None
    mark = ProcessMark.of(os.getpid())
    mark.write(tmp_path / "mark")
    assert ProcessMark.read(tmp_path / "mark") == mark
    assert mark.find() is not None
