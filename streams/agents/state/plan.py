"""What the codec of the rows is made from: the pinned schemas, and the classes of streams/domain/state.py.

A record of the schema is the class of the same name there, field by field; only the whole row has another name.
No limits: what is in a row came through the contract, and only this agent writes it.
"""

from __future__ import annotations

import re
from importlib.resources import files

from schemas.codec.plan import Coded, Plan
from streams.domain import state as domain

VERSION = 1
ROW = "PlaybackState"

_FILE = re.compile(rf"^{ROW}\.v(?P<version>[0-9]+)\.avsc$")


def _writers() -> dict[int, str]:
    """The schema of each version."""
    found = ((_FILE.match(entry.name), entry) for entry in files("streams.agents.state").iterdir())
    return {int(match["version"]): entry.read_text(encoding="utf-8") for match, entry in found if match}


PLAN = Plan(
    package="streams.agents.state",
    coded=(
        Coded(
            name=ROW,
            writers=_writers(),
            writes=VERSION,
            classes={
                ROW: domain.State,
                **{
                    kind.__name__: kind
                    for kind in (
                        domain.Conflict,
                        domain.Merged,
                        domain.Order,
                        domain.Pending,
                        domain.Placed,
                        domain.PreviousEpoch,
                        domain.Session,
                    )
                },
            },
        ),
    ),
    limits=None,
)
