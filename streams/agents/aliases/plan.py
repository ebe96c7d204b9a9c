"""What the codec of the rows is made from: the pinned schema, and the class the agent knows.

No limits: what is in a row came through the contract, and only the playback agent writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from schemas.codec.plan import Coded, Plan

VERSION = 1
ROW = "MediaAlias"


@dataclass(frozen=True, slots=True)
class MediaAlias:
    """What is known of one media: it ended and ``survivor`` stays, or ``merged`` ended and it stays itself.

    Never both: paths are followed when a merge is kept, so every survivor is the last one. ``merged`` ascends.
    """

    survivor: str | None = None
    merged: tuple[str, ...] = ()


PLAN = Plan(
    package="streams.agents.aliases",
    coded=(
        Coded(
            name=ROW,
            writers={VERSION: files("streams.agents.aliases").joinpath(f"{ROW}.v{VERSION}.avsc").read_text("utf-8")},
            writes=VERSION,
            classes={ROW: MediaAlias},
        ),
    ),
    limits=None,
)
