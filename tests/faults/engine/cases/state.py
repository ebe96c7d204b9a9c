"""Local state: lost, damaged, replaced by an older copy, and changelogs that hold little or have lost their head."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from streams.engine import EXIT_CRASH
from tests.kafka import delete_records

from ..case import KILLED, Act, Case, add
from ..field import START_S, Field, Violation
from ..refusals import assert_refused

Damage = Callable[[Path, Random], int]


def flip_tables(store: Path, chance: Random) -> int:
    """Flip bytes all over the sorted tables."""
    return sum(_flip(path, chance) for path in store.glob("*.sst"))


def flip_log(store: Path, chance: Random) -> int:
    """Flip bytes in the write-ahead log."""
    return sum(_flip(path, chance) for path in store.glob("*.log"))


def truncate_log(store: Path, chance: Random) -> int:
    """Cut the write-ahead log somewhere."""
    logs = [path for path in store.glob("*.log") if path.stat().st_size]
    for path in logs:
        with path.open("r+b") as file:
            file.truncate(chance.randrange(path.stat().st_size))
    return len(logs)


def break_current(store: Path, _: Random) -> int:
    """Let CURRENT name no manifest."""
    (store / "CURRENT").write_bytes(b"\0damaged")
    return 1


def delete(store: Path, _: Random) -> int:
    """Delete the store."""
    shutil.rmtree(store)
    return 1


def _flip(path: Path, chance: Random) -> int:
    content = bytearray(path.read_bytes())
    if not content:
        return 0
    for _ in range(max(8, len(content) // 512)):
        content[chance.randrange(len(content))] ^= 0xFF
    path.write_bytes(content)
    return 1


def damage(how: Damage, what: str, *, killed: bool = False, reopen: bool = False) -> Act:
    """Stop or kill each worker in turn, damage all its stores, start it. ``reopen``: tables are on the disk first."""

    def act(field: Field) -> None:
        done = 0
        for number in field.workers:
            field.wait_progress(400)
            if reopen:
                field.restart(number)
                field.wait_progress(200)
            if killed:
                field.hold(number)
            else:
                field.stop(number)
            stores = [path for path in field.cluster.state(number).glob("[0-9]*") if path.is_dir()]
            done += sum(how(store, field.random) for store in stores)
            field.start(number)
        field.faults[what] += done
        if not done:
            raise Violation(f"nothing was damaged: {what}")
        field.wait_progress(500)

    return act


def older_copy(field: Field) -> None:
    """Put back what a worker had on its disk a while ago."""
    for number in field.workers:
        field.stop(number)
        copy = field.keep_copy(number)
        field.start(number)
        field.wait_progress(800)
        field.stop(number)
        shutil.rmtree(field.cluster.state(number))
        copy.rename(field.cluster.state(number))
        field.faults["older copy"] += 1
        field.start(number)
    field.wait_progress(500)


def kill_in_restore(field: Field) -> None:
    """Kill all during the replay of lost state, again and again."""
    for number in field.workers:
        field.lives[number] = deque(
            {"die": {"at": "restoring", "after": field.random.randint(1, 3)}, "wiped": times == 0} for times in range(3)
        )
    field.wait_progress(1500)
    goal = len(field.exits) + 2 * len(field.workers)
    for number in field.workers:
        field.kill(number)
    field.wait_exits(goal)
    field.faults["kill -9 at restoring"] += goal - len(field.workers)
    field.lives.clear()


def no_rows(field: Field) -> None:
    """Few keys leave most changelog partitions without a row; kill, lose all state."""
    for _ in range(2):
        field.wait_progress(500)
        for number in field.workers:
            field.hold(number)
        for number in field.workers:
            field.cluster.wipe(number)
            field.start(number)
        field.faults["state lost beside empty changelogs"] += len(field.workers)
    field.wait_progress(500)


def headless(field: Field) -> None:
    """Cut the head of a changelog, which only a wrong policy allows: refused as such, then for lost state only."""
    changelog = field.cluster.changelogs["progress"]
    _alone(field)  # has a copy of every partition then
    _policy(field, changelog, "compact,delete")
    cuts = []
    for partition in range(field.cluster.partitions):
        end = field.cluster.end(changelog, partition)
        if end > 1:
            cuts.append(TopicPartition(changelog, partition, end // 2))
    delete_records(field.cluster.admin, cuts)
    field.faults["changelog head deleted"] += len(cuts)
    assert_refused(field, "cleanup.policy=compact,delete", "Set it to compact")
    _policy(field, changelog, "compact")
    # What lies on the disk is whole: it goes on with it.
    _alone(field)
    field.cluster.wipe(field.workers[0])
    assert_refused(field, "its head was deleted", "Restore the topic or a local copy")


def _alone(field: Field) -> None:
    """Let one worker restore all partitions, and stop it."""
    number = field.workers[0]
    field.start(number)

    def whole() -> bool:
        return field.cluster.last_words(number).count(": restored") >= field.cluster.partitions

    field.wait(f"worker {number} has restored all partitions", whole, START_S)
    field.stop(number)


def _policy(field: Field, topic: str, value: str) -> None:
    entry = ConfigEntry("cleanup.policy", value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in field.cluster.admin.incremental_alter_configs([resource]).values():
        future.result(30)

    def seen() -> bool:
        asked = field.cluster.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
        return all(future.result(30)["cleanup.policy"].value == value for future in asked.values())

    field.wait(f"{topic} has {value}", seen, 30)


_STATE: dict[str, Any] = {"static": True, "keys": 2_000}
add(
    Case(
        name="kill-in-restore",
        does="all state lost, kill -9 in the replay of it, three times each",
        act=kill_in_restore,
        codes=frozenset({KILLED}),
        keys=2_000,
    )
)
add(Case(name="state-deleted", does="each worker's stores deleted", act=damage(delete, "store deleted"), **_STATE))
add(
    Case(
        name="state-tables-flipped",
        does="bytes flipped in the stores' sorted tables",
        act=damage(flip_tables, "table flipped", reopen=True),
        # Damage that shows only when a row is read ends the worker; its next life starts from the changelog.
        codes=frozenset({EXIT_CRASH}),
        **_STATE,
    )
)
add(
    Case(
        name="state-log-flipped",
        does="kill -9, bytes flipped in the stores' write-ahead logs",
        act=damage(flip_log, "write-ahead log flipped", killed=True),
        codes=frozenset({KILLED}),
        **_STATE,
    )
)
add(
    Case(
        name="state-log-truncated",
        does="kill -9, the stores' write-ahead logs cut",
        act=damage(truncate_log, "write-ahead log cut", killed=True),
        codes=frozenset({KILLED}),
        **_STATE,
    )
)
add(
    Case(
        name="state-current-broken",
        does="the stores' CURRENT overwritten",
        act=damage(break_current, "CURRENT broken"),
        **_STATE,
    )
)
add(Case(name="state-older-copy", does="stores replaced by older copies of themselves", act=older_copy, **_STATE))
add(
    Case(
        name="changelog-empty",
        does="3 keys in 12 partitions, kill -9, all state lost, twice",
        act=no_rows,
        codes=frozenset({KILLED}),
        keys=3,
    )
)
add(
    Case(
        name="changelog-head-deleted",
        does="half of a changelog deleted: refused for its policy, then for lost state only",
        act=lambda field: field.wait_progress(1500),
        refusal=headless,
    )
)
