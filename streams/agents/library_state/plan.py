"""What the codec of the rows is made from: the pinned schemas, and the classes of streams/domain/library/rows.py.

Every row has a schema of its own, named as its class; ``TAGS`` says which byte of a row stands for which. No limits:
what is in a row came through the contract, and only the library agent writes it.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from schemas import library
from schemas.codec.plan import Coded, Plan
from streams.domain.library import rows

VERSION = 1

#: A tag, once given, stands for its row for ever.
TAGS: dict[type[Any], int] = {
    rows.Item: 1,
    rows.Sight: 2,
    rows.Named: 3,
    rows.Alias: 4,
    rows.Pending: 5,
    rows.Skip: 6,
    rows.Mark: 7,
    rows.Source: 8,
    rows.Tally: 9,
}

_PARTS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        library.CollectionRef,
        library.ItemDetails,
        library.ProviderId,
        library.ReasonCount,
        rows.Bucket,
        rows.Scan,
    )
}


def _writers(name: str) -> dict[int, str]:
    """The schema of each version."""
    folder = files("streams.agents.library_state")
    return {
        version: folder.joinpath(f"{name}.v{version}.avsc").read_text(encoding="utf-8")
        for version in range(1, VERSION + 1)
    }


PLAN = Plan(
    package="streams.agents.library_state",
    coded=tuple(
        Coded(
            name=kind.__name__,
            writers=_writers(kind.__name__),
            writes=VERSION,
            classes={kind.__name__: kind, **_PARTS},
        )
        for kind in TAGS
    ),
    limits=None,
)
