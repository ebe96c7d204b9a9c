"""A service whose server is a few lines of Python, for tests of starting, stopping, freezing and dying."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil

from streams.local import ports
from streams.local.service import Command, Service

# Listens, starts a child with a session of its own (as PostgreSQL does), and tells the child's id in a file.
SERVER = """
import os, signal, socket, sys, time
port, folder, mode = int(sys.argv[1]), sys.argv[2], sys.argv[3]
print("server starting", flush=True)
if mode == "dies":
    print("the reason why", flush=True)
    sys.exit(3)
if mode == "deaf":
    time.sleep(600)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child == 0:
    os.setsid()
    time.sleep(600)
with open(os.path.join(folder, "child.new"), "w") as file:
    file.write(str(child))
os.rename(os.path.join(folder, "child.new"), os.path.join(folder, "child"))
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", port))
server.listen(5)
while True:
    server.accept()[0].close()
"""


class FakeService(Service):
    """Modes: "works", "dies" at once with a message, "deaf" (never listens), "stubborn" (ignores SIGTERM)."""

    name = "fake"

    def __init__(self, root: Path, *, port: int | None = None, mode: str = "works") -> None:
        super().__init__(root / "fake", root / "logs", port or ports.choose())
        self.mode = mode

    def prepare(self) -> Command:
        """See Service."""
        (self.folder / "child").unlink(missing_ok=True)
        return Command([sys.executable, "-c", SERVER, str(self.port), str(self.folder), self.mode], folder=Path("/"))

    def answers(self) -> bool:
        """See Service."""
        return (self.folder / "child").exists()

    @property
    def child(self) -> int:
        """Process id of the server's child."""
        return int((self.folder / "child").read_text())


def lives(pid: int) -> bool:
    """Whether the process runs; one that only waits for its exit code to be read does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
