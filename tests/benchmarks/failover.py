"""How long keys stand still when a worker is killed: at a survivor, and at the same worker started again."""

from __future__ import annotations

import signal
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from .broker import PARTITIONS, topics
from .live import Watcher, Worker, flowing, job_settings

PER_S = 400
SETTLE_S = 4.0
PATIENCE_S = 60.0


def failover(bootstrap: str) -> dict[str, float]:
    """Seconds from the kill until records of every partition that moved are visible again; two workers, one killed.

    ``kept_pause_s``: the longest time without a record in the partitions that stayed where they were.
    """
    with topics(bootstrap) as made, tempfile.TemporaryDirectory(prefix="failover-bench-") as name:
        folder = Path(name)
        first, second = (job_settings(made, folder, "failover", worker) for worker in ("1", "2"))
        with Worker(first, folder / "1.log") as victim, Worker(second, folder / "2.log") as survivor:
            _both_have_some(victim, survivor)
            with flowing(made, first, PER_S) as watcher:
                time.sleep(SETTLE_S)
                # The one with the latest partitions by its own word.
                moved = {int(event["partition"]) for event in _since_assigned(victim, "restored")}
                killed = victim.end(signal.SIGKILL)
                gaps = _gaps(watcher, killed, moved)
                time.sleep(1)
                kept = set(range(PARTITIONS)) - moved
                pause = max(_longest_pause(watcher, partition, killed) for partition in kept)
        return {"moved_s": max(gaps.values()), "moved_partitions": len(moved), "kept_pause_s": pause}


def restart(bootstrap: str) -> dict[str, float]:
    """The only worker is killed and started again at once, with its disk: seconds until all partitions move again."""
    with topics(bootstrap) as made, tempfile.TemporaryDirectory(prefix="restart-bench-") as name:
        folder = Path(name)
        settings = job_settings(made, folder, "restart")
        with Worker(settings, folder / "1.log") as worker, flowing(made, settings, PER_S) as watcher:
            worker.wait("first", PARTITIONS)
            time.sleep(SETTLE_S)
            killed = worker.end(signal.SIGKILL)
            with Worker(settings, folder / "2.log"):
                gaps = _gaps(watcher, killed, set(range(PARTITIONS)))
        return {"resumed_s": max(gaps.values())}


def _both_have_some(*workers: Worker) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        counts = [worker.told("assigned")[-1]["count"] if worker.told("assigned") else 0 for worker in workers]
        restored = [len(_since_assigned(worker, "restored")) for worker in workers]
        if all(counts) and sum(counts) == PARTITIONS and restored == counts:
            return
        time.sleep(0.05)
    raise TimeoutError("the workers did not share the partitions")


def _since_assigned(worker: Worker, event: str) -> list[dict[str, Any]]:
    events = list(worker.events)
    last = max((index for index, each in enumerate(events) if each["event"] == "assigned"), default=0)
    return [each for each in events[last:] if each["event"] == event]


def _gaps(watcher: Watcher, killed: float, partitions: set[int]) -> dict[int, float]:
    """Per partition: seconds from ``killed`` until the first record sent after it was seen."""
    deadline = time.monotonic() + PATIENCE_S
    found: dict[int, float] = {}
    looked = 0
    while set(found) < partitions:
        if time.monotonic() > deadline:
            raise TimeoutError(f"partitions {sorted(partitions - set(found))} did not move again")
        seen = watcher.seen
        for partition, sent, at in seen[looked : (looked := len(seen))]:
            if partition in partitions and sent > killed * 1e9:
                found.setdefault(partition, at / 1e9 - killed)
        time.sleep(0.005)
    return found


def _longest_pause(watcher: Watcher, partition: int, since: float) -> float:
    times = [at / 1e9 for number, _, at in watcher.seen if number == partition and at / 1e9 > since - 0.5]
    return max(later - earlier for earlier, later in pairwise(times))
