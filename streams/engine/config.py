"""Everything that can be set, in one frozen object, and the Kafka client settings made of it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .errors import Refused
from .ports import DeadLetterPort, Failpoint, MetricsPort, NoMetrics, no_failpoint

NAME = re.compile(r"[A-Za-z0-9._-]+")

#: Settings that carry the guarantee. ``client`` may add security and tuning, never these.
PROTECTED = frozenset(
    {
        "auto.offset.reset",
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "isolation.level",
        "max.in.flight.requests.per.connection",
        "partition.assignment.strategy",
        "transactional.id",
    }
)

ClientSettings = dict[str, str | int | float | bool]


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """Settings of one app: one consumer group, one transactional id prefix, one state directory.

    All times are seconds. Raises :class:`Refused` when two of them contradict each other.
    """

    bootstrap: str
    group: str
    state_dir: Path
    max_batch: int = 5_000
    """Most records of one transaction. A batch takes what is there, so it is small and immediate at a low
    rate and large, which is cheaper per record, under load. Here and below records of more than 4 KiB, in the mean,
    count as so many of 4 KiB: a limit on records is one on memory too."""
    max_buffered: int = 60_000
    """Records fetched and not delivered, over all units; beyond it nothing is fetched."""
    cache_bytes: int = 192 * 1024 * 1024
    """Rows kept in memory, estimated, over all units of this process."""
    flush_interval: float = 15.0
    """How long committed rows may be in memory only. What a crash loses of them is replayed from the changelog, at
    twice the speed at which it was written; whoever else is given the partition has to replay all of it anyway."""
    batch_bytes: int = 1_000_000
    """Most bytes of records sent to a partition as one; a larger record travels alone. What is written to has to allow
    it (``max.message.bytes``, by default 1,048,588). Small ones are dear: librdkafka turns in circles as long as
    something is left to be sent and it waits for an answer."""
    linger: float = 0.0
    """Wait so long for more records before a batch smaller than ``max_batch``: less CPU, more latency."""
    poll_wait: float = 0.5
    """Longest idle poll. A record ends it at once."""
    session_timeout: float = 6.0
    """A killed worker's partitions are given to others after this. Brokers allow no less by default."""
    instance_id: str | None = None
    """Static membership: no rebalance when a worker is back within the session timeout, but also
    no take-over before it, as a static member does not leave the group when it stops."""
    transaction_timeout: float = 15.0
    operation_timeout: float = 45.0
    """Retry budget of one call to Kafka."""
    commit_timeout: float = 30.0
    """A commit that takes longer ends the process (exit 70): librdkafka was seen not to return."""
    batch_timeout: float = 60.0
    """An agent must come back for the next batch within this."""
    quiesce_timeout: float = 20.0
    """On revoke and stop: how long a started batch may take to finish."""
    hanging_timeout: float = 30.0
    """The last stable offset must reach the end or move within it. Above the transaction timeout and the 10 s that
    a coordinator takes to notice (``transaction.abort.timed.out.transaction.cleanup.interval.ms``)."""
    repair_command: str = "python -m streams.engine.repair"
    """What a refusal over a hanging transaction tells the operator to run."""
    max_attempts: int = 5
    """Deliveries of one batch, then the worker ends."""
    state_max_age: float = 20 * 3600.0
    """Older local state is rebuilt. Below ``delete.retention.ms`` (24 h) of the changelogs: deletions
    that were compacted away would never reach an older copy."""
    flood_run: int = 100
    flood_share: float = 0.10
    flood_window: int = 1_000
    """``flood_run`` dead letters in a row, or ``flood_share`` of the last ``flood_window`` records."""
    trust_group_offsets: bool = False
    """Accept a changelog that does not confirm the group's offsets. Only after reading the refusal."""
    permanent_errors: tuple[type[Exception], ...] = ()
    """Error types of the program around, treated like :class:`PermanentError`."""
    client: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """More librdkafka settings for every client, for example security."""
    dead_letter: DeadLetterPort | None = None
    metrics: MetricsPort = field(default_factory=NoMetrics)
    failpoint: Failpoint = no_failpoint
    now: Callable[[], float] = time.time
    """Wall clock, only for the age of local state."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.group):
            raise Refused(f"group {self.group!r}: letters, digits, dot, dash and underscore only")
        if not self.bootstrap:
            raise Refused("bootstrap: no broker address")
        if taken := PROTECTED & self.client.keys():
            raise Refused(f"client settings {sorted(taken)} are the engine's own")
        if self.max_batch < 1 or self.max_buffered < self.max_batch or self.max_attempts < 1:
            raise Refused("max_attempts and max_batch must be positive, max_buffered at least max_batch")
        if self.batch_bytes < 1:
            raise Refused("batch_bytes must be positive")
        if self.hanging_timeout <= self.transaction_timeout:
            raise Refused(
                "hanging_timeout must exceed transaction_timeout: an open transaction of a "
                "killed worker would look like a hanging one"
            )
        if not 0 < self.flood_share <= 1 or self.flood_run < 1 or self.flood_window < 1:
            raise Refused("flood limits must be positive, flood_share at most 1")

    def common(self) -> ClientSettings:
        """Return the settings of every client."""
        return {"bootstrap.servers": self.bootstrap, **self.client}

    def asking(self) -> ClientSettings:
        """Return the settings of a client that asks partition leaders.

        It is to look again who they are: to an admin client that knows an older leader epoch, ListOffsets fails with
        FENCED_LEADER_EPOCH until its metadata are due, five minutes by default (librdkafka issue 4620; seen here
        after every time a broker was frozen or killed).
        """
        return {"topic.metadata.refresh.interval.ms": 2_000, **self.common()}

    def source_consumer(self) -> ClientSettings:
        """Return the settings of the group's consumer.

        ``range`` gives a worker the same partition number of every topic. A missing or impossible
        offset is an error, never a reset.
        """
        settings: ClientSettings = {
            "group.id": self.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "partition.assignment.strategy": "range",
            "session.timeout.ms": int(self.session_timeout * 1000),
            "heartbeat.interval.ms": max(100, int(self.session_timeout * 250)),
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 50,
            "queued.min.messages": 50_000,
            "queued.max.messages.kbytes": 32_768,
            # How long a partition is left alone whose queue was full a moment ago: by default a second, in which a
            # fast agent is done with it (seen: 37,000 records a second and never more, with half of the CPU idle).
            "fetch.queue.backoff.ms": 10,
        }
        if self.instance_id is not None:
            settings["group.instance.id"] = self.instance_id
        return settings | self.common()

    def restore_consumer(self) -> ClientSettings:
        """Return the settings of the changelog reader. It is never a member of a group."""
        settings: ClientSettings = {
            "group.id": self.group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
            "queued.max.messages.kbytes": 16_384,
        }
        return settings | self.common()

    def producer(self, partition: int) -> ClientSettings:
        """Return the settings of the transactional producer of one unit.

        ``retry.backoff.ms``: a transaction begun while the last one's markers are being written is
        told to wait; librdkafka's default of 100 ms would then be the commit latency.
        """
        settings: ClientSettings = {
            "transactional.id": f"{self.group}-{partition}",
            "transaction.timeout.ms": int(self.transaction_timeout * 1000),
            "linger.ms": 5,
            "compression.type": "lz4",
            "partitioner": "murmur2_random",
            "retry.backoff.ms": 10,
            "queue.buffering.max.messages": 1_000_000,
            # With more, a new partition was seen to lose records it acknowledged: its first batch fails (no
            # leader yet), the second is taken as the producer's beginning, and the first, sent again, then
            # counts as a duplicate.
            "max.in.flight.requests.per.connection": 1,
            # A topic's max.message.bytes holds for a whole batch of records.
            "batch.size": self.batch_bytes,
        }
        return settings | self.common()
