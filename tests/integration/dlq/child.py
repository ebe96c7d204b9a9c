"""A redrive as a process of its own, for tests that kill it.

python -m tests.integration.dlq.child LETTERS_TOPIC [DECIDED_TOPIC]
"""

from __future__ import annotations

import sys

from projections.dlq.desk import Chosen, Desk
from streams.runtime import failpoints
from streams.runtime.settings import Settings
from tests.integration.dlq.office import OPERATOR, letters_topic, redriver_of
from tests.integration.projections.world import decided_topic, projection_of


def main() -> None:
    settings = Settings.load()
    letters, decided = sys.argv[1], sys.argv[2]
    projections = [projection_of(decided_topic(decided))] if decided else []
    with Desk(settings.postgres.conninfo("projector"), OPERATOR) as desk:
        redriver = redriver_of(
            settings, desk, letters_topic(letters), projections, failpoints.armed(settings.failpoints)
        )
        redriver.redrive(Chosen(limit=10_000), "mended")


if __name__ == "__main__":
    main()
