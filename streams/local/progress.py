"""How long work is shown: the cache tells bytes, the stack tells steps, somebody else decides how it looks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars


class Progress(Protocol):
    """Where downloads are reported. Called from several threads."""

    def task(self, title: str, size: int) -> AbstractContextManager[Callable[[int], None]]:
        """Begin a download of `size` bytes; the yielded function is told bytes as they come.

        Negative when a try is thrown away.
        """
        ...


class SilentProgress:
    """Shows nothing."""

    @contextmanager
    def task(self, title: str, size: int) -> Iterator[Callable[[int], None]]:  # noqa: ARG002
        """See Progress."""
        yield lambda _bytes: None


class BarProgress:
    """A bar on a terminal; one line when done elsewhere."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("Fetching {task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._bars = Bars(*columns, console=console)
        self._lock = threading.Lock()
        self._tasks = 0

    @contextmanager
    def task(self, title: str, size: int) -> Iterator[Callable[[int], None]]:
        """See Progress."""
        # One display for all: two at once on one terminal would write over each other.
        with self._lock:
            self._tasks += 1
            self._bars.start()
        task = self._bars.add_task(title, total=size)
        try:
            yield lambda received: self._bars.advance(task, received)
        finally:
            with self._lock:
                self._tasks -= 1
                if not self._tasks:
                    self._bars.stop()
                    for done in self._bars.task_ids:
                        self._bars.remove_task(done)
