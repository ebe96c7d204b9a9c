"""The app: a faust.App whose agents receive batches and whose state, outputs and offsets are one."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, wraps
from inspect import iscoroutinefunction
from typing import Any, NoReturn

import faust
from mode import CrashingSupervisor

from .batch import Prefetch
from .config import EngineConfig
from .errors import Crash, Hung, Refused, exit_code
from .group import Group, with_positions
from .process import explains_itself, leave, run_together, told
from .stream import Stream
from .table import Table, TableManager, current_batch
from .transport import SCHEME

log = logging.getLogger(__name__)

AgentFunction = Callable[[Any], Awaitable[None]]
#: Commits that may run at once; more units than this wait for each other.
POOL_THREADS = 16
#: Batches of so many partitions may be with an agent at once.
CONCURRENCY = 16


class App(faust.App):  # type: ignore[misc]
    """One group. Declare tables and agents, then :meth:`run`. Nothing connects before."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        #: What ends the worker, ``None`` while all is well.
        self.failure: BaseException | None = None
        self.failed_at = 0.0
        self._failing = threading.Lock()
        self._sources: list[str] = []
        self._outputs: list[str] = []
        self._everywhere: list[str] = []
        super().__init__(
            config.group,
            broker=f"{SCHEME}://engine",
            store="memory://",
            datadir=str(config.state_dir / ".faust"),
            web_enabled=False,
            autodiscover=False,
            Stream=Stream,
            Table=Table,
            TableManager=TableManager,
            agent_supervisor=CrashingSupervisor,
            topic_disable_leader=True,
            topic_allow_declare=False,
            stream_wait_empty=True,
            table_standby_replicas=0,
            key_serializer="raw",
            value_serializer="raw",
            worker_redirect_stdouts=False,
        )

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        """Threads for commits, fencing and closing."""
        return ThreadPoolExecutor(POOL_THREADS, f"txn-{self.config.group}")

    @cached_property
    def group(self) -> Group:
        """The group of everything declared so far; complete when the app starts."""
        return Group(
            self.config,
            self._sources,
            [table.spec for table in self.tables.values()],
            self._outputs,
            self.pool,
            everywhere=self._everywhere,
        )

    def _create_directories(self) -> None:
        """Faust's data directory is not used; units make their own under ``state_dir``."""

    def source(self, topic: str) -> Any:
        """Return a source topic for ``agent``."""
        return self.topic(
            topic, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw", internal=False
        )

    def Table(self, name: str, *, prefetch: Prefetch | None = None, help: str = "") -> Table:
        """Declare a table of bytes, changelog ``<group>-<name>-changelog``.

        ``prefetch`` names the row a record will need; the rows of a batch are read in one go.
        """
        table = Table(self, name=name, prefetch=prefetch, help=help, beacon=self.tables.beacon)
        self.tables.add(table)
        return table

    def agent(
        self,
        channel: Any = None,
        *,
        outputs: Iterable[str] = (),
        everywhere: Iterable[str] = (),
        name: str | None = None,
        concurrency: int = CONCURRENCY,
    ) -> Callable[[AgentFunction], Any]:
        """Declare the agent of one source topic.

        ``outputs`` are topics it writes with the partition number of its batch, ``everywhere`` those it writes in
        every partition; they are checked at the start (count, hanging transactions). The function runs in
        ``concurrency`` tasks that share one queue: while one awaits, others go on with other partitions; the order
        within a partition stays, as there is one batch a partition. Raises Refused for what would not be exactly once.
        """
        if channel is None or isinstance(channel, str) or not hasattr(channel, "topics"):
            raise Refused("an agent needs its topic: @app.agent(app.source(NAME))")
        topics = list(channel.topics)
        if len(topics) != 1 or topics[0] in self._sources:
            raise Refused(f"{topics}: exactly one agent per topic and one topic per agent")

        def declare(function: AgentFunction) -> Any:
            if not iscoroutinefunction(function):
                raise Refused(f"{function.__name__}: agents are `async def` without yield; use batch.send()")
            self._sources.append(topics[0])
            spread = tuple(everywhere)
            self._outputs.extend((*outputs, *spread))
            self._everywhere.extend(spread)
            return faust.App.agent(self, channel, name=name or function.__name__, concurrency=concurrency)(
                self._endless(function)
            )

        return declare

    def _endless(self, function: AgentFunction) -> AgentFunction:
        """Make returning an error: nobody would notice, and its topic would stand still for ever."""

        @wraps(function)
        async def agent(stream: Any) -> None:
            try:
                await function(stream)
            except Exception as error:
                batch = current_batch.get(None)
                if batch is not None:
                    error.add_note(f"agent {function.__name__} at {batch.at}")
                raise
            if not (self.should_stop or stream.should_stop):
                raise Crash(f"agent {function.__name__} returned; it must iterate its stream until stopped")

        return agent

    def fail(self, error: BaseException) -> None:
        """End the worker because of ``error``. Callable from any thread; the first call decides."""
        with self._failing:
            if self.failure is not None:
                return
            self.failure = error
            self.failed_at = time.monotonic()
        log.critical("the worker ends: %s", told(error), exc_info=None if explains_itself(error) else error)
        if isinstance(error, Hung):
            self.hard_exit()
        self.loop.call_soon_threadsafe(self._begin_crash, error)

    def _begin_crash(self, error: BaseException) -> None:
        if self._consumer is not None:
            self._consumer.failing()
        self.add_future(self.crash(error))

    def hard_exit(self) -> None:
        """Leave now: something hangs, and a stuck thread would keep an ordinary exit waiting."""
        leave(exit_code(self.failure))

    def run(self, *, loglevel: str | None = None) -> NoReturn:
        """Be this process: see :func:`streams.engine.process.run_together`."""
        run_together([self], loglevel=loglevel)


def changelog_topics(app: App) -> list[str]:
    """Return the changelogs an app needs, for :func:`ensure_changelogs` or your own tooling."""
    specs = with_positions(app.config.group, [table.spec for table in app.tables.values()])
    return sorted(spec.changelog for spec in specs)
