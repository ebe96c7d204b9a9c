"""What a changelog holds besides table rows: how far the source was read when they were written.

A changelog record is the last value of a table key in one transaction, ``None`` when it was deleted.
One key per source topic is reserved: it holds the source offset of the same transaction. Group
offsets expire, a changelog does not, so an app that was away for weeks resumes from here; and as both
move in one transaction they must agree, which tells a reset group or a lost changelog apart from a
restart.
"""

from __future__ import annotations

from dataclasses import dataclass

RESERVED = b"\0source\0"
#: The changelog of an app without tables: it holds nothing but source offsets.
POSITIONS = "positions"


@dataclass(frozen=True, slots=True)
class SourceMark:
    """Everything before ``offset`` of this partition is applied.

    ``partitions`` is the topic's count then: keys would move if it changed.
    """

    topic_id: str
    offset: int
    partitions: int

    def encode(self) -> bytes:
        return f"{self.topic_id}/{self.offset}/{self.partitions}".encode("ascii")

    @classmethod
    def decode(cls, value: bytes) -> SourceMark:
        """Raises ValueError when ``value`` is not one."""
        topic_id, offset, partitions = value.decode("ascii").split("/")
        return cls(topic_id, int(offset), int(partitions))


def changelog_name(group: str, table: str) -> str:
    """Return the changelog topic of a table."""
    return f"{group}-{table}-changelog"


def source_key(topic: str) -> bytes:
    """Return the reserved key of a source topic."""
    return RESERVED + topic.encode("ascii")


def source_of(key: bytes) -> str | None:
    """Return the source topic of a reserved key, ``None`` for a key of the table."""
    if not key.startswith(RESERVED):
        return None
    return key[len(RESERVED) :].decode("ascii")
