"""What the codec of the rows is made from: the pinned schema, and the class the agent knows."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from schemas.codec.plan import Coded, Plan

VERSION = 1
ROW = "Forgotten"


@dataclass(frozen=True, slots=True)
class Forgotten:
    """``logged_at``: log-append time of what asked for it, epoch ms."""

    logged_at: int


PLAN = Plan(
    package="streams.agents.forgotten",
    coded=(
        Coded(
            name=ROW,
            writers={VERSION: files("streams.agents.forgotten").joinpath(f"{ROW}.v{VERSION}.avsc").read_text("utf-8")},
            writes=VERSION,
            classes={ROW: Forgotten},
        ),
    ),
    limits=None,
)
