"""A worker that tells servers, as a process of its own, for tests that kill or freeze it."""

from __future__ import annotations

import threading

from streams.effects.wiring import make_worker
from streams.runtime import failpoints
from streams.runtime.contract import Contract
from streams.runtime.settings import Settings


def main() -> None:
    settings = Settings.load()
    failpoint = failpoints.armed(settings.failpoints)
    with make_worker(
        settings,
        Contract.of(settings),
        kinds=["forward"],
        watching=False,
        scheduling=False,
        ttl_s=3.0,
        failpoint=failpoint,
    ) as worker:
        worker.run(threading.Event())


if __name__ == "__main__":
    main()
