"""What a transaction wrote and where, said by itself in a header of the last record of each of its changelogs.

    transaction-parts = <mark>/<first>/<topic>:<partition>:<records>,...

ASCII. ``mark``: the source offset that its own source mark replaces, empty when there was none. ``first``: the offset
of its first source record. Then how many records it has in each partition, its changelogs included; a partition of -1
is one that the producer chose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

TRANSACTION_PARTS = "transaction-parts"


@dataclass(frozen=True, slots=True)
class Parts:
    """``counts`` are by (topic, partition)."""

    mark: int | None
    first: int
    counts: Mapping[tuple[str, int], int]

    def header(self) -> tuple[str, bytes]:
        """Return the Kafka header. Topic names contain no colon, comma or slash."""
        mark = "" if self.mark is None else self.mark
        counts = ",".join(f"{topic}:{partition}:{count}" for (topic, partition), count in self.counts.items())
        return TRANSACTION_PARTS, f"{mark}/{self.first}/{counts}".encode("ascii")

    @classmethod
    def from_headers(cls, headers: Iterable[tuple[str, object]] | None) -> Parts | None:
        """Return what a record says, ``None`` when it says nothing. Raises ValueError when it is malformed."""
        for name, value in headers or ():
            if name == TRANSACTION_PARTS:
                if not isinstance(value, bytes):
                    raise ValueError(f"not the parts of a transaction: {value!r}")
                return cls._parse(value)
        return None

    @classmethod
    def _parse(cls, value: bytes) -> Parts:
        try:
            mark, first, counts = value.decode("ascii").split("/")
            found: dict[tuple[str, int], int] = {}
            for part in counts.split(","):
                topic, partition, count = part.split(":")
                found[topic, int(partition)] = int(count)
            return cls(int(mark) if mark else None, int(first), found)
        except ValueError as error:
            raise ValueError(f"not the parts of a transaction: {value!r}") from error
