"""Looking into agents' tables on this machine: which table is meant, which copy of a partition is furthest."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from schemas.placement import PARTITIONS
from streams.agents.agent import Agent, AgentTable
from streams.agents.app import AGENTS, config, state_dir
from streams.engine import Crash, Look, Refused, local_partitions, look_committed, look_local
from streams.runtime.errors import ConfigurationError, Unavailable
from streams.runtime.kafka import wait_for_broker
from streams.runtime.settings import Settings

CHANGELOG = "changelog"
BROKER_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Copy:
    """One partition of a table; ``origin`` is ``worker <name>`` or ``changelog``."""

    origin: str
    look: Look


def table_named(name: str) -> tuple[Agent, AgentTable]:
    """The table of this name, or ``agent/table``. Raises ConfigurationError that lists the tables there are."""
    found = [
        (agent, table)
        for agent in AGENTS.values()
        for table in agent.tables
        if name in (table.name, f"{agent.name}/{table.name}")
    ]
    if len(found) != 1:
        all_names = sorted(f"{agent.name}/{table.name}" for agent in AGENTS.values() for table in agent.tables)
        said = "no such table" if not found else "more than one table has this name"
        raise ConfigurationError(f"{said}: {name}; the tables are {', '.join(all_names)}")
    return found[0]


def every_partition() -> range:
    """All partition numbers: those of the agents' sources, fixed for life."""
    return range(PARTITIONS)


def workers(settings: Settings) -> list[str]:
    """Names of the workers that keep state on this machine."""
    folder = settings.state_dir / "agents"
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []


def home_of(table: AgentTable, key: bytes) -> int:
    """The partition of ``key``. Raises ConfigurationError when it cannot be a key of the table."""
    try:
        return table.home(key)
    except ValueError as error:
        raise ConfigurationError(f"not a key of {table.name}, which are {table.key_form}: {error}") from error


@contextmanager
def copies(
    settings: Settings,
    agent: Agent,
    table: AgentTable,
    partitions: Sequence[int] = range(PARTITIONS),
    *,
    worker: str | None = None,
    committed: bool = False,
    key: bytes | None = None,
    prefix: bytes = b"",
) -> Iterator[Iterator[Copy]]:
    """Yield the copies to look into, one a partition, each valid until the next is asked for.

    Of local copies the furthest; where there is none, and always with ``committed``, the changelog. With
    ``worker``, that worker's copies only. ``key`` and ``prefix`` are all that need be there. Raises
    ConfigurationError when there is nothing to look into, Unavailable when the changelog cannot be read.
    """
    found = _copies(settings, agent, table, partitions, worker, committed, key, prefix)
    try:
        yield found
    except Refused as error:
        raise ConfigurationError(str(error)) from error
    except Crash as error:
        raise Unavailable(str(error)) from error
    finally:
        found.close()


def _copies(
    settings: Settings,
    agent: Agent,
    table: AgentTable,
    partitions: Sequence[int],
    worker: str | None,
    committed: bool,
    key: bytes | None,
    prefix: bytes,
) -> Generator[Copy, None, None]:
    there = {} if committed else _local(settings, agent, worker)
    if worker is not None and not any(partition in there for partition in partitions):
        has = ", ".join(str(partition) for partition in sorted(there)) or "none at all"
        wanted = ", ".join(map(str, partitions)) if len(partitions) < PARTITIONS else "any partition"
        raise ConfigurationError(f"worker {worker} keeps no copy of {wanted} of {agent.name} here; it has {has}")
    if worker is None and not all(partition in there for partition in partitions):
        wait_for_broker(settings.kafka, timeout_s=BROKER_WAIT_S)
    for partition in partitions:
        if partition in there:
            with ExitStack() as opened:
                found = [
                    Copy(
                        f"worker {name}",
                        opened.enter_context(look_local(config(settings, agent, name), table.name, partition)),
                    )
                    for name in there[partition]
                ]
                yield max(found, key=lambda copy: copy.look.reach.offset)
        elif worker is None:
            yield Copy(
                CHANGELOG, look_committed(config(settings, agent), table.name, partition, key=key, prefix=prefix)
            )


def _local(settings: Settings, agent: Agent, worker: str | None) -> dict[int, list[str]]:
    """Which workers keep a copy of which partition."""
    found: dict[int, list[str]] = {}
    for name in workers(settings) if worker is None else [worker]:
        for partition in local_partitions(state_dir(settings, agent, name)):
            found.setdefault(partition, []).append(name)
    return found
