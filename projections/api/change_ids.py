"""Where somebody stands in cache.invalidated, as an event id: which log, and the next offset of each partition."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from schemas.topics import CACHE_INVALIDATED

ID_CHARS_MAX = 400
_FORM = re.compile(r"([A-Za-z0-9_-]{1,64}):([0-9]{1,18}(?:,[0-9]{1,18})*)")


@dataclass(frozen=True, slots=True)
class Place:
    """``offsets``: of each partition the first that was not seen yet."""

    topic_id: str
    offsets: Mapping[int, int]

    def __str__(self) -> str:
        return f"{self.topic_id}:{','.join(str(self.offsets[one]) for one in sorted(self.offsets))}"


def read_place(text: str) -> Place | None:
    """What ``Last-Event-ID`` says; None for anything this API has not said."""
    found = _FORM.fullmatch(text) if len(text) <= ID_CHARS_MAX else None
    if found is None:
        return None
    offsets = [int(one) for one in found[2].split(",")]
    if len(offsets) != CACHE_INVALIDATED.partitions:
        return None
    return Place(found[1], dict(enumerate(offsets)))
