"""Kills and freezes roles at random moments, from a seed, and keeps count."""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from collections.abc import Sequence

from streams.local.supervisor import Supervisor

FREEZE_MARGIN_S = 3.0
_PAUSE_S = (1.0, 3.0)
# How often an interval is a freeze instead of a kill.
_FREEZES = 0.3


class Chaos:
    """Runs in a thread of its own until ``faults`` have happened or ``stop`` is called.

    A kill is SIGKILL to a role, which its supervisor starts again. A freeze is SIGSTOP for longer than the
    session timeout, so that the group gives its partitions away, then SIGCONT: a zombie.
    """

    def __init__(self, supervisor: Supervisor, roles: Sequence[str], *, seed: int, faults: int, session_s: float):
        self.counts: Counter[str] = Counter()
        self._supervisor = supervisor
        self._roles = roles
        self._dice = random.Random(seed)
        self._faults = faults
        self._freeze_s = session_s + FREEZE_MARGIN_S
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait until all faults have happened. Raises AssertionError when they have not in time."""
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), f"only {self.counts} of {self._faults} faults in {timeout_s} s"

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(self._freeze_s + 5)

    def _run(self) -> None:
        while sum(self.counts.values()) < self._faults and not self._stop.wait(self._dice.uniform(*_PAUSE_S)):
            role = self._dice.choice(self._roles)
            freeze = self._dice.random() < _FREEZES
            pid = self._supervisor.signal(role, signal.SIGSTOP if freeze else signal.SIGKILL)
            if pid is None:
                continue
            kind = role.partition("-")[0]
            self.counts[f"{'freeze' if freeze else 'kill'} {kind}"] += 1
            if freeze:
                self._stop.wait(self._freeze_s)
                self._supervisor.signal(role, signal.SIGCONT)
