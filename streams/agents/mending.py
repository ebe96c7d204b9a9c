"""What an operator does about transactions that broker crashes left open: look at every agent, settle by evidence."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.topics import DEAD_LETTERS
from streams.agents.agent import Agent
from streams.agents.app import chosen, config
from streams.engine import Crash, Refused
from streams.engine.batch import TableSpec
from streams.engine.findings import Findings
from streams.engine.group import with_positions
from streams.engine.repair import find_hanging, settle_hanging
from streams.engine.topics import Needed
from streams.runtime.errors import ConfigurationError, Unavailable
from streams.runtime.settings import Settings


def repair(settings: Settings, names: Iterable[str] = (), *, settle: bool = False) -> dict[str, Findings]:
    """Look at these agents, all when there are none; ``settle`` also commits and aborts what hangs. Findings by agent.

    Raises ConfigurationError while an agent to be repaired is at work or its topics are missing, Unavailable when
    brokers do not answer; agents already repaired stay so, and it may be called again.
    """
    found: dict[str, Findings] = {}
    for agent in chosen(names):
        try:
            found[agent.name] = (settle_hanging if settle else find_hanging)(config(settings, agent), topics(agent))
        except Refused as error:
            raise ConfigurationError(f"{agent.name}: {error}") from error
        except Crash as error:
            raise Unavailable(f"{agent.name}: {error}") from error
    return found


def topics(agent: Agent) -> Needed:
    """What the agent writes in its transactions. Its sources are left out: it writes none of them."""
    tables = with_positions(agent.name, [TableSpec.of(agent.name, table.name) for table in agent.tables])
    return Needed((), tuple(sorted(table.changelog for table in tables)), (*agent.outputs, DEAD_LETTERS.name))
