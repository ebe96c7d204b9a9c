"""A worker process for fault tests: two agents, two tables, and a way to die at a chosen step.

Started with its settings as JSON in the variable ``ENGINE_WORKER``. Source ``a`` counts records per key,
ignores repeated numbers and dead-letters poison; source ``b`` also deletes rows. Every output carries the
row after it, so a lost, doubled or reordered step shows.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from streams.engine import App, Batch, EngineConfig, Output, PermanentError, SourcePosition
from streams.engine.restore import Restorer
from streams.engine.unit import Unit

ROW = struct.Struct("<qqI")  # last number, count, rolling CRC
OUT = struct.Struct("<BqqI")  # source, number, count, CRC
POISON, DELETE = b"!", b"D"


class Letters:
    def __init__(self, topic: str) -> None:
        self.topic = topic

    def make(self, record: Message, error: Exception, attempt: int, position: SourcePosition) -> Output:
        return Output(self.topic, record.value(), record.key(), headers=(("error", repr(error).encode()),))


def failpoint(settings: dict[str, Any]) -> Callable[[str], None]:
    """Kill or hang this process the n-th time it passes a step; a hang first makes the file ``mark``."""
    die, hang, slow = settings.get("die"), settings.get("hang"), settings.get("slow", {})
    passed: Counter[str] = Counter()

    def at(name: str) -> None:
        passed[name] += 1
        if name in slow:
            time.sleep(slow[name])
        if die and name == die["at"] and passed[name] == die["after"]:
            os.kill(os.getpid(), signal.SIGKILL)
        if hang and name == hang["at"] and passed[name] == hang["after"]:
            if "mark" in hang:
                Path(hang["mark"]).touch()
            time.sleep(hang.get("seconds", 3600))

    return at


def mutate(name: str | None) -> None:
    """Break the engine on purpose, to prove that the oracle sees it."""
    if name == "store_before_commit":
        commit = Unit.commit

        def store_first(unit: Unit, batch: Batch) -> float:
            rows = [
                (overlay.prefix + key, value)
                for overlay in batch.overlays.values()
                for key, value in overlay.writes.items()
            ]
            assert unit.store.state is not None
            unit.store.load(rows, unit.store.state)
            return commit(unit, batch)

        Unit.commit = store_first  # type: ignore[method-assign, assignment]
    elif name == "no_guard":
        Restorer._wait_decided = lambda *_: None  # type: ignore[method-assign]


def sender(mutant: str | None) -> Callable[..., None]:
    """How agents send; a mutant repeats every 200th output."""
    sent = 0

    def send(batch: Batch, *output: Any) -> None:
        nonlocal sent
        sent += 1
        batch.send(*output)
        if mutant == "repeat_output" and sent % 200 == 0:
            batch.send(*output)

    return send


def make_app(settings: dict[str, Any]) -> App:
    config = EngineConfig(
        bootstrap=settings["bootstrap"],
        group=settings["group"],
        state_dir=Path(settings["state_dir"]),
        dead_letter=Letters(settings["dead"]),
        failpoint=failpoint(settings),
        **settings.get("config", {}),
    )
    app = App(config)
    progress, items = app.Table("progress"), app.Table("items")
    out = settings["out"]
    fail_at, return_at = settings.get("agent_raises_at"), settings.get("agent_returns_at")
    nap, send = settings.get("agent_sleeps", 0.0), sender(settings.get("mutant"))

    counted = itertools.count(1)

    @app.agent(app.source(settings["a"]), outputs=[out])
    async def on_a(stream: Any) -> None:
        async for batch in stream:
            await asyncio.sleep(nap)
            for record in batch.records:
                seen = next(counted)
                if seen == fail_at:
                    raise RuntimeError("agent bug")
                if seen == return_at:
                    return
                with batch.guard(record):
                    key, value = record.key(), record.value()
                    number = int.from_bytes(value[:8], "little")
                    if value[8:9] == POISON:
                        progress[key] = b"must be undone"
                        batch.send(out, b"must be undone", key, batch.partition)
                        raise PermanentError("poison")
                    last, count, crc = ROW.unpack(progress.get(key) or ROW.pack(-1, 0, 0))
                    if number <= last:
                        continue
                    crc = zlib.crc32(value, crc)
                    progress[key] = ROW.pack(number, count + 1, crc)
                    send(batch, out, OUT.pack(0, number, count + 1, crc), key, batch.partition)

    @app.agent(app.source(settings["b"]), outputs=[out])
    async def on_b(stream: Any) -> None:
        async for batch in stream:
            await asyncio.sleep(nap)
            for record in batch:
                key, value = record.key(), record.value()
                number = int.from_bytes(value[:8], "little")
                if value[8:9] == DELETE:
                    known = key in items
                    del items[key]
                    send(batch, out, OUT.pack(1, number, -1 if known else -2, 0), key, batch.partition)
                    continue
                _, count, crc = ROW.unpack(items.get(key) or ROW.pack(-1, 0, 0))
                crc = zlib.crc32(value, crc)
                items[key] = ROW.pack(number, count + 1, crc)
                send(batch, out, OUT.pack(1, number, count + 1, crc), key, batch.partition)

    return app


if __name__ == "__main__":
    given = json.loads(os.environ["ENGINE_WORKER"])
    mutate(given.get("mutant"))
    make_app(given).run(loglevel="INFO")
