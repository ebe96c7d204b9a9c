"""Records per second and per CPU-second: the engine and its peers on one topic, the same job, one run.

The engine, Kafka Streams, Quix Streams and the raw ceiling take turns, several rounds, medians, for a machine's speed
moves while they work; Quix works as it comes, and once more with our codec lent. Stock Faust works once. The slow ones
have a prefix. Everyone has one process and, but for a run that says otherwise, one thread of its own code.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streams.engine import EngineConfig, ensure_changelogs

from .broker import PARTITIONS, Topics, fill, topics
from .engine_job import records
from .figures import Absent, Row, middle
from .kafka_streams import peer as kafka_streams_peer
from .processes import NoFigures, measure, worker_command
from .quix import peer as quix_peer

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much everyone has to do. ``keys``: how many different keys the topic has."""

    records: int
    keys: int
    rounds: int
    stock_records: int
    quix_records: int
    #: Share of the records that is not counted: caches fill, just-in-time compilers compile, rows exist.
    warm: float = 0.25
    kafka_streams_threads: tuple[int, ...] = (1,)
    peers: bool = True
    engine: tuple[tuple[str, Any], ...] = ()


class Peers:
    """What is measured beside the engine, prepared once for several runs."""

    def __init__(self, wanted: bool, say: Say) -> None:
        self.kafka_streams: kafka_streams_peer.KafkaStreams | Absent = Absent("not asked for")
        self.quix: quix_peer.Quix | Absent = Absent("not asked for")
        if wanted:
            say("preparing Kafka Streams (fetched once)")
            self.kafka_streams = kafka_streams_peer.prepare()
            say("preparing Quix Streams (installed once, in an environment of its own)")
            self.quix = quix_peer.prepare()

    def close(self) -> None:
        """Remove what was made for this run only."""
        if isinstance(self.kafka_streams, kafka_streams_peer.KafkaStreams):
            self.kafka_streams.close()


def run(bootstrap: str, plan: Plan, peers: Peers, say: Say) -> dict[str, Row]:
    """Fill a topic and measure everyone on it. Peers that are not there are Absent, with the reason."""
    with ExitStack() as stack:
        made = stack.enter_context(topics(bootstrap))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="engine-bench-"))
        say(f"writing {plan.records:,} records of {plan.keys:,} keys")
        source = made.make("source")
        fill(bootstrap, source, records(plan.records, plan.keys))
        lap = _Lap(made, source, folder, plan)
        turns: dict[str, list[Row]] = {}
        for number in range(plan.rounds):
            for name, work in _in_turns(lap, plan, peers).items():
                say(f"round {number + 1} of {plan.rounds}: {name}")
                turns.setdefault(name, []).append(work(number))
        found = {name: middle(rows) for name, rows in turns.items()}
        if plan.peers:
            say("stock Faust")
            found["stock"] = lap.own("stock", plan.stock_records)
        return found


def _in_turns(lap: _Lap, plan: Plan, peers: Peers) -> dict[str, Callable[[int], Row]]:
    work: dict[str, Callable[[int], Row]] = {"engine": lambda n: lap.own("engine", plan.records, n)}
    if plan.peers:
        streams = peers.kafka_streams
        for threads in plan.kafka_streams_threads:
            name = "kafka_streams" if threads == 1 else f"kafka_streams_{threads}_threads"
            if isinstance(streams, Absent):
                work[name] = lambda n, absent=streams: absent  # type: ignore[misc]
            else:
                work[name] = lambda n, t=threads, s=streams: s.run(  # type: ignore[misc]
                    lap.settings(f"streams-{t}-{n}", plan.records), threads=t
                )
        quix = peers.quix
        if isinstance(quix, Absent):
            work["quix"] = work["quix_lent"] = lambda _, absent=quix: absent  # type: ignore[misc]
        else:
            work["quix"] = lambda n, q=quix: q.run(  # type: ignore[misc]
                lap.settings(f"quix-{n}", min(plan.quix_records, plan.records)), lent=False
            )
            work["quix_lent"] = lambda n, q=quix: q.run(  # type: ignore[misc]
                lap.settings(f"quix-lent-{n}", plan.records), lent=True
            )
        work["raw"] = lambda n: lap.own("raw", plan.records, n)
    return work


@dataclass(frozen=True, slots=True)
class _Lap:
    """Runs on one source topic; everyone gets an output topic, a group and a folder of its own."""

    topics: Topics
    source: str
    folder: str
    plan: Plan

    def settings(self, name: str, count: int) -> dict[str, Any]:
        return {
            "bootstrap": self.topics.bootstrap, "source": self.source, "out": self.topics.make(f"{name}-out"),
            "group": self.topics.name(name), "records": count, "warm": int(count * self.plan.warm),
            "state_dir": f"{self.folder}/{name}", "partitions": PARTITIONS, "compiled": True,
        }  # fmt: skip

    def own(self, kind: str, count: int, number: int = 0) -> Row:
        settings = self.settings(f"{kind}-{number}", min(count, self.plan.records))
        if kind == "engine":
            self._changelog(settings)
            settings["engine"] = dict(self.plan.engine)
        try:
            return measure(worker_command(kind, settings))
        except NoFigures as error:
            if kind == "engine":
                raise
            return Absent(str(error))

    def _changelog(self, settings: dict[str, Any]) -> None:
        group = settings["group"]
        config = EngineConfig(bootstrap=settings["bootstrap"], group=group, state_dir=Path(settings["state_dir"]))
        ensure_changelogs(config, [f"{group}-progress-changelog"], partitions=PARTITIONS)
