"""What a changelog holds besides table rows: how far the source was read when they were written.

A changelog record is the last value of a table key in one transaction, ``None`` when it was deleted.
One key per source topic is reserved: it holds the source offset of the same transaction. Group
offsets expire, a changelog does not, so an app that was away for weeks resumes from here; and as both
move in one transaction they must agree, which tells a reset group or a lost changelog apart from a
restart. Only the changelog of the first table has it, so it also names those of all tables: one that is
recreated, and empty, would be taken for a table without rows. Which table is the first changes with the tables, so
older marks may lie in other changelogs, also of tables that are no longer declared (:mod:`.former`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RESERVED = b"\0source\0"
#: The changelog of an app without tables: it holds nothing but source offsets.
POSITIONS = "positions"


@dataclass(frozen=True, slots=True)
class SourceMark:
    """Everything before ``offset`` of this partition is applied.

    ``partitions`` is the topic's count then: keys would move if it changed. ``changelogs`` are the tables of the app
    then, by name, each with the topic id of its changelog; nothing is known of them when it is empty. ``epoch`` counts
    how often an operator has set the source back: of two marks the one with the higher epoch is newer, whatever their
    offsets are.
    """

    topic_id: str
    offset: int
    partitions: int
    changelogs: tuple[tuple[str, str], ...] = ()
    epoch: int = 0

    def encode(self) -> bytes:
        tables = ",".join(f"{table}={topic_id}" for table, topic_id in self.changelogs)
        epoch = f"/{self.epoch}" if self.epoch else ""
        return f"{self.topic_id}/{self.offset}/{self.partitions}/{tables}{epoch}".encode("ascii")

    @classmethod
    def decode(cls, value: bytes) -> SourceMark:
        """Raises ValueError when ``value`` is not one."""
        topic_id, offset, more = value.decode("ascii").split("/", 2)
        partitions, _, more = more.partition("/")
        tables, _, epoch = more.partition("/")
        named = [pair.split("=") for pair in tables.split(",") if pair]
        return cls(
            topic_id, int(offset), int(partitions), tuple((table, found) for table, found in named), int(epoch or 0)
        )


def newest_marks(known: Mapping[str, SourceMark], found: Mapping[str, SourceMark]) -> dict[str, SourceMark]:
    """Merge marks, by source topic, in whatever order and from whichever changelogs they were read."""
    merged = dict(known)
    for topic, mark in found.items():
        old = merged.get(topic)
        if old is None or old.topic_id != mark.topic_id or (old.epoch, old.offset) <= (mark.epoch, mark.offset):
            merged[topic] = mark
    return merged


def changelog_name(group: str, table: str) -> str:
    """Return the changelog topic of a table."""
    return f"{group}-{table}-changelog"


def table_of(group: str, changelog: str) -> str:
    """Return the table of a changelog topic."""
    return changelog.removeprefix(f"{group}-").removesuffix("-changelog")


def source_key(topic: str) -> bytes:
    """Return the reserved key of a source topic."""
    return RESERVED + topic.encode("ascii")


def source_of(key: bytes) -> str | None:
    """Return the source topic of a reserved key, ``None`` for a key of the table."""
    if not key.startswith(RESERVED):
        return None
    return key[len(RESERVED) :].decode("ascii")
