"""Agents put together from settings: their Faust apps, their changelogs, their process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from schemas.placement import PARTITIONS
from streams.agents import library, playback
from streams.agents.agent import Agent
from streams.agents.ports import DeadLetters, EngineMetrics, failpoint
from streams.engine import App, EngineConfig, changelog_topics, ensure_changelogs, run_together
from streams.runtime.clock import SystemClock
from streams.runtime.contract import Contract
from streams.runtime.errors import ConfigurationError, Permanent
from streams.runtime.publisher import BATCH_BYTES_MAX
from streams.runtime.settings import Settings

THROUGH_FLOOD = 1_000_000
"""Dead letters that pass when an operator lets a flood through; then it stops again."""

#: Every agent there is, by name. One more is one more line.
AGENTS: dict[str, Agent] = {agent.name: agent for agent in (playback.AGENT, library.AGENT)}


def chosen(names: Iterable[str]) -> list[Agent]:
    """The agents of these names, all when there are none. Raises ConfigurationError for an unknown name."""
    wanted = list(dict.fromkeys(names)) or list(AGENTS)
    if unknown := [name for name in wanted if name not in AGENTS]:
        raise ConfigurationError(f"no such agent: {', '.join(unknown)}; there are {', '.join(sorted(AGENTS))}")
    return [AGENTS[name] for name in wanted]


def build(
    settings: Settings,
    agent: Agent = playback.AGENT,
    worker: str = "1",
    *,
    through_flood: bool = False,
    trust_group_offsets: bool = False,
) -> App:
    """An agent as an app, ready to run. Asks the registry, connects to nothing else.

    ``worker`` names the local state, so that two workers on one machine do not share a folder. ``through_flood``: an
    operator has looked, and however many dead letters there are, they are written. ``trust_group_offsets``: an operator
    has looked, and the group's offsets hold though the changelog does not confirm them. Raises ConfigurationError when
    the registry contradicts known ids.
    """
    contract = Contract.of(settings)
    made = replace(config(settings, agent, worker, contract), trust_group_offsets=trust_group_offsets)
    if through_flood:
        made = replace(made, flood_run=THROUGH_FLOOD, flood_share=1.0, flood_window=THROUGH_FLOOD)
    app = App(made)
    agent.declare(app, settings, contract)
    return app


def run(
    settings: Settings,
    names: Iterable[str] = (),
    worker: str = "1",
    *,
    through_flood: bool = False,
    trust_group_offsets: bool = False,
) -> NoReturn:
    """Work until SIGTERM, SIGINT or an error, then leave the process with the engine's exit code.

    Several agents share the process and its event loop; each keeps its own group, transactions and state.
    """
    run_together(
        [
            build(settings, agent, worker, through_flood=through_flood, trust_group_offsets=trust_group_offsets)
            for agent in chosen(names)
        ]
    )


def create_changelogs(settings: Settings) -> list[str]:
    """Create the changelog topics that do not exist yet; returns their names."""
    created = []
    for agent in AGENTS.values():
        app = App(config(settings, agent))
        for table in agent.tables:
            app.Table(table.name)
        created += ensure_changelogs(
            app.config, changelog_topics(app), partitions=PARTITIONS, replication=settings.kafka.replication
        )
    return created


def state_dir(settings: Settings, agent: Agent, worker: str) -> Path:
    """Where a worker of this machine keeps the tables of an agent."""
    return settings.state_dir / "agents" / worker / agent.name


def config(settings: Settings, agent: Agent, worker: str = "setup", contract: Contract | None = None) -> EngineConfig:
    """The engine's settings for an agent; without a contract, for looking and for making changelogs only."""
    client = {name: value for name, value in settings.kafka.client().items() if name != "bootstrap.servers"}
    return EngineConfig(
        bootstrap=settings.kafka.bootstrap,
        group=agent.name,
        state_dir=state_dir(settings, agent, worker),
        max_batch=agent.batch_records_max(settings),
        batch_bytes=BATCH_BYTES_MAX,
        session_timeout=settings.playback.session_timeout_s,
        permanent_errors=(Permanent,),
        client=client,
        repair_command="playhead agents repair",
        dead_letter=None if contract is None else DeadLetters(f"agent.{agent.name}", contract, SystemClock()),
        metrics=EngineMetrics(agent.name),
        failpoint=failpoint(settings.failpoints),
    )
