"""A projection or a relay as a process of its own, for tests that kill it.

python -m tests.integration.projections.child projection TOPIC GROUP
python -m tests.integration.projections.child relay
"""

from __future__ import annotations

import sys
import threading

from projections.relay import Relay
from projections.runner import Runner
from streams.runtime import failpoints
from streams.runtime.contract import Contract
from streams.runtime.settings import Settings
from tests.integration.projections.world import decided_topic, projection_of


def main() -> None:
    settings = Settings.load()
    contract, failpoint = Contract.of(settings), failpoints.armed(settings.failpoints)
    never = threading.Event()
    match sys.argv[1:]:
        case ["projection", topic, group]:
            Runner(projection_of(decided_topic(topic)), settings, contract, failpoint=failpoint, group=group).run(never)
        case ["relay"]:
            Relay(settings, contract, failpoint=failpoint).run(never)
        case _:
            raise SystemExit("usage: see the module")


if __name__ == "__main__":
    main()
