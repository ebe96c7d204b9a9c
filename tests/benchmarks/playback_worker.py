"""One process of the playback bench: `agent`, the real one, or `decide`, its rules alone without any input or output.

Prints its figures as a line of JSON and ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from streams.agents import app as agents
from streams.agents import playback
from streams.agents.ports import EngineMetrics
from streams.domain.playback import decide as decide_one
from streams.domain.policy import POLICIES
from streams.domain.state import State
from streams.engine import App
from streams.runtime.contract import Contract
from streams.runtime.settings import KafkaSettings, Settings

from .playback_workload import reports
from .stopwatch import Stopwatch


class Metrics(EngineMetrics):
    """The agent's own, and the watch."""

    def __init__(self, watch: Stopwatch) -> None:
        super().__init__(playback.AGENT.name)
        self._watch = watch

    def batch_committed(self, topic: str, partition: int, records: int, seconds: float) -> None:
        super().batch_committed(topic, partition, records, seconds)
        if self._watch.committed(records):
            os.kill(os.getpid(), signal.SIGTERM)


def agent(given: dict[str, Any]) -> None:
    """The agent as `playhead agents` runs it, until all records are decided."""
    settings = settings_of(given)
    contract = Contract.of(settings)
    config = agents.config(settings, playback.AGENT, "bench", contract)
    watch = Stopwatch(given["records"], given["warm"])
    app = App(replace(config, metrics=Metrics(watch), **given.get("engine", {})))
    playback.AGENT.declare(app, settings, contract)
    app.run(loglevel="WARNING")


def decide(given: dict[str, Any]) -> None:
    """The rules over the same reports, rows in a dict."""
    policy = POLICIES["playthrough"]
    todo = [
        ((event.user_ref, event.media_id), playback.as_report(event, event.received_at))
        for event in reports(given["records"])
    ]
    states: dict[tuple[str, str], State | None] = {}
    watch = Stopwatch(len(todo), given["warm"])
    for key, report in todo:
        watch.taken(1)
        states[key] = decide_one(states.get(key), report, policy).state
    watch.durable(len(todo))


def settings_of(given: dict[str, Any]) -> Settings:
    """Settings as of a deployment without a registry: pinned schemas with pinned ids."""
    return Settings(kafka=KafkaSettings(bootstrap=given["bootstrap"]), state_dir=Path(given["state_dir"]))


if __name__ == "__main__":
    {"agent": agent, "decide": decide}[sys.argv[1]](json.loads(sys.argv[2]))
