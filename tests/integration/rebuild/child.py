"""A rebuild with its switch as a process of its own, for tests that kill it.

python -m tests.integration.rebuild.child TOPIC RECORDS_MAX
"""

from __future__ import annotations

import sys

from projections.rebuild.running import Rebuild
from projections.rebuild.starts import Beginning
from streams.runtime import failpoints
from streams.runtime.contract import Contract
from streams.runtime.settings import Settings
from tests.integration.projections.world import decided_topic, projection_of


def main() -> None:
    topic, records_max = sys.argv[1:]
    settings = Settings.load()
    with Rebuild(
        projection_of(decided_topic(topic)),
        settings,
        Contract.of(settings),
        failpoint=failpoints.armed(settings.failpoints),
        records_max=int(records_max),
    ) as rebuild:
        print("goes on" if rebuild.open(Beginning()) else "begins")
        assert rebuild.catch_up()
        differing = [one for one in rebuild.compare() if not one.equal]
        assert differing == [], differing
        print(f"folded {rebuild.records}, switched to {rebuild.switch(tries=5).model_epoch}")


if __name__ == "__main__":
    main()
