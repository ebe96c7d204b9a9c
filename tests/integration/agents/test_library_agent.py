"""The real library agent, killed at every step of its transactions: what it told is what the rules make of the log.

The log of observations and commands is read afterwards and given, record by record in its order, to the agent's step
with rows in memory. Every byte that comes of it must be in the log, once, and nothing else: changes, merges, and the
agent's words to itself, which are part of what was read.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.library import Command, FinalizeContinued, ItemChanged, ItemStatusRequested, MediaMerged, ScanChanged
from schemas.library import Observation as Event
from schemas.placement import PARTITIONS, partition_of
from schemas.topics import DEAD_LETTERS, LIBRARY_CHANGED, LIBRARY_COMMANDS, LIBRARY_OBSERVED, MEDIA_MERGED
from streams.agents.app import create_changelogs
from streams.agents.library import AGENT
from streams.domain.identity import media_id
from streams.domain.library.limits import ROWS_READ_MAX
from streams.local import Stack
from streams.runtime.kafka import apply_topics, topic_id
from streams.runtime.outlet import Outlet
from streams.runtime.publisher import Record
from streams.runtime.settings import KafkaSettings, PlaybackSettings, Settings
from tests.agents.library_desk import CONTRACT, SOURCE, Desk, head, listed, path, scan, seen, started
from tests.integration.projections.world import environment_of, eventually, read_all

pytestmark = [pytest.mark.services, pytest.mark.faults, pytest.mark.long]

FILES = 2 * ROWS_READ_MAX + 600
"""The end of their scan is three records' work."""
BATCH = 400
SERVER = "server"
SILENT_S = 6.0


class Site:
    """A Kafka with the library's topics, and workers one after the other, each a process."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.settings = Settings(
            kafka=KafkaSettings(bootstrap=bootstrap),
            state_dir=folder / "state",
            playback=PlaybackSettings(batch_records_max=BATCH, session_timeout_s=SILENT_S),
        )
        self._log = folder / "worker.log"
        apply_topics(self.settings.kafka)
        create_changelogs(self.settings)
        self._outlet = Outlet(self.settings.kafka)

    def put(self, *events: Event | Command) -> None:
        records = []
        for event in events:
            topic = LIBRARY_COMMANDS if isinstance(event, Command) else LIBRARY_OBSERVED
            key = event.source_id.encode()
            records.append(Record(topic.name, partition_of(key), key, CONTRACT.encode(event)))
        self._outlet.publish(records)

    def close(self) -> None:
        self._outlet.close()

    @contextmanager
    def worker(self, failpoints: str = "") -> Iterator[subprocess.Popen[bytes]]:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "streams.cli", "agents", AGENT.name],
                env={**os.environ, **environment_of(self.settings), "PLAYHEAD_FAILPOINTS": failpoints},
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def life(self, point: str) -> None:
        """A worker that lives until its first batch gets to ``point``."""
        with self.worker(f"{point}=kill") as process:
            assert process.wait(60) == -signal.SIGKILL, self.last_words()

    def values(self, topic: str) -> list[bytes]:
        """By partition, in its order."""
        return [message.value() or b"" for message in read_all(self.settings.kafka, topic)]

    def changes(self) -> list[Any]:
        return [CONTRACT.decode(value) for value in self.values(LIBRARY_CHANGED.name)]

    def wait_finalized(self, source_id: str, generation: int) -> None:
        def over() -> bool:
            return any(
                isinstance(one, ScanChanged)
                and (one.source_id, one.generation, one.status) == (source_id, generation, "finalized")
                for one in self.changes()
            )

        eventually(over, f"scan {generation} of {source_id} is at its end: {self.last_words()}", 120)

    def last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2_000:] if self._log.exists() else ""

    def told_again(self, commands_from: int) -> Counter[tuple[str, int, bytes, bytes]]:
        """What the rules make of the log, from nothing. Commands were given when the agent had read the
        observations before ``commands_from`` in their partition."""
        kafka = self.settings.kafka
        ids = {topic.name: topic_id(kafka, topic.name) for topic in (LIBRARY_OBSERVED, LIBRARY_COMMANDS)}
        desk, found = Desk(topic_ids=ids), Counter[tuple[str, int, bytes, bytes]]()
        records = [(commands_from, 0, record) for record in read_all(kafka, LIBRARY_COMMANDS.name)]
        records += [(record.offset() or 0, 1, record) for record in read_all(kafka, LIBRARY_OBSERVED.name)]
        for _, _, record in sorted(records, key=lambda one: one[:2]):
            found.update((one.topic, one.partition, one.key, one.value) for one in desk.give(record))
        return found

    def told(self) -> Counter[tuple[str, int, bytes, bytes]]:
        """What is in the log of what the agent told."""
        found = Counter[tuple[str, int, bytes, bytes]]()
        for topic in (LIBRARY_CHANGED, MEDIA_MERGED, LIBRARY_OBSERVED):
            for record in read_all(self.settings.kafka, topic.name):
                value, key, partition = record.value() or b"", record.key() or b"", record.partition()
                if topic is not LIBRARY_OBSERVED or isinstance(CONTRACT.decode(value), FinalizeContinued):
                    assert partition is not None
                    found[topic.name, partition, key, value] += 1
        return found


@pytest.fixture
def site(private_stack: Callable[..., Stack], tmp_path: Path) -> Iterator[Site]:
    bootstrap = private_stack(postgres=False).addresses.bootstrap
    assert bootstrap is not None
    made = Site(bootstrap, tmp_path)
    yield made
    made.close()


def server_scan(generation: int, upstream_id: str) -> list[Event]:
    """One item of a media server."""
    item = replace(seen(generation, 0, 4, new=True, source_id=SERVER), upstream_id=upstream_id)
    return [started(generation, SERVER), item, listed(generation, 1, SERVER)]


def test_an_agent_that_is_killed_at_every_step_tells_what_the_rules_make_of_the_log_once(site: Site) -> None:
    site.put(*scan(1, range(FILES), new=True), *server_scan(1, "old"))
    with site.worker():
        site.wait_finalized(SOURCE, 1)
        added = [one for one in site.changes() if isinstance(one, ItemChanged) and one.source_id == SOURCE]
        assert Counter(one.changes for one in added) == {("added",): FILES}

        site.put(*scan(2, range(FILES), new=False), *server_scan(2, "new"))
        site.wait_finalized(SOURCE, 2)
        site.wait_finalized(SERVER, 2)
        again = [one for one in site.changes() if isinstance(one, ItemChanged) and one.source_id == SOURCE]
        assert again == added

        name = media_id(SOURCE, path(3).decode())
        mark = 1 + max(record.offset() or 0 for record in read_all(site.settings.kafka, LIBRARY_OBSERVED.name))
        site.put(ItemStatusRequested(**head("status"), media_id=name, status="deleted"))
        eventually(
            lambda: any(isinstance(one, ItemChanged) and one.status == "deleted" for one in site.changes()),
            "the command is obeyed",
        )

    gone = 100
    *seen_again, end = scan(3, range(gone, FILES), new=False)
    site.put(*seen_again)
    for point in ("fetched", "table_written", "before_commit", "committed"):
        site.life(f"agent.{point}")
    site.put(end)
    for point in ("stored", "produced", "flushed", "before_commit", "committed", "stored"):
        site.life(f"agent.{point}")
    with site.worker():
        site.wait_finalized(SOURCE, 3)

    missing = [one.media_id for one in site.changes() if isinstance(one, ItemChanged) and one.status == "missing"]
    assert Counter(missing) == {media_id(SOURCE, path(number).decode()): 1 for number in range(gone) if number != 3}
    words = [one for one in site.told() if one[0] == LIBRARY_OBSERVED.name]
    assert len(words) > 3
    copies = read_all(site.settings.kafka, MEDIA_MERGED.name)
    assert [record.partition() for record in copies] == list(range(PARTITIONS))
    merged = {(one.media_id, one.survivor) for one in site.changes() if isinstance(one, MediaMerged)}
    assert merged == {(media_id(SERVER, "new"), media_id(SERVER, "old"))}
    assert site.values(DEAD_LETTERS.name) == []
    assert site.told() == site.told_again(mark)
