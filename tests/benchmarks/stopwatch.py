"""The counted window, the same for every engine: from a record in hand, warm-up over, to the last one durable.

Standard library only, and no import of ours: peers use it in their own environment.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path


class Stopwatch:
    """``taken`` when records are in hand, ``durable`` when they are done; the figures are printed once, at the end.

    Records up to ``warm`` are not counted. What is under way when the window opens is paid for inside it.
    """

    def __init__(self, total: int, warm: int) -> None:
        self.total, self.warm = total, warm
        self.handed = self.done = 0
        self.over = False
        self._before: int | None = None
        self._wall = self._cpu = 0.0

    def taken(self, records: int) -> None:
        """So many records were handed over, unprocessed yet."""
        if self._before is None and self.handed + records > self.warm:
            self._before = self.handed
            self._wall, self._cpu = time.perf_counter(), time.process_time()
        self.handed += records

    def committed(self, records: int) -> bool:
        """Instead of both, where batches are seen only when they are durable: the window opens at a commit."""
        if self._before is None and self.done + records >= self.warm:
            self._before = self.done + records
            self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self.durable(records)

    def durable(self, records: int) -> bool:
        """So many more are durable. True once, when that were all."""
        self.done += records
        if self.done < self.total or self.over or self._before is None:
            return False
        self.over = True
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        figures = {"records": self.done - self._before, "wall_s": wall, "cpu_s": cpu, "peak_rss_mib": peak_rss_mib()}
        # Stock Faust redirects sys.stdout into its log.
        print(json.dumps(figures), file=sys.__stdout__, flush=True)
        return True


def peak_rss_mib() -> float:
    """The largest resident size of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss would begin with the size of the process that started this one.
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    scale = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale
