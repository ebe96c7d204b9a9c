"""The topic catalogue: the one place that names a topic.

Each entry says what its records are keyed and placed by, which event they hold, how long they are kept, how
large one may be, whether personal data can be inside, and who writes and reads it. Partition counts are fixed
for life; growing is a replay into new topics.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from schemas.placement import PARTITIONS

KIB = 1024
MIB = 1024 * KIB
DAY_MS = 24 * 60 * 60 * 1000
FOREVER_MS = -1

SOURCE_RECORD_BYTES_MAX = 256 * KIB
DEAD_LETTER_BYTES_MAX = 1 * MIB


class Placement(StrEnum):
    """What decides a record's partition."""

    USER = "murmur2(user_ref), the part of the key before ':'"
    KEY = "murmur2(key)"
    INPUT = "the partition of the record that caused it"
    EVERY = "every partition has a copy"


class Cleanup(StrEnum):
    DELETE = "delete"
    COMPACT = "compact"


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: ``holds`` names its events, ``retention_ms`` is FOREVER_MS for history, ``bytes_max`` limits one
    record batch."""

    name: str
    holds: tuple[str, ...]
    key: str
    placement: Placement
    cleanup: Cleanup
    retention_ms: int
    bytes_max: int
    personal_data: bool
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    partitions: int = PARTITIONS

    def config(self, *, single_broker: bool) -> dict[str, str]:
        """Topic settings as Kafka takes them.

        On a single broker an acknowledged record is only as safe as the disk, so every message is flushed.
        Event topics use log-append time: a device's clock must not decide retention.
        """
        settings = {
            "cleanup.policy": self.cleanup.value,
            "max.message.bytes": str(self.bytes_max),
            "message.timestamp.type": "LogAppendTime",
        }
        if self.cleanup is Cleanup.DELETE:
            settings["retention.ms"] = str(self.retention_ms)
            settings["retention.bytes"] = "-1"
        settings |= {"flush.messages": "1"} if single_broker else {"min.insync.replicas": "2"}
        return settings


PLAYBACK_REPORTED = Topic(
    name="playback.reported",
    holds=("PlaybackReported", "UserForgotten"),
    key="user_ref:media_id; user_ref of UserForgotten",
    placement=Placement.USER,
    cleanup=Cleanup.DELETE,
    retention_ms=FOREVER_MS,
    bytes_max=SOURCE_RECORD_BYTES_MAX,
    personal_data=False,
    producers=("ingest", "forget"),
    consumers=("playback agent",),
)
PLAYBACK_DECIDED = Topic(
    name="playback.decided",
    holds=("PlaybackDecided", "UserForgotten"),
    key="user_ref:media_id; user_ref of UserForgotten",
    placement=Placement.USER,
    cleanup=Cleanup.DELETE,
    retention_ms=FOREVER_MS,
    bytes_max=SOURCE_RECORD_BYTES_MAX,
    personal_data=False,
    producers=("playback agent",),
    consumers=("playback projection",),
)
LIBRARY_COMMANDS = Topic(
    name="library.commands",
    holds=(
        "ScanRequested",
        "ScanConfirmed",
        "ScanCancelled",
        "MetadataRefreshRequested",
        "ReconcileRequested",
        "ItemStatusRequested",
    ),
    key="source_id",
    placement=Placement.KEY,
    cleanup=Cleanup.DELETE,
    retention_ms=30 * DAY_MS,
    bytes_max=SOURCE_RECORD_BYTES_MAX,
    personal_data=False,
    producers=("serve", "scan", "work"),
    consumers=("library agent", "task projection"),
)
LIBRARY_OBSERVED = Topic(
    name="library.observed",
    holds=(
        "ScanStarted",
        "ItemObserved",
        "PathSkipped",
        "ScanListed",
        "ScanFailed",
        "ItemRemovalObserved",
        "FinalizeContinued",
    ),
    key="source_id",
    placement=Placement.KEY,
    cleanup=Cleanup.DELETE,
    retention_ms=30 * DAY_MS,
    bytes_max=SOURCE_RECORD_BYTES_MAX,
    personal_data=False,
    producers=("work", "ingest", "library agent"),
    consumers=("library agent",),
)
LIBRARY_CHANGED = Topic(
    name="library.changed",
    holds=("ItemChanged", "MediaAliased", "MediaMerged", "ScanChanged", "SourceHeld"),
    key="source_id",
    placement=Placement.KEY,
    cleanup=Cleanup.DELETE,
    retention_ms=FOREVER_MS,
    bytes_max=SOURCE_RECORD_BYTES_MAX,
    personal_data=False,
    producers=("library agent",),
    consumers=("library projection",),
)
MEDIA_MERGED = Topic(
    name="media.merged",
    holds=("MediaMerged",),
    key="media_id",
    placement=Placement.EVERY,
    cleanup=Cleanup.DELETE,
    retention_ms=FOREVER_MS,
    bytes_max=SOURCE_RECORD_BYTES_MAX,
    personal_data=False,
    producers=("library agent",),
    consumers=("playback agent",),
)
CACHE_INVALIDATED = Topic(
    name="cache.invalidated",
    holds=("CacheInvalidated",),
    key="cache key",
    placement=Placement.KEY,
    cleanup=Cleanup.DELETE,
    retention_ms=7 * DAY_MS,
    bytes_max=SOURCE_RECORD_BYTES_MAX,
    personal_data=False,
    producers=("relay",),
    consumers=("caches", "devices"),
)
IDENTITY_USERS = Topic(
    name="identity.users",
    holds=(),
    key="keyed hash of (source, upstream user)",
    placement=Placement.KEY,
    cleanup=Cleanup.COMPACT,
    retention_ms=FOREVER_MS,
    bytes_max=SOURCE_RECORD_BYTES_MAX,
    personal_data=False,
    producers=("ingest", "forget"),
    consumers=("ingest", "forget"),
)
DEAD_LETTERS = Topic(
    name="dead.letters",
    holds=("DeadLetter",),
    key="topic:partition",
    placement=Placement.KEY,
    cleanup=Cleanup.DELETE,
    retention_ms=90 * DAY_MS,
    bytes_max=DEAD_LETTER_BYTES_MAX,
    personal_data=True,
    producers=(
        "playback agent",
        "library agent",
        "playback projection",
        "library projection",
        "task projection",
        "work",
    ),
    consumers=("dead letter projection", "operators"),
)

TOPICS: tuple[Topic, ...] = (
    PLAYBACK_REPORTED,
    PLAYBACK_DECIDED,
    LIBRARY_COMMANDS,
    LIBRARY_OBSERVED,
    LIBRARY_CHANGED,
    MEDIA_MERGED,
    CACHE_INVALIDATED,
    IDENTITY_USERS,
    DEAD_LETTERS,
)


def topic_of(event: str) -> Topic:
    """The topic that holds records of ``event``, the first when copies lie in another. KeyError when there is none."""
    for topic in TOPICS:
        if event in topic.holds:
            return topic
    raise KeyError(event)
