"""Find hanging transactions in the partitions of an app, and settle them so that nothing is lost or doubled.

A transaction hangs when a partition's leader has it open and no coordinator will ever decide it: no
transactional id has its producer, or the id's transaction does not contain the partition. This is the rule of
Kafka's own `kafka-transactions.sh find-hanging`, which however looks only at producers that have been silent for 15
minutes (`--max-transaction-timeout`), and so not at one whose producer goes on. Here every coordinator must answer
instead, and the transaction must still be open, from the same offset, after they did; one whose producer no id has
also `hanging_timeout` later, since coordinators do not tell ids that one may not see.

Rights: Read on the topics, on __consumer_offsets and on the group, Describe on all transactional ids; to settle, Alter
or ClusterAction on the cluster.

Why transactions hang: a coordinator of Kafka 4.3 that finds a partition without a leader takes it for deleted, skips
its marker and completes the transaction (tests/faults/orphans). So what hangs may be part of what is committed
everywhere else, and its worker may have been told so: it is committed or aborted by evidence (verdict.py), and where
none can be had it is left.

The order, safe to be killed in and run again at any point. What is to be committed comes before what is to be
aborted: a commit only adds to what is decided, so no evidence is ever taken away, and after the commits all evidence is
looked at anew, since they may have hidden some; an abort adds nothing and takes nothing that anybody saw, so a part
that is left gets the same verdict the next time. Among each of them: outputs, changelogs, then the group's partition of
__consumer_offsets. As long as that last one hangs, no worker can read its offsets and begin, so no new transaction can
decide what is still undecided; and what a worker reads first is whole before it can.

    python -m streams.engine.repair --bootstrap 127.0.0.1:9092 --group counts --output totals \\
        --changelog counts-counts-changelog            # looks; with --settle it settles

Exit codes: 0 nothing hangs, or it is settled; 1 something hangs, or a broker did not answer; 78 refused.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import assert_never

from .config import EngineConfig
from .errors import EXIT_CLEAN, EXIT_CRASH, Crash, EngineError, Refused
from .evidence import weigh
from .findings import Findings, Hanging, Pending, Role
from .hanging import OFFSETS_TOPIC, offsets_place
from .logs import Logs
from .topics import Needed
from .verdict import Abort, Commit
from .wire import Open, Partition, Wire, converse

#: Between two looks at transactions that are about to end, in seconds.
PENDING_EVERY = 1.0
TRANSACTIONS_TOPIC = "__transaction_state"


def find_hanging(config: EngineConfig, needed: Needed) -> Findings:
    """Look at every partition of the app's outputs and changelogs and at the group's of __consumer_offsets.

    Changes nothing; workers may be at work. Raises Crash when a leader or a coordinator does not answer.
    """
    return weigh(config, needed, converse(config, lambda wire: _find(wire, config, needed)))


def settle_hanging(config: EngineConfig, needed: Needed) -> Findings:
    """Commit and abort what hangs, in order, and return what was settled, and at last what had to be left.

    Raises Refused while the group has members, Crash when a broker refuses a marker: what was settled before
    stays settled, and it may be called again.
    """
    if members := Logs(config).members():
        raise Refused(
            f"group {config.group} has {members} members: a worker at work could decide what is to be settled. "
            "Stop all workers of this app first."
        )
    settled: list[Hanging] = []
    while True:
        findings = _find_ended(config, needed)
        commits = [item for item in findings.hanging if isinstance(item.verdict, Commit)]
        if again := {_identity(item.transaction) for item in settled} & {_identity(i.transaction) for i in commits}:
            raise Crash(f"open still, after the marker was written: {sorted(again)}")
        turn = commits or [item for item in findings.hanging if isinstance(item.verdict, Abort)]
        converse(config, partial(_decide, turn))
        settled += turn
        if not commits:
            return replace(findings, hanging=(*settled, *findings.left))


def _find_ended(config: EngineConfig, needed: Needed) -> Findings:
    """Find when coordinators have ended what is open still of producers of which something hangs, or cannot."""
    deadline = time.monotonic() + config.hanging_timeout
    while True:
        findings = find_hanging(config, needed)
        busy = {item.transaction.producer_id for item in findings.pending}
        if not busy & {item.transaction.producer_id for item in findings.hanging} or time.monotonic() > deadline:
            return findings
        time.sleep(PENDING_EVERY)


async def _decide(items: Sequence[Hanging], wire: Wire) -> None:
    for item in items:
        await wire.decide(item.transaction, committed=isinstance(item.verdict, Commit))


async def _find(wire: Wire, config: EngineConfig, needed: Needed) -> Findings:
    roles = await _partitions(wire, config, needed)
    first = await wire.open_transactions(roles)
    if not first:
        return Findings(())
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
        found[offsets_place(config.group, len(offsets))] = "offsets"
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
    parser.add_argument(
        "--settle", action="store_true", help="commit and abort what hangs, by evidence; without it nothing is changed"
    )
    given = parser.parse_args(arguments)
    try:
        config = EngineConfig(
            bootstrap=given.bootstrap,
            group=given.group,
            state_dir=Path(tempfile.gettempdir()),
            client=dict(setting.split("=", 1) for setting in given.client),
        )
        needed = Needed((), tuple(given.changelog), tuple(given.output))
        findings = (settle_hanging if given.settle else find_hanging)(config, needed)
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    lines = findings.lines(settled=given.settle)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return EXIT_CRASH if (findings.left if given.settle else findings.hanging) else EXIT_CLEAN


if __name__ == "__main__":
    sys.exit(main())
