"""Where one case happens: topics, load, workers that are started again when they die, a monitor, a count of faults."""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from streams.engine import EXIT_CRASH, EXIT_REFUSED, EXIT_RESTART, EngineConfig
from streams.engine.logs import Logs
from streams.engine.repair import settle_hanging
from streams.engine.topics import Needed
from streams.local.guard import Guard
from tests.integration.engine.cluster import Cluster
from tests.kafka import answered

from .case import KILLED, Case
from .evidence import Intervention
from .monitor import Monitor
from .oracle import longest_stall
from .workload import Load, Workload

#: Beyond the session timeout of 6 s: the group gives the partitions to others meanwhile.
FREEZE_S = 9.0
START_S = 90.0
#: Others' partitions stand still for a rebalance, and with it for a dead member's session.
OTHERS_STALL_S = 12.0
#: What a supervisor answers by starting again. 78 needs an operator.
AGAIN = frozenset({KILLED, EXIT_CRASH, EXIT_RESTART})
#: What workers refuse that a broker's restart can do (tests/faults/orphans).
LOST_OFFSETS = "a broker that was restarted lost its part of a transaction"
BROKEN = ("hanging transaction: ", LOST_OFFSETS)
#: The fault, as counted, after which outputs may be repeated.
OFFSETS_DELETED = "group's offsets gone back, deleted"
_guard = Guard()


class Violation(AssertionError):
    """The case itself saw what must not be: a wrong exit code, no progress, an empty threat."""


class Field:
    """A context manager; everything it started has ended when it is left."""

    def __init__(
        self,
        case: Case,
        cluster: Cluster,
        *,
        workers: int,
        rate: float,
        records: int,
        brokers: Any = None,
        patience: float = 1.0,
    ) -> None:
        """``brokers`` are this case's own, to be broken. ``patience`` multiplies every deadline."""
        self.case = case
        self.cluster = cluster
        self.brokers = brokers
        self.workers = range(workers)
        self.patience = patience
        self.random: Random = cluster.random
        self.faults: Counter[str] = Counter()
        self.exits: list[tuple[int, int]] = []
        #: In the group's offsets.
        self.interventions: list[Intervention] = []
        #: Settings of a worker's next lives; later ones have the case's.
        self.lives: dict[int, deque[dict[str, Any]]] = {}
        self.workload = Workload(Random(cluster.seed), keys=case.keys, poison=case.poison)
        topics = {"a": cluster.a, "b": cluster.b}
        self.load = Load(cluster.bootstrap, topics, self.workload, rate=rate, records=records)
        self.monitor = Monitor(cluster.bootstrap, cluster.group, cluster.topics, cluster.partitions, self.pids)
        self._kept: set[int] = set()
        self._lock = threading.RLock()
        self._quit = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._refused: str | None = None
        #: Workers may end with 78 now.
        self.expect_refusals = False
        #: Longest stall of partitions beside a single worker's trouble, in s.
        self.stall_others = 0.0
        self._current: dict[int, dict[str, Any]] = {}
        self._hangs = threading.Event()

    def __enter__(self) -> Field:
        self.cluster.create_topics()
        return self

    def __exit__(self, *_: object) -> None:
        self._quit.set()
        if self._keeper.ident is not None:
            self._keeper.join(30)
        self.load.stop()
        self.monitor.stop()
        for number, process in self.cluster.workers.items():
            if process.poll() is None:
                self.cluster.kill(number)
                _guard.forget(process.pid)
        self.cluster.close()

    # --- workers

    def begin(self) -> None:
        """Start load, workers and monitor; return when records are being committed."""
        self.load.start()
        self.monitor.start()
        self._keeper.start()
        for number in self.workers:
            self.start(number)
        self.wait("every worker has partitions", lambda: all(map(self.cluster.owned, self.workers)), START_S)
        self.wait("the first records are committed", lambda: self.cluster.progressed() > 0, START_S)

    def start(self, number: int, **settings: Any) -> None:
        """Start a worker and keep it: one that is killed, crashes or hangs is started again."""
        queue = self.lives.get(number)
        settings = {**self.case.worker, **(queue.popleft() if queue else {}), **settings}
        if settings.pop("wiped", False):
            self.cluster.wipe(number)
        config = {**self.case.config, **settings.pop("config", {})}
        if self.case.static:
            config.setdefault("instance_id", f"worker-{number}")
        with self._lock:
            process = self.cluster.start(number, config=config, **settings)
            _guard.watch(process.pid, signal.SIGKILL)
            self._kept.add(number)
            self._current[number] = settings

    def pids(self) -> dict[int, int]:
        with self._lock:
            return {n: process.pid for n, process in self.cluster.workers.items() if process.poll() is None}

    def kill(self, number: int) -> None:
        """SIGKILL; it is started again."""
        self.wait_up(number)
        self.cluster.workers[number].kill()
        self.faults["kill -9"] += 1

    def freeze(self, number: int, seconds: float = FREEZE_S) -> None:
        """SIGSTOP for so long, then SIGCONT."""
        self.wait_up(number)
        process = self.cluster.workers[number]
        process.send_signal(signal.SIGSTOP)
        self.faults["freeze"] += 1
        time.sleep(seconds)  # the time itself is the fault
        process.send_signal(signal.SIGCONT)

    def hold(self, number: int) -> None:
        """SIGKILL; it is not started again."""
        self.wait_up(number)
        with self._lock:
            self._kept.discard(number)
            process = self.cluster.workers[number]
        process.kill()
        self._ended(number, process.pid, process.wait(30))
        self.faults["kill -9"] += 1

    def start_once(self, number: int, **settings: Any) -> None:
        """Start a worker and leave it to itself."""
        config = {**self.case.config, **settings.pop("config", {})}
        process = self.cluster.start(number, config=config, **settings)
        _guard.watch(process.pid, signal.SIGKILL)

    def stop(self, number: int) -> int:
        """SIGTERM, once it can handle it; return the exit code. It is not started again."""
        self.wait_up(number)
        with self._lock:
            self._kept.discard(number)
            process = self.cluster.workers[number]
        code = self.cluster.stop(number)
        self._ended(number, process.pid, code)
        return code

    def stop_all(self, numbers: Iterable[int] | None = None) -> None:
        """SIGTERM to all kept workers side by side."""
        with self._lock:
            chosen = sorted(self._kept if numbers is None else numbers)
        threads = [threading.Thread(target=self._stop_quietly, args=(number,)) for number in chosen]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _stop_quietly(self, number: int) -> None:
        try:
            self.stop(number)
        except AssertionError as error:
            self._refused = str(error)

    def restart(self, number: int) -> None:
        """Stop cleanly and start again."""
        self.stop(number)
        self.faults["restart"] += 1
        self.start(number)

    def wait_up(self, number: int) -> None:
        self.wait(f"worker {number} is up", lambda: self.cluster.is_up(number), START_S)

    def wait_exits(self, count: int, timeout: float = START_S) -> None:
        """Wait until so many workers have ended since the beginning."""
        self.wait(f"{count} workers have ended", lambda: len(self.exits) >= count, timeout)

    def current(self, number: int) -> dict[str, Any]:
        """Settings of a worker's current life."""
        return self._current.get(number, {})

    def deaths(self, code: int) -> int:
        return sum(1 for _, found in self.exits if found == code)

    def owned(self, number: int) -> set[int]:
        """The partitions a worker has, by its own words; waits until it has some."""
        self.wait(f"worker {number} has partitions", lambda: bool(self.cluster.owned(number)), 30)
        return self.cluster.owned(number)

    def _keep(self) -> None:
        while not self._quit.wait(0.1):
            with self._lock:
                dead = [(n, p) for n in self._kept if (p := self.cluster.workers[n]).poll() is not None]
            for number, process in dead:
                with self._lock:
                    if number not in self._kept or self.cluster.workers[number] is not process:
                        continue
                    self._kept.discard(number)
                self._ended(number, process.pid, process.returncode)
                if process.returncode in AGAIN:
                    self.start(number)

    def _ended(self, number: int, pid: int, code: int) -> None:
        _guard.forget(pid)
        self.exits.append((number, code))
        if code == EXIT_REFUSED and self.case.repairs and any(self.cluster.said_now(number, why) for why in BROKEN):
            self._hangs.set()
            return
        allowed = self.case.allowed | ({KILLED} if self.case.repairs else set())
        expected = code in allowed or (code == EXIT_REFUSED and self.expect_refusals)
        if not expected and self._refused is None:
            self._refused = f"worker {number} ended with {code}:\n{self.cluster.epitaph(number)}"

    def problems(self) -> list[str]:
        """What went wrong with workers themselves."""
        return [] if self._refused is None else [self._refused]

    # --- waiting

    def wait(self, what: str, holds: Callable[[], bool], timeout: float) -> None:
        """Poll until it holds. Raises Violation after the deadline, or when a worker ended that never should."""
        deadline = time.monotonic() + timeout * self.patience
        while not holds():
            if threading.current_thread() is threading.main_thread() and self.heal():
                deadline = time.monotonic() + timeout * self.patience
            if self._refused is not None:
                raise Violation(f"{what}: {self._refused}")
            if time.monotonic() > deadline:
                raise Violation(f"{what}: not within {timeout * self.patience:.0f} s")
            time.sleep(0.1)

    def heal(self) -> bool:
        """Do what workers that refused have told, if any did; return whether."""
        if not self._hangs.is_set():
            return False
        self._repair()
        return True

    def _repair(self) -> None:
        """What the refusals tell an operator to do. Raises Violation when nothing is wrong: it was refused in vain."""
        lost = any(self.cluster.said_now(number, LOST_OFFSETS) for number in self.workers)
        with self._lock:
            numbers = sorted(self._kept | set(self.workers))
            self._kept.clear()
        for number in numbers:
            process = self.cluster.workers[number]
            if process.poll() is None:
                process.kill()
                self._ended(number, process.pid, process.wait(30))
        self._hangs.clear()
        topics = self.cluster.topics
        config = EngineConfig(bootstrap=self.cluster.bootstrap, group=self.cluster.group, state_dir=self.cluster.folder)
        needed = Needed((topics.a, topics.b), tuple(topics.changelogs.values()), (topics.out, topics.dead))

        def empty() -> bool:
            return Logs(config).members() == 0

        self.wait("killed members have left the group", empty, 60)
        settled = settle_hanging(config, needed)
        if settled.outdates_copies:
            for number in numbers:
                self.cluster.wipe(number)
        if lost:
            self.delete_offsets(repair=True)
            self.faults[OFFSETS_DELETED] += 1
        elif not settled.hanging:
            raise Violation("a worker refused for a hanging transaction, and the repair finds none")
        elif settled.left:
            raise Violation(f"the repair leaves {settled.left}")
        self.faults["hanging transaction repaired"] += len(settled.hanging)
        for number in self.workers:
            self.start(number)

    def delete_offsets(self, *, repair: bool = False) -> None:
        """Delete the group, which has no members; ``repair``: because workers said so."""
        group = self.cluster.group
        with self.by_hand(repair=repair):
            answered(lambda: self.cluster.admin.delete_consumer_groups([group])[group].result(30))

    @contextlib.contextmanager
    def by_hand(self, *, repair: bool = False) -> Iterator[None]:
        """An operator's hand in the group's offsets, while no worker runs."""
        began = time.time_ns() // 1_000_000
        yield
        self.interventions.append(Intervention(began, time.time_ns() // 1_000_000, repair))

    def wait_progress(self, records: int, timeout: float = 60.0) -> None:
        """Wait until so many more records are committed."""
        goal = self.cluster.progressed() + records
        self.wait(f"{records} more records", lambda: self.cluster.progressed() >= goal, timeout)

    def more(self, records: int) -> None:
        """Write so many more after the load has ended."""
        self.cluster.produce(records, keys=self.case.keys)

    def stall(self, partitions: Sequence[int], since: float = 0.0) -> float:
        """The longest time, in s, in which none of these partitions moved though records waited."""
        samples = [sample for sample in self.monitor.samples if sample.at >= since]
        topics = self.cluster.topics
        return max(
            (longest_stall(samples, (topics.a, topics.b), [number], time.monotonic()) for number in partitions),
            default=0.0,
        )

    def assert_others_went_on(self, number: int, partitions: Iterable[int], since: float) -> None:
        """While one worker had ``partitions`` and trouble: all others moved, but for a rebalance or two."""
        others = sorted(set(range(self.cluster.partitions)) - set(partitions))
        stall, limit = self.stall(others, since), OTHERS_STALL_S * self.patience
        self.stall_others = max(self.stall_others, stall)
        if stall > limit:
            raise Violation(f"a partition stood still for {stall:.1f} s (> {limit:g}) beside worker {number}'s trouble")

    def drain(self) -> float:
        """Let the load end and wait until all of it is processed; return how long that took."""
        self.load.finish()
        began = time.monotonic()
        self.wait_drained()
        return time.monotonic() - began

    def wait_drained(self) -> None:
        """Wait until everything that is in the sources now is processed."""
        ends = self.cluster.ends()

        def drained() -> bool:
            committed = self.cluster.committed()
            return all(committed.get(at, 0) >= end for at, end in ends.items() if end)

        self.wait("everything processed after the last fault", drained, self.case.heal_s)

    def states(self) -> list[Path]:
        return sorted(self.cluster.folder.glob("state-*"))

    def keep_copy(self, number: int) -> Path:
        """Copy a stopped worker's state aside."""
        copy = self.cluster.folder / f"copy-{number}"
        shutil.copytree(self.cluster.state(number), copy)
        return copy
