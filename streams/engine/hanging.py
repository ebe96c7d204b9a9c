"""The guard against hanging transactions: do not produce where something undecided lies.

Taking the transactional id aborts everything its coordinator knows to be open. If the last stable
offset of a partition still stays behind its end, records of a transaction lie there that nobody will
decide any more: a coordinator that comes back after a restart skips the markers of partitions that have no leader at
that moment, and completes the transaction (tests/faults/orphans). They may be part of a transaction that is committed
everywhere else. The marker of the same producer's next transaction decides them with its own records: a commit
repeats what was aborted, which readers drop by source position; an abort silently loses what was committed. So the
guard stands before a unit's first transaction, and after each that took so long that its coordinator may have been
restarted in it (:mod:`.unit`).

What it cannot see: a commit is answered when it is decided, a few ms before its markers are written. If the
coordinator dies between the two, the next transaction of the unit is the one that takes long. Its commit mends the
hanging part, its abort takes it back: then it is written again (:mod:`.lost`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from .config import EngineConfig
from .errors import Closed, Refused
from .logs import Logs, TopicFacts
from .resume import LogRange

Ranges = Callable[[Iterable[tuple[str, int]]], Mapping[tuple[str, int], LogRange]]

OFFSETS_TOPIC = "__consumer_offsets"


def offsets_partition(group: str, partitions: int) -> int:
    """Return the partition of __consumer_offsets that holds a group, as brokers compute it.

    The absolute value of Java's String.hashCode, and 0 for the one int that has none (apache/kafka,
    GroupCoordinatorService.partitionFor and Utils.abs). Not the partitioner's way, which masks the sign bit.
    """
    code = 0
    units = group.encode("utf-16-be")
    for index in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[index : index + 2], "big")) & 0xFFFFFFFF
    magnitude = min(code, 0x1_0000_0000 - code)
    return magnitude % partitions if magnitude != 0x8000_0000 else 0


def offsets_place(group: str, partitions: int) -> tuple[str, int]:
    """Return where a group's offsets are; ``partitions`` is the count of __consumer_offsets."""
    return OFFSETS_TOPIC, offsets_partition(group, partitions)


def wait_places_decided(
    config: EngineConfig,
    logs: Logs,
    facts: Mapping[str, TopicFacts],
    places: Iterable[tuple[str, int]],
    given_up: Callable[[], bool],
) -> None:
    """``wait_decided`` for an app: brokers are asked, with its patience, and its repair command is named.

    Raises Crash as well, when they do not answer.
    """
    wait_decided(
        places,
        lambda partitions: logs.ranges(partitions, facts),
        config.hanging_timeout,
        given_up,
        config.repair_command,
    )


def wait_decided(
    partitions: Iterable[tuple[str, int]],
    ranges: Ranges,
    patience: float,
    given_up: Callable[[], bool],
    repair: str,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Return when everything that lay in ``partitions`` at the call is committed or aborted.

    Other producers may go on writing: a stable offset that moves is a living log. Raises Refused when
    one stands still behind the end for ``patience`` seconds, Closed when ``given_up`` says so. ``repair`` is the
    command that clears it.
    """
    goal: dict[tuple[str, int], int] = {}
    stable: dict[tuple[str, int], int] = {}
    moved: dict[tuple[str, int], float] = {}
    waiting = set(partitions)
    step = 0.01  # a marker that is only being written is there in a few ms
    while waiting:
        now = clock()
        for key, found in ranges(waiting).items():
            goal.setdefault(key, found.end)
            if found.stable >= goal[key]:
                waiting.discard(key)
            elif found.stable != stable.get(key):
                stable[key], moved[key] = found.stable, now
        stuck = sorted(key for key in waiting if now - moved[key] >= patience)
        if stuck:
            raise Refused(
                "hanging transaction: "
                + ", ".join(f"{t}[{p}] is undecided from {stable[t, p]} (end {goal[t, p]})" for t, p in stuck)
                + f", unchanged for {patience:g} s. Nobody will "
                f"decide it any more. Stop all workers of this app, run `{repair}`, which shows what hangs, whether it "
                "was committed and how to settle it, then start the workers again. Nothing is lost; readers must drop "
                "what they have seen by the source-position header."
            )
        if waiting:
            if given_up():
                raise Closed("the units were given away")
            pause(step)
            step = min(2 * step, 0.25)
