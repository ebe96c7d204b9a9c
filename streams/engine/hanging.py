"""The guard against hanging transactions: do not produce where something undecided lies.

Taking the transactional id aborts everything its coordinator knows to be open. If the last stable
offset of a partition still stays behind its end, records of a transaction lie there that nobody will
decide any more (seen after a broker was killed twice), and the commit marker of a later transaction of
the same producer could commit them. Readers drop the repetition by source position; the guard stops
the worker before it adds to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from .errors import Closed, Refused
from .resume import LogRange

Ranges = Callable[[Iterable[tuple[str, int]]], Mapping[tuple[str, int], LogRange]]

HOW_TO_CLEAR = (
    "Stop all workers of this app, look with `kafka-transactions.sh --bootstrap-server ... find-hanging "
    "--topic TOPIC --partition N`, abort with `kafka-transactions.sh ... abort --topic TOPIC --partition N "
    "--start-offset OFFSET` on every output and changelog partition first and on __consumer_offsets last, "
    "then start the workers. Readers must drop what they have seen by the source-position header."
)


def wait_decided(
    partitions: Iterable[tuple[str, int]],
    ranges: Ranges,
    patience: float,
    given_up: Callable[[], bool],
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Return when everything that lay in ``partitions`` at the call is committed or aborted.

    Other producers may go on writing: a stable offset that moves is a living log. Raises Refused when
    one stands still behind the end for ``patience`` seconds, Closed when ``given_up`` says so.
    """
    goal: dict[tuple[str, int], int] = {}
    stable: dict[tuple[str, int], int] = {}
    moved: dict[tuple[str, int], float] = {}
    waiting = set(partitions)
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
                + f", unchanged for {patience:g} s. {HOW_TO_CLEAR}"
            )
        if waiting:
            if given_up():
                raise Closed("the units were given away")
            pause(0.25)
