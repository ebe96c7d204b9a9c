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
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from streams.local import ports as port_choice
from streams.local.addresses import Addresses
from streams.local.cache import Cache, cache_directory
from streams.local.errors import FolderInUseError, LocalStackError
from streams.local.kafka import KafkaBroker
from streams.local.manifest import load
from streams.local.postgres import PostgresServer
from streams.local.progress import Progress
from streams.local.registry import SchemaRegistry, own_database
from streams.local.service import Service
from streams.local.unprivileged import external_data, temporary_folder
from streams.local.valkey import ValkeyServer

PORT_NAMES = ("kafka", "kafka_controller", "postgres", "registry", "valkey")


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
        cache: Path | Cache | None = None,
        progress: Progress | None = None,
        ports: Mapping[str, int] | None = None,
        fast: bool = False,
    ) -> None:
        """`cache` is the download cache, by default the user's ($PLAYHEAD_CACHE decides).

        `ports` fixes ports by name (PORT_NAMES); the others are free ones. `fast` is PostgreSQL without fsync,
        for throw-away data. Raises ValueError for combinations that can't work.
        """
        if registry and not postgres:
            raise ValueError("the registry stores in PostgreSQL: start it with postgres=True")
        if unknown := set(ports or {}) - set(PORT_NAMES):
            raise ValueError(f"unknown ports {sorted(unknown)}; known are {', '.join(PORT_NAMES)}")
        self._chosen = folder
        self._wanted = {"kafka": kafka, "postgres": postgres, "registry": registry, "valkey": valkey}
        self._cache = cache if isinstance(cache, Cache) else Cache(cache or cache_directory(os.environ), progress=progress)
        self._ports = dict(ports or {})
        self._fast = fast
        self._folder: Path | None = None
        self._lock: IO[str] | None = None
        self._services: dict[str, Service] = {}

    def start(self) -> Addresses:
        """Fetch what is missing, start all wanted services side by side, wait until they answer.

        Raises a LocalStackError (see errors.py); then nothing runs and the folder is free again. A stack that runs
        already is left as it is, only services that died are started again.
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
        # The registry first: it still needs its database to end well.
        self._side_by_side([s for s in self._services.values() if isinstance(s, SchemaRegistry)], Service.stop)
        self._side_by_side(list(self._services.values()), Service.stop)
        self._close()

    def kill(self) -> None:
        """SIGKILL everything at once, as a power cut would, and let go of the folder; data stay."""
        for service in self._services.values():
            service.kill()
        self._close(keep=True)

    def start_registry(self) -> str:
        """Add the registry to a running stack (if it is not there); its URL."""
        self._wanted["registry"] = True
        if not self._wanted["postgres"]:
            raise ValueError("the registry stores in PostgreSQL: start the stack with postgres=True")
        self._make_registry()
        self.registry.start()
        return self.registry.url

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

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
            bootstrap=self.kafka.bootstrap if "kafka" in services else None,
            postgres=self.postgres.address if "postgres" in services else None,
            registry_url=self.registry.url if "registry" in services else None,
            valkey_url=self.valkey.url if "valkey" in services else None,
        )

    @property
    def services(self) -> Mapping[str, Service]:
        """The wanted services by name, running or not."""
        return dict(self._services)

    @property
    def kafka(self) -> KafkaBroker:
        """The broker. Raises LocalStackError when this stack has none."""
        return self._service("kafka", KafkaBroker)

    @property
    def postgres(self) -> PostgresServer:
        """The database server. Raises LocalStackError when this stack has none."""
        return self._service("postgres", PostgresServer)

    @property
    def registry(self) -> SchemaRegistry:
        """The schema registry. Raises LocalStackError when this stack has none."""
        return self._service("registry", SchemaRegistry)

    @property
    def valkey(self) -> ValkeyServer:
        """The cache server. Raises LocalStackError when this stack has none."""
        return self._service("valkey", ValkeyServer)

    def _service[S: Service](self, name: str, kind: type[S]) -> S:
        service = self._services.get(name)
        if not isinstance(service, kind):
            raise LocalStackError(f"This stack has no {name}: start it with {name}=True.")
        return service

    def _open(self) -> None:
        """Take the folder, stop what an earlier run left in it, choose ports."""
        folder = self._chosen or temporary_folder("playhead-stack-")
        folder = folder.expanduser().absolute()
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _take(folder)
        self._folder = folder
        try:
            self._make_services(folder)
        except BaseException:
            self._close()
            raise

    def _make_services(self, folder: Path) -> None:
        manifest = load()
        logs = folder / "logs"
        for name in ("kafka", "postgres", "registry", "valkey"):
            ...
