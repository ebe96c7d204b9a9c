"""A worker's chore: file trees are watched, and a scan is asked for once they have been quiet for a moment.

    changes ─► 2 s without one, or 30 s in all ─► one request ─► the scan, which reads what is new

Events get lost (a network's file system tells none, a full queue drops some, a process was down), so nothing relies
on them: the schedule scans all the same. Which changes they were does not matter either; a scan finds out.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Final

from watchfiles import Change, watch

from streams.effects.requesting import Requests
from streams.runtime import logs
from streams.runtime.blocking import BlockingDatabase
from streams.runtime.leases import Tasks
from streams.runtime.trees import SourceTree, list_trees

QUIET_MS: Final = 2_000
LONGEST_MS: Final = 30_000
LOOK_EVERY_S: Final = 30.0
"""So often the table of trees is read, and a tree that could not be watched is tried again."""
APART_S: Final = 30.0
"""Scans of one tree are asked for no more often, however much happens in it."""
_WAKE_MS: Final = 1_000
_STOP_S: Final = 5.0
_log = logs.get(__name__)


def worth_a_scan(change: Change, path: str) -> bool:
    """Not what a scan passes over: names that begin with a dot, but for ``.ignore`` itself."""
    del change
    return not any(part.startswith(".") and part != ".ignore" for part in path.split(os.sep) if part)


class Watches:
    """``database``: of the worker. Every worker that sees a tree watches it; what they ask for is one scan."""

    def __init__(self, database: BlockingDatabase, tasks: Tasks, requests: Requests) -> None:
        # One line for each handful of changes otherwise.
        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        self._database = database
        self._tasks = tasks
        self._requests = requests
        self._watches: dict[SourceTree, _Watch] = {}
        self._looked_at: float | None = None
        self._asked_at: dict[str, float] = {}

    def step(self) -> None:
        """Raises Unavailable; what changed is remembered."""
        now = time.monotonic()
        if self._looked_at is None or now - self._looked_at >= LOOK_EVERY_S:
            self._look()
            self._looked_at = now
        for tree, watching in self._watches.items():
            if not watching.changed.is_set():
                continue
            last = self._asked_at.get(tree.source_id)
            if last is not None and now - last < APART_S:
                continue
            waits = self._tasks.waits("scan", tree.source_id)
            if not waits.wanted or waits.running:
                self._requests.scan(tree.source_id, "watch")
            watching.changed.clear()
            self._asked_at[tree.source_id] = now

    def close(self) -> None:
        for watching in self._watches.values():
            watching.stop.set()
        for watching in self._watches.values():
            watching.thread.join(_STOP_S)

    def _look(self) -> None:
        wanted = {tree for tree in self._database.run(list_trees) if tree.watch}
        for tree in list(self._watches):
            if tree not in wanted or not self._watches[tree].thread.is_alive():
                self._watches.pop(tree).stop.set()
        for tree in wanted - self._watches.keys():
            self._watches[tree] = _Watch(tree)


class _Watch:
    """A thread that watches one tree until told to stop, or until it can't."""

    def __init__(self, tree: SourceTree) -> None:
        self.changed = threading.Event()
        self.stop = threading.Event()
        self._tree = tree
        self.thread = threading.Thread(target=self._run, name=f"watch-{tree.source_id}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        root = os.path.join(os.fsdecode(self._tree.path), "")
        try:
            if not os.path.isdir(root):
                return  # a mount that is not there; tried again soon
            for _ in watch(
                root,
                watch_filter=lambda change, path: worth_a_scan(change, path.removeprefix(root)),
                step=QUIET_MS,
                debounce=LONGEST_MS,
                stop_event=self.stop,
                rust_timeout=_WAKE_MS,
                raise_interrupt=False,
                ignore_permission_denied=True,
            ):
                self.changed.set()
        except (OSError, RuntimeError, ValueError) as exc:
            # No watches left in the kernel, a name that is not UTF-8, the root gone: the schedule still scans.
            _log.warning("a tree can't be watched", source=self._tree.source_id, error_class=type(exc).__name__)
