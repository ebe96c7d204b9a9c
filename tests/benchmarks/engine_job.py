"""The bench job, the same for every engine: Avro decode, table get, table set, Avro encode, one output.

A record says that a user watched a media up to a position; the row keeps how many, the last position and total. The
schemas are files in job_schemas/, so that peers in other languages read the same ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from schemas.codec.build import build
from schemas.codec.compiled import Coders, coders
from schemas.codec.plan import Coded, Plan

SCHEMAS = Path(__file__).parent / "job_schemas"


@dataclass(frozen=True, slots=True)
class Watched:
    """One record of the source topic."""

    event_id: str
    user: str
    media: str
    position_ms: int
    duration_ms: int | None
    kind: str
    device: str | None
    at: int


class Progress(NamedTuple):
    """The row of a user and a media, and the output. Made for every record, which a frozen dataclass does slower."""

    reports: int
    position_ms: int
    total_ms: int
    device: str | None
    at: int


def _coded(kind: type[Watched] | type[Progress]) -> Coded:
    text = (SCHEMAS / f"{kind.__name__}.avsc").read_text(encoding="utf-8")
    return Coded(name=kind.__name__, writers={1: text}, writes=1, classes={kind.__name__: kind})


PLAN = Plan(package="tests.benchmarks", coded=(_coded(Progress), _coded(Watched)), limits=None)


def job_coders(*, compiled: bool = True) -> Coders:
    """The codecs of the job: compiled on the first call, or fastavro's."""
    if compiled:
        build(PLAN)
    return coders(PLAN, "compiled" if compiled else "fastavro")


class Job:
    """The job with one implementation of the codec."""

    def __init__(self, *, compiled: bool = True) -> None:
        made = job_coders(compiled=compiled)
        self.encode_watched = made.encode["Watched"]
        self._decode_watched = made.decode["Watched", 1]
        self._encode_row = made.encode["Progress"]
        self._decode_row = made.decode["Progress", 1]

    def step(self, value: bytes, row: bytes | None) -> bytes:
        """Return the row after ``value``; it is also the output."""
        event: Watched = self._decode_watched(value, 0)
        position = event.position_ms
        if row is None:
            return self._encode_row(Progress(1, position, position, event.device, event.at), b"")
        old: Progress = self._decode_row(row, 0)
        moved = abs(position - old.position_ms)
        return self._encode_row(Progress(old.reports + 1, position, old.total_ms + moved, event.device, event.at), b"")


def records(count: int, keys: int, seed: int = 1) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value)."""
    chance = random.Random(seed)
    kinds = ["start", "progress", "stop"]
    encode = Job().encode_watched
    for index in range(count):
        number = chance.randrange(keys)
        user, media = f"user-{number % 997:05d}", f"media-{number:07d}"
        watched = Watched(
            event_id=f"{index:016x}", user=user, media=media, position_ms=chance.randrange(7_200_000),
            duration_ms=7_200_000, kind=kinds[index % 3], device=f"device-{number % 5}",
            at=1_700_000_000_000 + index,
        )  # fmt: skip
        yield f"{user}:{media}".encode(), encode(watched, b"")
