"""One process of several counting apps. Settings as JSON in ``TOGETHER_WORKER``.

Each app counts the records of its source per key, in a table, and sends the count. A batch of the partition
named by ``waits`` ("app/partition") waits until the file ``gate`` exists.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path
from typing import Any

from streams.engine import App, EngineConfig, run_together


def make_app(settings: dict[str, Any], name: str) -> App:
    group = f"{settings['prefix']}-{name}"
    app = App(
        EngineConfig(
            bootstrap=settings["bootstrap"],
            group=group,
            state_dir=Path(settings["state_dir"]) / name,
            max_batch=50,
            max_buffered=settings.get("max_buffered", 1000),
            session_timeout=6.0,
            instance_id="one",
        )
    )
    counts = app.Table("counts")

    @app.agent(app.source(f"{group}-source"), outputs=[f"{group}-out"])
    async def counting(stream: Any) -> None:
        async for batch in stream:
            while settings.get("waits") == f"{name}/{batch.partition}" and not Path(settings["gate"]).exists():
                batch.keep_alive()
                await asyncio.sleep(0.02)
            for record in batch:
                if record.value() == settings.get("raises_at", "").encode():
                    raise RuntimeError(f"a bug of app {name}")
                key = record.key()
                counts[key] = b"%d" % (int(counts.get(key) or b"0") + 1)
                batch.send(f"{group}-out", counts[key], key, batch.partition)

    return app


if __name__ == "__main__":
    given = json.loads(os.environ["TOGETHER_WORKER"])
    logging.basicConfig(level="INFO")
    run_together([make_app(given, name) for name in given["apps"]])
