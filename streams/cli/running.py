"""A deployment that runs: services up, roles supervised, everything answering; and all of it stopped again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient
from rich.console import Console

from schemas.placement import PARTITIONS
from streams.cli.deployment import OTHER_PROJECTIONS, Options, prepare, roles
from streams.cli.measured import SUPERVISOR, Measured, measured
from streams.local import Stack, ports
from streams.local.progress import BarProgress
from streams.local.supervisor import Supervisor
from streams.runtime import metrics
from streams.runtime.errors import Unavailable
from streams.runtime.kafka import admin_client
from streams.runtime.settings import PREFIX, Settings

READY_TIMEOUT_S = 90.0
_PROJECTIONS = tuple(f"projection.{name}" for name in ("playback", *OTHER_PROJECTIONS))
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Running:
    stack: Stack
    settings: Settings
    supervisor: Supervisor
    measured: Measured

    @property
    def url(self) -> str:
        """Base of the HTTP API."""
        return f"http://{self.settings.http.host}:{self.settings.http.port}"

    def addresses(self) -> dict[str, str]:
        """What people connect to, by name; nothing secret."""
        postgres = self.settings.postgres
        found = {
            "http": self.url,
            "kafka": self.settings.kafka.bootstrap,
            "postgres": f"{postgres.host}:{postgres.port}/{postgres.database}",
        }
        if self.settings.registry.url is not None:
            found["registry"] = self.settings.registry.url
        if self.settings.cache.url is not None:
            # Its password stands in the settings' file.
            found["valkey"] = self.settings.cache.url.get_secret_value().rpartition("@")[2]
        found["metrics"] = f"{self.url}/metrics"
        found["processes"] = str(self.measured.targets)
        found["folder"] = str(self.stack.folder)
        return found


@contextmanager
def deployment(
    folder: Path,
    options: Options,
    console: Console,
    *,
    registry: bool,
    cache: bool = True,
    on_line: Callable[[str, str], None] | None = None,
    before_roles: Callable[[Settings], None] = lambda _: None,
) -> Iterator[Running]:
    """Start everything on ``folder``, yield when every role is ready, stop everything at the end.

    ``before_roles`` is called once tables and topics are there, and before any role starts.

    Raises a LocalStackError when a service can't run, ConfigurationError when a role refuses to, Unavailable
    when they are not ready in READY_TIMEOUT_S.
    """
    stack = Stack(folder, registry=registry, valkey=cache, progress=BarProgress(console), lasting=options.lasting)
    supervisor: Supervisor | None = None
    numbers = ExitStack()

    def say(step: str) -> None:
        console.print(f"  {step} …", style="dim", markup=False)

    try:
        say("services: Kafka, PostgreSQL" + ", Valkey" * cache + ", schema registry" * registry)
        addresses = stack.start()
        settings = prepare(folder, addresses, options, say)
        before_roles(settings)
        say("roles: door and read API, agents, projections, relay, cache, pollers, worker")
        known = measured(roles(settings, options), settings, folder)
        # How often a role was started again is known here only.
        numbers.enter_context(metrics.served(ports.LOOPBACK, known.ports[SUPERVISOR]))
        supervisor = Supervisor(
            known.roles,
            logs=folder / "logs",
            state_file=folder / "supervisor.json",
            on_line=on_line,
            # Exactly these settings: what the caller has set is for another deployment.
            environment={name: value for name, value in os.environ.items() if not name.startswith(PREFIX)},
        )
        supervisor.start()
        running = Running(stack, settings, supervisor, known)
        wait_until_ready(running)
        yield running
    finally:
        if supervisor is not None:
            supervisor.stop()
        numbers.close()
        stack.stop()


def wait_until_ready(running: Running, timeout_s: float = READY_TIMEOUT_S) -> None:
    """Return when the door is ready and every partition has an agent and a projector at work.

    Raises ConfigurationError when a role refuses to run, Unavailable when they are not ready in time.
    """
    from streams.agents.app import AGENTS

    groups = (*AGENTS, *_PROJECTIONS)
    deadline = time.monotonic() + timeout_s
    admin = admin_client(running.settings.kafka)
    while True:
        running.supervisor.raise_refusal()
        if _door_is_ready(running) and all(_owned_partitions(admin, g) == PARTITIONS for g in groups):
            return
        if time.monotonic() > deadline:
            raise Unavailable(f"not ready after {timeout_s:.0f} s; see the logs in {running.stack.folder / 'logs'}")
        time.sleep(_POLL_S)


def _door_is_ready(running: Running) -> bool:
    try:
        return httpx.get(f"{running.url}/readyz", timeout=2).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False  # not listening yet


def _owned_partitions(admin: AdminClient, group: str) -> int:
    """How many partition numbers the members of a stable consumer group own; 0 while it settles. An agent of several
    topics owns a number in all of them, or in none."""
    try:
        found = admin.describe_consumer_groups([group], request_timeout=5)[group].result()
    except KafkaException:
        return 0  # the coordinator is being chosen
    if found.state is not ConsumerGroupState.STABLE:
        return 0
    return len({place.partition for member in found.members for place in member.assignment.topic_partitions})
