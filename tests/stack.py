"""Real services for the tests: by address, from containers, or embedded; started at most once per run.

Which one, per service: an address in PLAYHEAD_TEST_KAFKA, PLAYHEAD_TEST_POSTGRES (a superuser's URL),
PLAYHEAD_TEST_REGISTRY or PLAYHEAD_TEST_VALKEY; else containers, when PLAYHEAD_TEST_CONTAINERS=1 and an engine
answers; else the embedded stack.

A run has one owner (the pytest process that the user started; with pytest-xdist its workers are not owners). The
first test that needs a service starts one server process for the run, which starts what is asked for, when it is
asked for, and ends everything when the owner ends in any way. They talk through files in the run's folder:

    want-<service>   somebody needs it
    have-<service>   its address      error-<service>  why there is none
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from streams.local import PostgresAddress, Stack
from streams.local.processes import ProcessMark, wait_until
from streams.local.unprivileged import temporary_folder

RUN_VARIABLE = "PLAYHEAD_TEST_RUN"
CONTAINERS_VARIABLE = "PLAYHEAD_TEST_CONTAINERS"
ADDRESS_VARIABLES = {
    "kafka": "PLAYHEAD_TEST_KAFKA",
    "postgres": "PLAYHEAD_TEST_POSTGRES",
    "registry": "PLAYHEAD_TEST_REGISTRY",
    "valkey": "PLAYHEAD_TEST_VALKEY",
}
# Longer than a first download on a slow line.
READY_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 60.0
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Database:
    """A database of one test, reachable as superuser."""

    address: PostgresAddress
    name: str

    @property
    def url(self) -> str:
        """For psycopg."""
        return self.address.url(self.name)

    @property
    def sqlalchemy_url(self) -> str:
        """For SQLAlchemy and alembic."""
        return self.address.url(self.name, scheme="postgresql+psycopg")


class Services:
    """Addresses for tests. Each property starts its service at first use and answers when it is up."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._known: dict[str, str] = {}

    def start(self, *names: str) -> None:
        """Start several side by side."""
        for name in names:
            if name not in self._known and not self._environ.get(ADDRESS_VARIABLES[name]):
                request(Path(self._environ[RUN_VARIABLE]), name)
        for name in names:
            self._address(name)

    @property
    def bootstrap(self) -> str:
        """Kafka's bootstrap servers."""
        return self._address("kafka")

    @property
    def postgres(self) -> PostgresAddress:
        """PostgreSQL with a superuser."""
        return postgres_address(self._address("postgres"))

    @property
    def registry_url(self) -> str:
        """The schema registry's Confluent-compatible API."""
        return self._address("registry")

    @property
    def valkey_url(self) -> str:
        """Valkey."""
        return self._address("valkey")

    def _address(self, name: str) -> str:
        if name not in self._known:
            given = self._environ.get(ADDRESS_VARIABLES[name])
            self._known[name] = given or wait_for(Path(self._environ[RUN_VARIABLE]), name)
        return self._known[name]


def postgres_address(url: str) -> PostgresAddress:
    """The parts of postgresql://user:password@host:port/…"""
    parts = urlsplit(url)
    return PostgresAddress(
        parts.hostname or "127.0.0.1",
        parts.port or 5432,
        unquote(parts.username or "postgres"),
        unquote(parts.password or ""),
    )


# --- the owner's and the tests' side


def announce(environ: MutableMapping[str, str]) -> None:
    """Called in the owner before anything else: names the run for itself and the workers to come."""
    folder = temporary_folder("playhead-tests-")
    ProcessMark.of(os.getpid()).write(folder / "owner")
    environ[RUN_VARIABLE] = str(folder)


def finish(environ: MutableMapping[str, str]) -> None:
    """Called in the owner at the end: nothing of the run is left."""
    folder = Path(environ.pop(RUN_VARIABLE))
    mark = ProcessMark.read(folder / "server")
    if mark and (server := mark.find()):
        server.send_signal(signal.SIGTERM)
        wait_until(lambda: mark.find() is None, STOP_TIMEOUT_S)
    shutil.rmtree(folder, ignore_errors=True)


def request(run: Path, name: str) -> None:
    """Ask for a service; starts the server if nobody did so yet."""
    (run / f"want-{name}").touch()
    with (run / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if ProcessMark.read(run / "server") is None:
            root = Path(__file__).resolve().parents[1]
            subprocess.run([sys.executable, "-m", "tests.stack", str(run)], check=True, cwd=root)


def wait_for(run: Path, name: str) -> str:
    """The address of a service. Raises RuntimeError with the server's words when it can't be had."""
    request(run, name)
    have, error = run / f"have-{name}", run / f"error-{name}"
    mark = ProcessMark.read(run / "server")

    def settled() -> bool:
        return have.exists() or error.exists() or mark is None or mark.find() is None

    wait_until(settled, READY_TIMEOUT_S)
    if have.exists():
        return have.read_text("utf-8")
    log = run / "server.log"
    raise RuntimeError(
        f"The tests' {name} did not start:\n"
        + (error.read_text("utf-8") if error.exists() else log.read_text("utf-8") if log.exists() else "")
    )


# --- the server's side


def serve(run: Path, provide: Callable[[str], str]) -> None:
    """Start what is wanted, until SIGTERM or the owner's end."""
    owner = ProcessMark.read(run / "owner")
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    started: set[str] = set()

    def answer(name: str) -> None:
        try:
            kind, text = "have", provide(name)
        except Exception:
            kind, text = "error", traceback.format_exc()
        scratch = run / f"scratch-{name}"
        scratch.write_text(text, "utf-8")
        os.replace(scratch, run / f"{kind}-{name}")

    with ThreadPoolExecutor(len(ADDRESS_VARIABLES)) as pool:
        while not ended.wait(POLL_S) and owner is not None and owner.find() is not None:
            for path in run.glob("want-*"):
                name = path.name.removeprefix("want-")
                if name not in started:
                    started.add(name)
                    pool.submit(answer, name)


def embedded(run: Path) -> tuple[Callable[[str], str], Callable[[], None]]:
    """How to provide services from the embedded stack, and how to end them.

    Without fsync in PostgreSQL: nobody kills the shared one (private_stack is for that).
    """
    folder = run / "stack"
    folder.mkdir()
    if os.geteuid() == 0:
        folder.chmod(0o711)
    stack = Stack(folder, kafka=False, postgres=False, fast=True)
    stack.start()

    def provide(name: str) -> str:
        stack.add(name)
        addresses = stack.addresses
        known = {
            "kafka": addresses.bootstrap,
            "postgres": addresses.postgres.url() if addresses.postgres else None,
            "registry": addresses.registry_url,
            "valkey": addresses.valkey_url,
        }
        address = known[name]
        assert address is not None
        return address

    return provide, stack.stop


def main() -> None:
    """Detach from the test that needed the first service, and serve the run."""
    run = Path(sys.argv[1])
    if os.fork():
        # The caller waits for this process only.
        deadline = time.monotonic() + 20
        while ProcessMark.read(run / "server") is None and time.monotonic() < deadline:
            time.sleep(POLL_S)
        os._exit(0)
    os.setsid()
    log = os.open(run / "server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ProcessMark.of(os.getpid()).write(run / "server")
    if os.environ.get(CONTAINERS_VARIABLE) == "1":
        from tests.containers import containers, engine_answers

        make = containers if engine_answers() else embedded
    else:
        make = embedded
    provide, end = make(run)
    try:
        serve(run, provide)
    finally:
        end()
        owner = ProcessMark.read(run / "owner")
        if owner is None or owner.find() is None:
            # Nobody is left to do it.
            shutil.rmtree(run, ignore_errors=True)


def unique(prefix: str) -> str:
    """A name that no other test of this or another run uses: letters, digits and dashes."""
    return f"{prefix}-{secrets.token_hex(6)}"


def drop_database(address: PostgresAddress, name: str) -> None:
    """Drop a test's database, whoever is still connected to it."""
    import psycopg
    from psycopg import sql

    with psycopg.connect(address.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def create_database(address: PostgresAddress) -> Database:
    """A new empty database with a unique name."""
    import psycopg
    from psycopg import sql

    name = unique("test").replace("-", "_")
    with psycopg.connect(address.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return Database(address, name)


if __name__ == "__main__":
    main()
