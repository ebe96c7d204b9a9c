"""A real supysonic: installed once, pinned, into an environment of its own beside the other downloads; run per test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streams.local.cache import cache_directory

PINS = (
    *("supysonic==0.7.9", "flask==3.1.3", "werkzeug==3.1.9", "peewee==4.5.3", "pillow==13.0.0", "mediafile==0.17.0"),
    *("requests==2.34.2", "watchdog==7.1.0", "zipstream-ng==1.9.3", "click==8.5.1", "mutagen==1.48.1"),
)
USER, PASSWORD = "listener", "pa55 word"
START_S, INSTALL_S = 120.0, 300.0
_SERVER = """
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIServer, make_server
from supysonic.web import create_application
class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
server = make_server("127.0.0.1", 0, create_application(), server_class=Server)
print(server.server_port, flush=True)
server.serve_forever()
"""


class NotInstallable(Exception):
    """The message says why."""


def installed() -> Path:
    """The folder of its programs. Raises NotInstallable."""
    environment = cache_directory(os.environ) / f"tests-{PINS[0].replace('==', '-')}"
    programs = environment / "bin"
    if (environment / "whole").exists():
        return programs
    shutil.rmtree(environment, ignore_errors=True)
    uv = Path(sys.executable).with_name("uv")
    for command in (
        [str(uv), "venv", "--quiet", "--python", sys.executable, str(environment)],
        [str(uv), "pip", "install", "--quiet", "--python", str(programs / "python"), *PINS],
    ):
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S)
        except (OSError, subprocess.SubprocessError) as exc:
            raise NotInstallable(f"{command[1]} failed: {type(exc).__name__}") from exc
    (environment / "whole").touch()
    return programs


@dataclass
class Supysonic:
    url: str
    music: Path
    scan: Callable[[], None]
    """Look through the folder now, and return when that is done"""

    def add_song(self, name: str, seconds: int) -> None:
        """A silent song; the daemon's watcher finds it."""
        hidden = self.music.with_name(f"{name}.part")
        with wave.open(str(hidden), "wb") as song:
            song.setnchannels(1)
            song.setsampwidth(1)
            song.setframerate(8_000)
            song.writeframes(b"\x80" * 8_000 * seconds)
        hidden.rename(self.music / f"{name}.wav")


@contextmanager
def running(programs: Path, *, watching: bool = True) -> Iterator[Supysonic]:
    """Web server and daemon with one folder and one person, until the block ends. ``watching``: the daemon looks for
    what changes in the folder by itself."""
    # A short path: it holds the daemon's socket.
    with tempfile.TemporaryDirectory(prefix="sup") as folder:
        home = Path(folder)
        (home / "music").mkdir()
        (home / "supysonic.conf").write_text(
            f"[base]\ndatabase_uri = sqlite:///{home}/s.db\n"
            f"[webapp]\ncache_dir = {home}/cache\nmount_webui = off\n"
            f"[daemon]\nsocket = {home}/d.sock\nrun_watcher = {'yes' if watching else 'no'}\nwait_delay = 1\n"
        )

        def cli(*arguments: str) -> None:
            command = [str(programs / "supysonic-cli"), *arguments]
            subprocess.run(command, cwd=home, check=True, capture_output=True, timeout=START_S)

        cli("user", "add", "-p", PASSWORD, USER)
        cli("folder", "add", "Music", str(home / "music"))
        server = subprocess.Popen(
            [str(programs / "python"), "-c", _SERVER],
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        daemon = subprocess.Popen(
            [str(programs / "supysonic-daemon")], cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        silent = threading.Timer(START_S, server.kill)
        silent.start()
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            silent.cancel()
            deadline = time.monotonic() + START_S
            while not (home / "d.sock").exists():
                assert time.monotonic() < deadline, "the daemon does not start"
                time.sleep(0.05)
            yield Supysonic(
                f"http://127.0.0.1:{port}", home / "music", lambda: cli("folder", "scan", "--foreground", "Music")
            )
        finally:
            silent.cancel()
            for process in (server, daemon):
                process.terminate()
            for process in (server, daemon):
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            if server.stdout is not None:
                server.stdout.close()
