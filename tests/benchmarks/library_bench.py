"""The library agent's step without Kafka: CPU time of a record, from its bytes to rows in the store and bytes to send.

    python -m tests.benchmarks.library_bench [--items 50000] [--rounds 3] [--profile "files, unchanged"]

Real codecs, table and store (RocksDB), batches as large as the agent's; sending, the changelog and commits are left
out. Nothing is in memory when a scan begins. Files that a scan sees for the first time, and again; items of a media
server, which gives all details every time. The end of a scan in which all were seen counts for each item. ``rules``:
the same records, decoded before, rows in a dict. The best of the rounds counts, so that a busy machine counts less.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import shutil
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from confluent_kafka import Message

from schemas.ids import SchemaIds
from schemas.library import FinalizeContinued, ItemObserved, Observation
from schemas.topics import LIBRARY_OBSERVED
from streams.agents import library
from streams.agents.library_shelf import TableShelf
from streams.domain.library.outputs import At
from streams.domain.library.rules import apply
from streams.engine import App, Batch, EngineConfig
from streams.engine.store import Store, StoreState
from streams.engine.table import current_batch
from streams.runtime.contract import Contract
from streams.runtime.settings import Settings
from tests.agents.library_desk import HOME, LOGGED_AT, SOURCE, listed, seen, started
from tests.domain.library.simple import DictShelf

FILES, SERVER = "files", "server"
NEW, UNCHANGED, END = "new", "unchanged", "end"


class Nobody:
    """Who delivers a batch here does not listen."""

    def started(self, batch: Batch) -> bool:
        return True

    def finished(self, batch: Batch) -> None: ...


class Bench:
    """One agent's table in ``folder``, and the log in front of it."""

    def __init__(self, folder: Path) -> None:
        self._config = EngineConfig(bootstrap="127.0.0.1:1", group=library.AGENT.name, state_dir=folder)
        self._table = App(self._config).Table(library.TABLE)
        self._shelf = TableShelf(self._table)
        self._folder = folder
        self._store = self._open()
        self._contract = Contract(SchemaIds(), registry=None)
        self._size = library.AGENT.batch_records_max(Settings())
        self._loop = asyncio.new_event_loop()
        self._offset = 0

    def _open(self) -> Store:
        return Store(self._folder / "0", self._config.cache_bytes, self._config.flush_interval)

    def reopen(self) -> None:
        """Forget what is in memory: between two scans others have used it."""
        self._store.close()
        self._store = self._open()

    def close(self) -> None:
        self._loop.close()
        self._store.close()

    def give(self, events: Sequence[Observation]) -> float:
        """CPU seconds for these, and for what the agent tells itself about them."""
        todo, took = [self._contract.encode(event) for event in events], 0.0
        while todo:
            values, todo = todo[: self._size], todo[self._size :]
            records = [self._record(value) for value in values]
            begin = time.process_time()
            batch = self._batch(records)
            outputs = list(batch.raw_outputs())
            writes = {overlay.prefix: overlay.writes for overlay in batch.overlays.values()}
            self._store.commit(writes, StoreState(0.0))
            took += time.process_time() - begin
            todo += [value for topic, value, *_ in outputs if topic == LIBRARY_OBSERVED.name and value is not None]
        return took

    def _batch(self, records: list[Message[Any, Any]]) -> Batch:
        batch = Batch(
            config=self._config, rows=self._store, owner=Nobody(), topic=LIBRARY_OBSERVED.name, topic_id="topic-id",
            partition=HOME, records=records,
        )  # fmt: skip
        current_batch.set(batch)
        self._loop.run_until_complete(library._batch(batch, self._shelf, self._contract, Observation))
        assert not batch.dead
        return batch

    def _record(self, value: bytes) -> Message[Any, Any]:
        offset, self._offset = self._offset, self._offset + 1
        return Message(
            topic=LIBRARY_OBSERVED.name, partition=HOME, offset=offset, key=SOURCE.encode(), value=value,
            timestamp=(2, LOGGED_AT + offset),
        )  # fmt: skip


def scan(kind: str, generation: int, items: int) -> list[ItemObserved]:
    """What a scan of this source sees, at generations after 1 as it was before."""
    found = [seen(generation, n, n, new=kind == SERVER or generation == 1) for n in range(items)]
    if kind == SERVER:
        found = [
            replace(one, upstream_id=f"{n:032x}", locator=replace(one.locator, mtime_ns=None, device=None, inode=None))
            for n, one in enumerate(found)
            if one.locator is not None
        ]
    return found


def agent(items: int, profiled: str | None) -> dict[str, float]:
    """Seconds by what was given."""
    took: dict[str, float] = {}
    for kind in (FILES, SERVER):
        folder = Path(mkdtemp(prefix="library-bench-"))
        bench = Bench(folder)
        try:
            for generation, how in ((1, NEW), (2, UNCHANGED)):
                bench.reopen()
                bench.give([started(generation)])
                for name, events in (
                    (f"{kind}, {how}", scan(kind, generation, items)),
                    (f"{kind}, {how}, {END}", [listed(generation, items)]),
                ):
                    with profile() if name == profiled else nullcontext():
                        took[name] = bench.give(events)
        finally:
            bench.close()
            shutil.rmtree(folder, ignore_errors=True)
    return took


def rules(items: int) -> dict[str, float]:
    """The same without bytes."""
    took: dict[str, float] = {}
    for kind in (FILES, SERVER):
        shelf, offset = DictShelf(), 0
        for generation, how in ((1, NEW), (2, UNCHANGED)):
            events: list[Observation] = [started(generation), *scan(kind, generation, items)]
            places = [At("topic-id", HOME, offset + n, LOGGED_AT) for n in range(len(events))]
            offset += len(events)
            begin = time.process_time()
            for event, at in zip(events, places, strict=True):
                apply(shelf, event, at)
            took[f"{kind}, {how}"] = time.process_time() - begin
            words: list[Observation] = [listed(generation, items)]
            while words:
                outputs = apply(shelf, words.pop(), At("topic-id", HOME, offset, LOGGED_AT))
                offset += 1
                words = [library_word(one) for one in outputs if hasattr(one, "cursor")]
    return took


def library_word(output: Any) -> FinalizeContinued:
    end = listed(output.generation, 0)
    return FinalizeContinued(
        event_id="word", correlation_id="c", source_id=SOURCE, received_at=end.received_at,
        generation=output.generation, step=output.step, cursor=output.cursor,
    )  # fmt: skip


class profile:
    """Prints where the time went."""

    def __enter__(self) -> None:
        self._profile = cProfile.Profile()
        self._profile.enable()

    def __exit__(self, *_: object) -> None:
        self._profile.disable()
        pstats.Stats(self._profile).sort_stats("tottime").print_stats(40)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", metavar="WHAT", help="print where the time of this line went")
    given = parser.parse_args()
    rounds = [(agent(given.items, given.profile), rules(given.items)) for _ in range(given.rounds)]
    figures: dict[str, dict[str, float]] = {}
    print(f"{'µs of CPU time for each item':<28}{'agent':>8}{'rules':>8}{'per second':>12}")
    for name in rounds[0][0]:
        whole = min(one[name] for one, _ in rounds) / given.items * 1e6
        figures[name] = {"agent_us": round(whole, 2), "per_s": round(1e6 / whole)}
        alone = ""
        if name in rounds[0][1]:
            figures[name]["rules_us"] = round(min(one[name] for _, one in rounds) / given.items * 1e6, 2)
            alone = f"{figures[name]['rules_us']:.1f}"
        print(f"{name:<28}{whole:>8.1f}{alone:>8}{1e6 / whole:>12,.0f}")
    print(json.dumps({"items": given.items, "library": figures}))


if __name__ == "__main__":
    main()
