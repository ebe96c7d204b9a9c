"""Where an output comes from: the position of the record that caused it.

Every output of the engine carries this header, ASCII:

    source-position = <topic>/<topic id>/<partition>/<offset>/<output index>

It is unique per output and the same on every delivery of the record, so a reader that keeps the
positions it has applied drops what it sees twice. Transactions make that rare (an orphaned batch
after broker crashes), they do not make it impossible. The topic id tells a recreated topic apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SOURCE_POSITION = "source-position"


@dataclass(frozen=True, slots=True, order=True)
class SourcePosition:
    """``index`` counts the outputs of one record from 0. Topic names never contain a slash."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    index: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.topic_id}/{self.partition}/{self.offset}/{self.index}"

    def header(self) -> tuple[str, bytes]:
        """Return the Kafka header of this position."""
        return SOURCE_POSITION, str(self).encode("ascii")

    @classmethod
    def parse(cls, text: bytes | str) -> SourcePosition:
        """Read the header's value. Raises ValueError when it is not one."""
        try:
            decoded = text.decode("ascii") if isinstance(text, bytes) else text
            topic, topic_id, partition, offset, index = decoded.split("/")
            position = cls(topic, topic_id, int(partition), int(offset), int(index))
        except ValueError as error:
            raise ValueError(f"not a source position: {text!r}") from error
        if not topic or min(position.partition, position.offset, position.index) < 0:
            raise ValueError(f"not a source position: {text!r}")
        return position

    @classmethod
    def from_headers(cls, headers: Iterable[tuple[str, object]] | None) -> SourcePosition | None:
        """Return the position a record carries, ``None`` when it has none.

        The last header of that name counts (an output forwarded by another engine app has the
        older ones in front). Raises ValueError when it is malformed.
        """
        found: object = None
        for name, value in headers or ():
            if name == SOURCE_POSITION:
                found = value
        if found is None:
            return None
        if not isinstance(found, bytes | str):
            raise ValueError(f"not a source position: {found!r}")
        return cls.parse(found)
