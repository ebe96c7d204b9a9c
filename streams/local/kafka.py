"""Apache Kafka in KRaft combined mode: broker and controller in one Java process, on loopback only."""

from __future__ import annotations

import base64
import shutil
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from streams.local.errors import BootFailedError, PortTakenError
from streams.local.java import java_executable, jvm_options
from streams.local.ports import LOOPBACK, becomes_free
from streams.local.service import Command, Service

HEAP_MIB = 512
FORMAT_TIMEOUT_S = 120.0
ANSWER_TIMEOUT_S = 2.0
# dead.letters holds records of 1 MiB with the original bytes inside: room for headers and batch overhead.
MESSAGE_MAX_BYTES = 2 << 20
INTERNAL_TOPIC_PARTITIONS = 12
SESSION_TIMEOUT_MS = 3_000
FOREVER_MINUTES = 10 * 365 * 24 * 60

LOG4J2 = """\
status = warn
name = playhead
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
logger.coordinator.name = org.apache.kafka.coordinator
logger.coordinator.level = warn
logger.log.name = org.apache.kafka.storage.internals.log
logger.log.level = warn
logger.config.name = org.apache.kafka.common.config
logger.config.level = warn
logger.state.name = state.change.logger
logger.state.level = warn
"""


@dataclass(frozen=True, slots=True)
class Voter:
    """One member of the controller quorum. `directory_id` names its data folder, in Kafka's text form of an id."""

    node_id: int
    controller_port: int
    directory_id: str


@dataclass(frozen=True, slots=True)
class Quorum:
    """Who decides in a cluster of several nodes. The same object for each of them, for life."""

    cluster_id: str
    voters: tuple[Voter, ...]


class KafkaBroker(Service):
    """One node of a cluster, without a `quorum` its only one.

    A single broker has no replica that could answer for it, and acknowledges records that are only in the page
    cache. Whoever creates topics on it sets `topic_defaults` on event topics, so that an acknowledged record is
    on the disk. Clusters of several are made by kafka_cluster.py.
    """

    name = "kafka"
    single_broker = True
    topic_defaults: Mapping[str, str] = {"flush.messages": "1"}

    def __init__(
        self,
        folder: Path,
        logs: Path,
        *,
        port: int,
        controller_port: int,
        jars: Callable[[], Path],
        node_id: int = 1,
        replication: int = 1,
        quorum: Quorum | None = None,
        heap_mib: int = HEAP_MIB,
        lasting: bool = False,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        """`jars` gives a verified folder of the cache at every start.

        `lasting` see jvm_options. `overrides` are server properties that win over ours. A node of a `quorum` is one of
        its voters.
        """
        super().__init__(folder, logs, port)
        self.controller_port = controller_port
        self.node_id = node_id
        self._jars = jars
        self._replication = replication
        self._quorum = quorum
        self._heap_mib = heap_mib
        self._lasting = lasting
        self._overrides = dict(overrides or {})

    @property
    def bootstrap(self) -> str:
        """Address for clients."""
        return f"{LOOPBACK}:{self.port}"

    def prepare(self) -> Command:
        """Write the configuration (it may have changed) and format the data folder once."""
        jars = self._jars()
        if not becomes_free(self.controller_port):
            raise PortTakenError(f"{self.name} (controller)", self.controller_port)
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{key}={_escape(value)}\n" for key, value in self.properties().items()), "utf-8")
        (self.folder / "log4j2.properties").write_text(LOG4J2, "utf-8")
        formatted = self.folder / "formatted"
        if not formatted.exists():
            # Without the mark the broker never ran on this folder: at most a half-done format lies here.
            shutil.rmtree(self._data, ignore_errors=True)
            arguments = ("format", "--config", str(properties), *self._identity())
            if self._java(jars, "kafka.tools.StorageTool", *arguments).run(self.log, FORMAT_TIMEOUT_S) != 0:
                raise BootFailedError(self.name, "its data folder could not be formatted", self.log)
            self._data.chmod(0o700)
            formatted.touch()
        return self._java(jars, "kafka.Kafka", str(properties))

    def answers(self) -> bool:
        """Whether the broker is registered with the controller and tells clients so."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            return self.node_id in admin.list_topics(timeout=ANSWER_TIMEOUT_S).brokers
        except KafkaException:
            return False

    def properties(self) -> dict[str, str]:
        """The server's configuration."""
        listener, controller = f"{LOOPBACK}:{self.port}", f"{LOOPBACK}:{self.controller_port}"
        copies = str(self._replication)
        in_sync = str(max(1, self._replication - 1))
        return {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "controller.quorum.bootstrap.servers": ",".join(
                f"{LOOPBACK}:{voter.controller_port}" for voter in self._quorum.voters
            )
            if self._quorum
            else controller,
            "listeners": f"BROKER://{listener},CONTROLLER://{controller}",
            "advertised.listeners": f"BROKER://{listener},CONTROLLER://{controller}",
            "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "BROKER",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self._data),
            # The topic catalogue creates topics; a typing error must not.
            "auto.create.topics.enable": "false",
            "default.replication.factor": copies,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": str(INTERNAL_TOPIC_PARTITIONS),
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": in_sync,
            "transaction.state.log.num.partitions": str(INTERNAL_TOPIC_PARTITIONS),
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": in_sync,
            "share.coordinator.state.topic.num.partitions": str(INTERNAL_TOPIC_PARTITIONS),
            "group.initial.rebalance.delay.ms": "0",
            "message.max.bytes": str(MESSAGE_MAX_BYTES),
            # History is kept: topics that may lose records say so themselves.
            "log.retention.ms": "-1",
            "log.retention.bytes": "-1",
            "offsets.retention.minutes": str(FOREVER_MINUTES),
            # A killed broker may register again when its old session is over; the default of 9 s is its boot time.
            "broker.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "broker.heartbeat.interval.ms": str(SESSION_TIMEOUT_MS // 6),
            "num.network.threads": "2",
            "num.io.threads": "4",
            "log.cleaner.dedupe.buffer.size": str(32 << 20),
            **self._overrides,
        }

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _identity(self) -> tuple[str, ...]:
        """Which cluster the data folder is formatted for."""
        if self._quorum is None:
            return ("--cluster-id", random_id(), "--standalone")
        voters = ",".join(f"{v.node_id}@{LOOPBACK}:{v.controller_port}:{v.directory_id}" for v in self._quorum.voters)
        return ("--cluster-id", self._quorum.cluster_id, "--initial-controllers", voters)

    def _java(self, jars: Path, main_class: str, *arguments: str) -> Command:
        options = [
            *jvm_options(self._heap_mib, self.log.parent, lasting=self._lasting),
            f"-Dlog4j2.configurationFile={(self.folder / 'log4j2.properties').as_uri()}",
        ]
        return Command(
            # The class path is relative to the working folder: a colon in the cache's path would split it.
            [str(java_executable()), *options, "-cp", "*", main_class, *arguments],
            folder=jars,
        )


def random_id() -> str:
    """Return a new id as Kafka makes them: 16 random bytes, URL-safe, without a leading dash (an option's)."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def _escape(value: str) -> str:
    # java.util.Properties reads Latin-1: anything else is written as UTF-16 code units. Backslashes escape, and a
    # leading blank would be cut off.
    escaped = value.replace("\\", "\\\\")
    escaped = "".join(c if c.isascii() else _utf16_escapes(c) for c in escaped)
    return "\\" + escaped if escaped[:1] == " " else escaped


def _utf16_escapes(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
