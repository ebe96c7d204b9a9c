"""Apicurio Registry, stored in PostgreSQL, on loopback only; clients use its Confluent-compatible API.

Stored in PostgreSQL because its default memory storage hands out the ids of the run before to other schemas.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx

from streams.local.java import java_executable, jvm_options
from streams.local.ports import LOOPBACK
from streams.local.postgres import PostgresAddress, PostgresServer, secret
from streams.local.service import Command, Service

HEAP_MIB = 256
ANSWER_TIMEOUT_S = 2.0
DATABASE = "registry"
ROLE = "registry"


class SchemaRegistry(Service):
    """One registry process. Its PostgreSQL must run when it starts."""

    name = "registry"

    def __init__(
        self,
        folder: Path,
        logs: Path,
        *,
        port: int,
        application: Callable[[], Path],
        database: Callable[[str], PostgresAddress],
    ) -> None:
        """`application` gives the verified, unpacked folder of the cache at every start.

        `database` makes sure that database and role exist with the given password and tells the address.
        """
        super().__init__(folder, logs, port)
        self._application = application
        self._database = database

    @property
    def url(self) -> str:
        """For confluent_kafka's SchemaRegistryClient({"url": …})."""
        return f"http://{LOOPBACK}:{self.port}/apis/ccompat/v7"

    def prepare(self) -> Command:
        """Make sure of database and role."""
        address = self._database(secret(self.folder / "password"))
        return Command(
            [str(java_executable()), *jvm_options(HEAP_MIB, self.log.parent), "-jar", "quarkus-run.jar"],
            folder=self._application(),
            environment={
                "QUARKUS_HTTP_HOST": LOOPBACK,
                "QUARKUS_HTTP_PORT": str(self.port),
                # A second listener (health, metrics), by default on every interface at port 9000, which can't be
                # turned off; nobody uses it, so any free port will do.
                "QUARKUS_MANAGEMENT_HOST": LOOPBACK,
                "QUARKUS_MANAGEMENT_PORT": "0",
                "APICURIO_STORAGE_KIND": "sql",
                "APICURIO_STORAGE_SQL_KIND": "postgresql",
                "APICURIO_DATASOURCE_URL": f"jdbc:postgresql://{address.host}:{address.port}/{DATABASE}",
                "APICURIO_DATASOURCE_USERNAME": address.user,
                # The environment of a process is readable by its own user only.
                "APICURIO_DATASOURCE_PASSWORD": address.password,
                "HOME": str(self.folder),
            },
        )

    def answers(self) -> bool:
        """Whether schemas can be read, which needs its database."""
        try:
            return httpx.get(f"{self.url}/subjects", timeout=ANSWER_TIMEOUT_S, trust_env=False).is_success
        except httpx.HTTPError:
            return False


def own_database(server: PostgresServer) -> Callable[[str], PostgresAddress]:
    """The registry's database inside an embedded PostgreSQL, which must run when the result is called."""

    def ensure(password: str) -> PostgresAddress:
        server.ensure_database(DATABASE, ROLE, password)
        return PostgresAddress(LOOPBACK, server.port, ROLE, password)

    return ensure
