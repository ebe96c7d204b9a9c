"""Find hanging transactions in the partitions of an app, and abort them in the order that doubles nothing.

A transaction hangs when a partition's leader has it open and no coordinator will ever decide it: no
transactional id has its producer, or the id's transaction does not contain the partition. This is the rule of
Kafka's own `kafka-transactions.sh find-hanging`, which however looks only at producers that have been silent for 15
minutes (`--max-transaction-timeout`), and so not at one whose producer goes on. Here every coordinator must answer
instead, and the transaction must still be open, from the same offset, after they did; one whose producer no id has
also `hanging_timeout` later, since coordinators do not tell ids that one may not see.

Rights: Read on the topics and on __consumer_offsets, Describe on all transactional ids and on the group; to abort,
Alter or ClusterAction on the cluster.

The order: outputs, changelogs, then the group's partition of __consumer_offsets. As long as that last one hangs,
no worker can read its offsets and begin, so no new transaction can commit what is still undecided.

Why transactions hang: a coordinator of Kafka 4.3 that finds a partition without a leader takes it for deleted,
skips its marker and completes the transaction (tests/faults/orphans). So what hangs may have been committed in its
coordinator's eyes, and the worker may have been told so. Where all of it hangs nothing of it was visible, its offset
hangs with it, and aborting means that its records are read again: but a local copy may hold its rows already and
must be deleted. Where only outputs hang, compare their source positions with the group's offset before aborting:
what lies before it and is not in the output a second time is lost by an abort.

    python -m streams.engine.repair --bootstrap 127.0.0.1:9092 --group counts --output totals \\
        --changelog counts-counts-changelog            # looks; with --abort it aborts

Exit codes: 0 nothing hangs, or it is aborted; 1 something hangs, or a broker did not answer; 78 refused.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, assert_never

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from .config import EngineConfig
from .errors import EXIT_CLEAN, EXIT_CRASH, Crash, EngineError, Refused
from .hanging import OFFSETS_TOPIC, offsets_partition
from .logs import REQUEST_TIMEOUT
from .topics import Needed
from .wire import Open, Partition, Wire, converse

TRANSACTIONS_TOPIC = "__transaction_state"

_MOVING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)

Role = Literal["output", "changelog", "offsets"]


@dataclass(frozen=True, slots=True)
class Hanging:
    """Open for ever: nobody will decide it. ``transactional_id`` is that of its producer, if one has it still."""

    role: Role
    transaction: Open
    transactional_id: str | None

    def __str__(self) -> str:
        open_ = self.transaction
        owner = self.transactional_id or "no transactional id"
        return (
            f"{self.role} {open_.topic}[{open_.partition}] from offset {open_.start_offset}: "
            f"producer {open_.producer_id} epoch {open_.producer_epoch} ({owner})"
        )


@dataclass(frozen=True, slots=True)
class Pending:
    """Open, and its coordinator will end it: at its commit, its abort or its timeout."""

    transaction: Open
    transactional_id: str
    state: str


@dataclass(frozen=True, slots=True)
class Findings:
    """``hanging`` is in the order to abort in."""

    hanging: tuple[Hanging, ...]
    pending: tuple[Pending, ...]

    def commands(self) -> list[str]:
        """The aborts by Kafka's own tool, to be run in this order."""
        return [
            "kafka-transactions.sh --bootstrap-server ... abort "
            f"--topic {h.transaction.topic} --partition {h.transaction.partition} "
            f"--start-offset {h.transaction.start_offset}"
            for h in self.hanging
        ]

    def lines(self, *, aborted: bool) -> list[str]:
        """Say what was found, a line each, and what to do next."""
        lines = [f"{'aborted' if aborted else 'hangs'}: {item}" for item in self.hanging]
        lines += [
            f"open: {p.transaction.topic}[{p.transaction.partition}] from offset {p.transaction.start_offset}: "
            f"{p.transactional_id} is {p.state}, its coordinator ends it by itself"
            for p in self.pending
        ]
        if not self.hanging:
            return [*lines, "nothing hangs"]
        if aborted:
            lines.append(
                "Delete the local state of all workers of this app before they start: it may hold rows of what is "
                "now aborted. It is rebuilt from the changelogs."
            )
        else:
            lines.append("Stop all workers, then abort with --abort, or with Kafka's own tool in this order:")
            lines += [f"  {command}" for command in self.commands()]
            if all(item.role == "output" for item in self.hanging):
                lines.append(
                    "Only outputs hang: first compare their source-position headers with the group's offset. What "
                    "lies before it and is not in the output a second time would be lost by an abort."
                )
        return lines

    def as_json(self) -> dict[str, object]:
        """For machines."""
        return {
            "hanging": [
                asdict(h.transaction) | {"role": h.role, "transactional_id": h.transactional_id} for h in self.hanging
            ],
            "pending": [
                asdict(p.transaction) | {"transactional_id": p.transactional_id, "state": p.state} for p in self.pending
            ],
        }


def find_hanging(config: EngineConfig, needed: Needed) -> Findings:
    """Look at every partition of the app's outputs and changelogs and at the group's of __consumer_offsets.

    Changes nothing; workers may be at work. Raises Crash when a leader or a coordinator does not answer.
    """
    return converse(config, lambda wire: _find(wire, config, needed))


def abort_hanging(config: EngineConfig, needed: Needed) -> Findings:
    """Abort what hangs, in order, and return what was aborted; nothing is changed when nothing hangs.

    Raises Refused while the group has members, Crash when a broker refuses a marker: what was aborted before
    stays aborted, and it may be called again.
    """
    if members := active_members(config):
        raise Refused(
            f"group {config.group} has {members} members: a worker at work could commit what is to be aborted. "
            "Stop all workers of this app first."
        )

    async def talk(wire: Wire) -> Findings:
        findings = await _find(wire, config, needed)
        for item in findings.hanging:
            await wire.abort(item.transaction)
        return findings

    return converse(config, talk)


def active_members(config: EngineConfig) -> int:
    """How many members the group has, joining ones included. Raises Crash when its coordinator does not answer."""
    admin = AdminClient(dict(config.common()))
    deadline = time.monotonic() + REQUEST_TIMEOUT
    while True:
        asked = admin.describe_consumer_groups([config.group], request_timeout=REQUEST_TIMEOUT)
        try:
            found = asked[config.group].result()
            break
        except KafkaException as error:
            reason = error.args[0]
            # A coordinator that has just come up, or is about to move, says that it is none.
            if reason.code() not in _MOVING or time.monotonic() > deadline:
                raise Crash(f"describe group {config.group}: {reason}") from error
            time.sleep(0.2)
    if found.state in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD):
        return 0
    return max(1, len(found.members))


async def _find(wire: Wire, config: EngineConfig, needed: Needed) -> Findings:
    roles = await _partitions(wire, config, needed)
    first = await wire.open_transactions(roles)
    if not first:
        return Findings((), ())
    if silent := [p for p, leader in (await wire.leaders(TRANSACTIONS_TOPIC)).items() if leader < 0]:
        raise Crash(f"{TRANSACTIONS_TOPIC} has no leader for {silent}: what its coordinators know cannot be asked")
    known = {item.producer_id: item for item in await wire.known_transactions(item.producer_id for item in first)}
    if any(item.producer_id not in known for item in first):
        await asyncio.sleep(config.hanging_timeout)
    # One that ended while we asked is open no more: only what is open at both times was never decided.
    still = set(map(_identity, await wire.open_transactions(roles)))
    hanging: list[Hanging] = []
    pending: list[Pending] = []
    for item in first:
        if _identity(item) not in still:
            continue
        owner = known.get(item.producer_id)
        if owner is not None and (item.topic, item.partition) in owner.partitions:
            pending.append(Pending(item, owner.transactional_id, owner.state))
        else:
            name = owner.transactional_id if owner is not None else None
            hanging.append(Hanging(roles[item.topic, item.partition], item, name))
    hanging.sort(key=lambda h: (_rank(h.role), h.transaction.topic, h.transaction.partition))
    return Findings(tuple(hanging), tuple(pending))


async def _partitions(wire: Wire, config: EngineConfig, needed: Needed) -> dict[Partition, Role]:
    found: dict[Partition, Role] = {}
    roles: Sequence[tuple[Role, Sequence[str]]] = (("output", needed.outputs), ("changelog", needed.changelogs))
    for role, topics in roles:
        for topic in topics:
            leaders = await wire.leaders(topic)
            if not leaders:
                raise Refused(f"missing topic: {topic}")
            found |= {(topic, partition): role for partition in leaders}
    if offsets := await wire.leaders(OFFSETS_TOPIC):
        found[OFFSETS_TOPIC, offsets_partition(config.group, len(offsets))] = "offsets"
    return found


def _identity(item: Open) -> tuple[str, int, int, int]:
    return item.topic, item.partition, item.producer_id, item.start_offset


def _rank(role: Role) -> int:
    match role:
        case "output":
            return 0
        case "changelog":
            return 1
        case "offsets":
            return 2
        case _:
            assert_never(role)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line for programs that have none of their own; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m streams.engine.repair", description="Hanging transactions of an app."
    )
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--output", action="append", default=[], help="an output topic; repeat for each")
    parser.add_argument("--changelog", action="append", default=[], help="a changelog topic; repeat for each")
    parser.add_argument("--client", action="append", default=[], metavar="NAME=VALUE", help="a librdkafka setting")
    parser.add_argument("--abort", action="store_true", help="abort what hangs; without it nothing is changed")
    given = parser.parse_args(arguments)
    try:
        config = EngineConfig(
            bootstrap=given.bootstrap,
            group=given.group,
            state_dir=Path(tempfile.gettempdir()),
            client=dict(setting.split("=", 1) for setting in given.client),
        )
        needed = Needed((), tuple(given.changelog), tuple(given.output))
        findings = (abort_hanging if given.abort else find_hanging)(config, needed)
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    lines = findings.lines(aborted=given.abort)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return EXIT_CRASH if findings.hanging and not given.abort else EXIT_CLEAN


if __name__ == "__main__":
    sys.exit(main())
