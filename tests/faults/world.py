"""A whole Playhead of a test's own: services and roles in a temporary folder, reports sent over HTTP."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import psycopg
from confluent_kafka import Consumer
from rich.console import Console

from schemas.topics import PLAYBACK_REPORTED
from streams.cli import running
from streams.cli.admin import door_connection
from streams.cli.deployment import Options
from streams.cli.running import Running
from streams.local.unprivileged import temporary_folder
from streams.runtime.settings import KafkaSettings
from streams.runtime.tokens import create_source, create_token
from tests.integration.projections.world import eventually
from tests.kafka import answered, watermarks

QUIET = Console(quiet=True)
SOURCE = "home"


class World:
    def __init__(self, playhead: Running) -> None:
        self.playhead = playhead
        self.settings = playhead.settings
        self.superuser = playhead.stack.postgres.address.url(self.settings.postgres.database)
        with door_connection(self.settings) as connection:
            create_source(connection, SOURCE, "native", "test")
            token = create_token(connection, SOURCE, ["report", "read"], None, "test")
        self.client = httpx.Client(
            base_url=playhead.url, headers={"Authorization": f"Bearer {token}"}, timeout=httpx.Timeout(15)
        )

    def post(self, reports: Sequence[dict[str, Any]]) -> httpx.Response:
        """One try at a batch."""
        return self.client.post("/v1/playback", json={"reports": list(reports)})

    def send(self, reports: Sequence[dict[str, Any]], timeout_s: float = 90.0) -> int:
        """Send a batch until it is accepted, as a client would; how many reports were."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                answer = self.post(reports)
            except httpx.TransportError as exc:
                problem = repr(exc)
            else:
                if answer.status_code == httpx.codes.ACCEPTED:
                    assert answer.json()["rejected"] == []
                    return int(answer.json()["accepted"])
                problem = f"{answer.status_code} {answer.text[:300]}"
                assert answer.status_code in (429, 503), problem
            assert time.monotonic() < deadline, f"not accepted in {timeout_s} s: {problem}"
            time.sleep(0.2)

    def settle(self, timeout_s: float = 180.0) -> None:
        """Return when every report is decided and projected and every invalidation is published."""

        def quiet() -> bool:
            self.playhead.supervisor.raise_refusal()
            reports = end_of(self.settings.kafka, PLAYBACK_REPORTED.name)
            decided = int(self.scalar("SELECT count(*) FROM model.processed_events"))
            return decided == reports and self.scalar("SELECT count(*) FROM model.outbox") == 0

        eventually(quiet, "every report is decided, projected and announced", timeout_s)

    def scalar(self, query: str) -> Any:
        with psycopg.connect(self.superuser) as connection:
            row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


@contextmanager
def playhead_world(
    *, agents: int = 1, projectors: int = 1, workers: int = 1, registry: bool = False, cache: bool = True
) -> Iterator[World]:
    """Start everything in a temporary folder and stop it at the end. After a failure the folder stays, for its logs."""
    folder = temporary_folder("playhead-faults-")
    options = Options(http_port=None, agents=agents, projectors=projectors, workers=workers)
    with running.deployment(folder, options, QUIET, registry=registry, cache=cache) as playhead:
        world = World(playhead)
        with world.client:
            yield world
    shutil.rmtree(folder, ignore_errors=True)


def end_of(kafka: KafkaSettings, topic: str) -> int:
    """The end offsets of all partitions together: of a topic without transactions, the number of its records."""
    consumer = Consumer({**kafka.client(), "group.id": "ends"})
    try:
        partitions = answered(lambda: consumer.list_topics(topic, timeout=10)).topics[topic].partitions
        return sum(watermarks(consumer, topic, p)[1] for p in partitions)
    finally:
        consumer.close()
