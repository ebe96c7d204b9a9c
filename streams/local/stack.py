"""The embedded stack: real Kafka, PostgreSQL, Apicurio Registry and Valkey on one folder, without containers.

    with Stack(Path("data")) as stack:
        stack.addresses.bootstrap

Layout of the folder:

    stack.lock          held while a stack runs here; dies with its process
    ports.json          the ports, remembered
    logs/<service>.log
    kafka/ postgres/ registry/ valkey/    one folder for each service, with data and secrets
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeVar

from streams.local import ports as ports_of
from streams.local.addresses import Addresses
from streams.local.cache import Cache, cache_directory
from streams.local.errors import FolderInUseError, LocalStackError, StartCancelledError
from streams.local.kafka import KafkaBroker
from streams.local.manifest import load
from streams.local.postgres import PostgresServer
from streams.local.progress import Progress
from streams.local.registry import SchemaRegistry, own_database
from streams.local.service import Service
from streams.local.unprivileged import external_data, temporary_folder
from streams.local.valkey import ValkeyServer

# In the order of need: a later one may use an earlier one.
KINDS: tuple[type[Service], ...] = (KafkaBroker, PostgresServer, ValkeyServer, SchemaRegistry)
PORT_NAMES = (*(kind.name for kind in KINDS), "kafka_controller")

S = TypeVar("S", bound=Service)


class Stack:
    """The services of one folder. Not started by creating it; `start` or `with` does.

    Without a folder a temporary one is used and deleted at `stop`. While it runs, `kafka`, `postgres`,
    `registry` and `valkey` are the services, to be stopped, killed, frozen and started one by one. `registry`
    stores in `postgres`, so it needs it.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        kafka: bool = True,
        postgres: bool = True,
        registry: bool = False,
        valkey: bool = False,
        cache: Cache | Path | None = None,
        progress: Progress | None = None,
        ports: Mapping[str, int] | None = None,
        fast: bool = False,
        lasting: bool = False,
    ) -> None:
        """`cache` is the download cache, by default the user's ($PLAYHEAD_CACHE decides).

        `ports` fixes ports by name (PORT_NAMES); the others are free ones. `fast` is PostgreSQL without fsync,
        for throw-away data. `lasting` is a broker that takes longer to be quick, and then is quicker. Raises
        ValueError for combinations that can't work.
        """
        if registry and not postgres:
            raise ValueError("the registry stores in PostgreSQL: start it with postgres=True")
        if unknown := set(ports or {}) - set(PORT_NAMES):
            raise ValueError(f"unknown ports {sorted(unknown)}; known are {', '.join(PORT_NAMES)}")
        wanted = (kafka, postgres, valkey, registry)
        self._wanted = {kind.name for kind, on in zip(KINDS, wanted, strict=True) if on}
        self._chosen = folder
        self._cache = (
            cache if isinstance(cache, Cache) else Cache(cache or cache_directory(os.environ), progress=progress)
        )
        self._fixed_ports = dict(ports or {})
        self._fast = fast
        self._lasting = lasting
        self._folder: Path | None = None
        self._lock: IO[str] | None = None
        self._ports: dict[str, int] = {}
        self._services: dict[str, Service] = {}
        self._adding = threading.Lock()

    def start(self) -> Addresses:
        """Fetch what is missing, start all wanted services side by side, wait until they answer.

        Raises a LocalStackError (see errors.py); then nothing runs and the folder is free again. On a running
        stack it starts only the services that do not run.
        """
        if self._lock is None:
            self._open()
        try:
            self._start_services()
        except BaseException:
            self.stop()
            raise
        return self.addresses

    def stop(self) -> None:
        """Stop all services cleanly and let go of the folder; a temporary one is deleted. Repeatable."""
        if self._lock is None:
            return
        # The registry before its database, which it still uses while it ends.
        chain = [s for s in reversed(self._services.values()) if isinstance(s, SchemaRegistry | PostgresServer)]
        self._side_by_side([chain, *([s] for s in self._services.values() if s not in chain)], Service.stop)
        self._close()

    def kill(self) -> None:
        """SIGKILL all services, as a power cut would. The folder stays ours: `start` goes on with its data."""
        for service in self._services.values():
            service.kill()

    def add(self, name: str) -> Service:
        """Start one more service, and what it needs, on the running stack; one that runs is left as it is.

        Raises LocalStackError when the stack is not started, ValueError for an unknown name.
        """
        kind = next((kind for kind in KINDS if kind.name == name), None)
        if kind is None:
            raise ValueError(f"unknown service {name!r}; known are {', '.join(kind.name for kind in KINDS)}")
        if self._folder is None:
            raise LocalStackError("The stack is not started.")
        if kind is SchemaRegistry:
            self.add(PostgresServer.name)
        with self._adding:
            service = self._services.setdefault(name, self._make(kind))
        service.start()
        return service

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def started(self) -> bool:
        """Whether the folder is ours: from `start` to `stop`, even while services are killed."""
        return self._folder is not None

    @property
    def folder(self) -> Path:
        """The folder in use. Raises LocalStackError when the stack is not started."""
        if self._folder is None:
            raise LocalStackError("The stack is not started.")
        return self._folder

    @property
    def addresses(self) -> Addresses:
        """Where clients find the services of the started stack."""
        services = self._services
        return Addresses(
            bootstrap=self.kafka.bootstrap if KafkaBroker.name in services else None,
            postgres=self.postgres.address if PostgresServer.name in services else None,
            registry_url=self.registry.url if SchemaRegistry.name in services else None,
            valkey_url=self.valkey.url if ValkeyServer.name in services else None,
        )

    @property
    def services(self) -> Mapping[str, Service]:
        """The started stack's services by name, running or not."""
        return dict(self._services)

    @property
    def kafka(self) -> KafkaBroker:
        """The broker. Raises LocalStackError when the stack has none or is not started."""
        return self._service(KafkaBroker)

    @property
    def postgres(self) -> PostgresServer:
        """The database server. Raises LocalStackError when the stack has none or is not started."""
        return self._service(PostgresServer)

    @property
    def registry(self) -> SchemaRegistry:
        """The schema registry. Raises LocalStackError when the stack has none or is not started."""
        return self._service(SchemaRegistry)

    @property
    def valkey(self) -> ValkeyServer:
        """The cache server. Raises LocalStackError when the stack has none or is not started."""
        return self._service(ValkeyServer)

    def _service(self, kind: type[S]) -> S:
        service = self._services.get(kind.name)
        if not isinstance(service, kind):
            raise LocalStackError(f"This stack has no {kind.name}, or is not started.")
        return service

    def _open(self) -> None:
        """Take the folder and stop what an earlier run left in it; only then see which ports are free."""
        folder = (self._chosen or temporary_folder("playhead-stack-")).expanduser().absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise LocalStackError(f"{folder} can't be used: {exc.strerror}. Choose another folder.") from exc
        self._lock = take_folder(folder)
        self._folder = folder
        try:
            for kind in reversed(KINDS):
                kind.stop_stale(folder / kind.name)
            self._ports = ports_of.remembered(folder / "ports.json", PORT_NAMES, self._fixed_ports)
            for kind in KINDS:
                if kind.name in self._wanted:
                    self._services[kind.name] = self._make(kind)
        except BaseException:
            self._close()
            raise

    def _make(self, kind: type[Service]) -> Service:
        manifest, logs, port = load(), self.folder / "logs", self._ports[kind.name]
        folder = self.folder / kind.name
        if kind is KafkaBroker:
            return KafkaBroker(
                folder,
                logs,
                port=port,
                controller_port=self._ports["kafka_controller"],
                jars=lambda: self._cache.ensure(manifest.kafka),
                lasting=self._lasting,
            )
        if kind is PostgresServer:
            return PostgresServer(folder, logs, port=port, fast=self._fast)
        if kind is ValkeyServer:
            return ValkeyServer(folder, logs, port=port)
        return SchemaRegistry(
            folder,
            logs,
            port=port,
            application=lambda: self._cache.ensure(manifest.registry),
            database=own_database(self.postgres),
        )

    def _start_services(self) -> None:
        chains = [[service] for service in self._services.values() if not isinstance(service, SchemaRegistry)]
        if registry := self._services.get(SchemaRegistry.name):
            # As soon as its database answers, while the broker still boots; its files are fetched meanwhile.
            next(chain for chain in chains if isinstance(chain[0], PostgresServer)).append(registry)
        prefetch = registry is not None and not registry.running
        self._side_by_side(chains, Service.start, [lambda: self._cache.ensure(load().registry)] * prefetch)

    def _side_by_side(
        self,
        chains: Sequence[Sequence[Service]],
        act: Callable[[Service], None],
        besides: Sequence[Callable[[], object]] = (),
    ) -> None:
        """Do it with all chains at once, in order within one; the first failure is raised when all have ended."""

        def run(chain: Sequence[Service]) -> None:
            for service in chain:
                act(service)

        with ThreadPoolExecutor(len(KINDS) + 1, "stack") as pool:
            work: list[Future[object]] = [pool.submit(extra) for extra in besides]
            work += [pool.submit(run, chain) for chain in chains]
            try:
                done, _ = wait(work, return_when=FIRST_EXCEPTION)
                if any(job.exception() for job in done):
                    self._cancel()
            except BaseException:
                self._cancel()
                raise
        # What was only cancelled is no cause.
        failures = [error for job in work if (error := job.exception()) is not None]
        failures.sort(key=lambda error: isinstance(error, StartCancelledError))
        if failures:
            raise failures[0]

    def _cancel(self) -> None:
        self._cache.cancel()
        for service in self._services.values():
            service.cancel()

    def _close(self) -> None:
        if self._lock is None:
            return
        if self._chosen is None and self._folder is not None:
            external = external_data(self._folder / PostgresServer.name)
            for folder in (self._folder, external):
                if folder is not None:
                    shutil.rmtree(folder, ignore_errors=True)
        self._services, self._folder = {}, None
        self._lock.close()
        self._lock = None


def take_folder(folder: Path) -> IO[str]:
    """Lock a folder for this process until the returned file is closed or the process ends in any way.

    Raises FolderInUseError.
    """
    file = (folder / "stack.lock").open("a+", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read().strip() or "unknown"
        file.close()
        raise FolderInUseError(folder, owner) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
