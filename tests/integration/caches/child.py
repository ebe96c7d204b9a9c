"""A keeper as a process, for tests that kill it: python -m tests.integration.caches.child QUARANTINE_S OPEN_MS"""

from __future__ import annotations

import sys
import threading

from streams.effects.cache.keeper import Keeper
from streams.runtime import failpoints
from streams.runtime.cache import url_of
from streams.runtime.contract import Contract
from streams.runtime.settings import Settings


def main() -> None:
    settings = Settings.load()
    url = url_of(settings)
    assert url is not None
    keeper = Keeper(
        settings,
        url,
        Contract.of(settings),
        failpoint=failpoints.armed(settings.failpoints),
        quarantine_s=float(sys.argv[1]),
        open_ms=int(sys.argv[2]),
    )
    keeper.run(threading.Event())


if __name__ == "__main__":
    main()
