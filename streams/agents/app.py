"""Agents put together from settings: the playback agent's Faust app, its changelogs, its process."""

from __future__ import annotations

from typing import NoReturn

from schemas.placement import PARTITIONS
from streams.agents import playback
from streams.agents.ports import DeadLetters, EngineMetrics, failpoint
from streams.domain.policy import POLICIES
from streams.engine import App, EngineConfig, changelog_topics, ensure_changelogs
from streams.runtime.clock import SystemClock
from streams.runtime.contract import Contract
from streams.runtime.errors import Permanent
from streams.runtime.settings import Settings

GROUP = "playback"


def build(settings: Settings, worker: str = "1") -> App:
    """The playback agent as an app, ready to run. Asks the registry, connects to nothing else.

    ``worker`` names the local state, so that two workers on one machine do not share a folder. Raises
    ConfigurationError when the registry contradicts known ids.
    """
    contract = Contract.of(settings)
    app = App(_config(settings, worker, contract))
    playback.declare(app, contract, POLICIES[settings.playback.policy])
    return app


def run(settings: Settings, worker: str = "1") -> NoReturn:
    """Work until SIGTERM, SIGINT or an error, then leave the process with the engine's exit code."""
    build(settings, worker).run()


def create_changelogs(settings: Settings) -> list[str]:
    """Create the changelog topics that do not exist yet; returns their names."""
    app = App(_config(settings, "setup", None))
    app.Table(playback.TABLE)
    return ensure_changelogs(
        app.config, changelog_topics(app), partitions=PARTITIONS, replication=settings.kafka.replication
    )


def _config(settings: Settings, worker: str, contract: Contract | None) -> EngineConfig:
    client = {name: value for name, value in settings.kafka.client().items() if name != "bootstrap.servers"}
    return EngineConfig(
        bootstrap=settings.kafka.bootstrap,
        group=GROUP,
        state_dir=settings.state_dir / "agents" / worker / GROUP,
        max_batch=settings.playback.batch_records_max,
        session_timeout=settings.playback.session_timeout_s,
        permanent_errors=(Permanent,),
        client=client,
        dead_letter=None if contract is None else DeadLetters(f"agent.{GROUP}", contract, SystemClock()),
        metrics=EngineMetrics(GROUP),
        failpoint=failpoint(settings.failpoints),
    )
