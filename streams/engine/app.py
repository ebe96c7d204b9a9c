"""The app: a faust.App whose agents receive batches and whose state, outputs and offsets are one."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
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
from .stream import Stream
from .table import Table, TableManager
from .transport import SCHEME

log = logging.getLogger(__name__)

AgentFunction = Callable[[Any], Awaitable[None]]
#: Commits that may run at once; more units than this wait for each other.
POOL_THREADS = 16


class App(faust.App):  # type: ignore[misc]
    """One group. Declare tables and agents, then :meth:`run`. Nothing connects before."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        #: What ends the worker, ``None`` while all is well.
        self.failure: BaseException | None = None
        self._failing = threading.Lock()
        self._sources: list[str] = []
        self._outputs: list[str] = []
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
        self, channel: Any = None, *, outputs: Iterable[str] = (), name: str | None = None
    ) -> Callable[[AgentFunction], Any]:
        """Declare the agent of one source topic.

        ``outputs`` are topics it writes with the partition number of its batch; they are checked at the
        start (count, hanging transactions). Raises Refused for what would not be exactly once.
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
            self._outputs.extend(outputs)
            return faust.App.agent(self, channel, name=name or function.__name__)(self._endless(function))

        return declare

    def _endless(self, function: AgentFunction) -> AgentFunction:
        """Make returning an error: nobody would notice, and its topic would stand still for ever."""

        @wraps(function)
        async def agent(stream: Any) -> None:
            await function(stream)
            if not (self.should_stop or stream.should_stop):
                raise Crash(f"agent {function.__name__} returned; it must iterate its stream until stopped")

        return agent

    def fail(self, error: BaseException) -> None:
        """End the worker because of ``error``. Callable from any thread; the first call decides."""
        with self._failing:
            if self.failure is not None:
                return
            self.failure = error
        log.critical("the worker ends: %s", error, exc_info=None if _explains_itself(error) else error)
        if isinstance(error, Hung):
            self.hard_exit()
        self.loop.call_soon_threadsafe(self._begin_crash, error)

    def _begin_crash(self, error: BaseException) -> None:
        if self._consumer is not None:
            self._consumer.failing()
        self.add_future(self.crash(error))

    def hard_exit(self) -> None:
        """Leave now: something hangs, and a stuck thread would keep an ordinary exit waiting."""
        _leave(exit_code(self.failure))

    def run(self, *, loglevel: str | None = None) -> NoReturn:
        """Work until SIGTERM or SIGINT (clean stop) or an error, then leave the process.

        Exit codes: 0 clean; 1 crash; 70 start again (something hung); 78 an operator must act. The process
        ends by ``os._exit`` after the logs are flushed: a librdkafka call that hangs must not keep it.
        ``loglevel`` sets up logging to stderr; ``None`` leaves logging as the program has it.
        """
        try:
            self.group  # noqa: B018  what is declared must make sense before anything starts
            worker = _Worker(
                self,
                loglevel=loglevel,
                override_logging=loglevel is not None,
                quiet=True,
                redirect_stdouts=False,
                loop=asyncio.new_event_loop(),
            )
            asyncio.set_event_loop(worker.loop)
            worker.execute_from_commandline()
        except SystemExit as ended:
            if ended.code not in (0, None) and self.failure is None:
                self.failure = Crash(f"the worker ended with {ended.code}")
        except BaseException as error:
            if self.failure is None:
                self.failure = error
                log.critical("the worker ends: %s", error, exc_info=None if _explains_itself(error) else error)
        _leave(exit_code(self.failure))


class _Worker(faust.Worker):  # type: ignore[misc]
    """Faust's worker without the waits of its last seconds; everything of ours is closed by then."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.spinner = None  # it writes to stdout, which belongs to the program

    def _shutdown_loop(self) -> None:
        if self.crash_reason and self.app.failure is None:
            self.app.failure = self.crash_reason

    def _setproctitle(self, info: str, *, ident: str = "") -> None:
        """Leave the process title to the program."""


def changelog_topics(app: App) -> list[str]:
    """Return the changelogs an app needs, for :func:`ensure_changelogs` or your own tooling."""
    specs = with_positions(app.config.group, [table.spec for table in app.tables.values()])
    return sorted(spec.changelog for spec in specs)


def _explains_itself(error: BaseException) -> bool:
    return isinstance(error, Refused)


def _leave(code: int) -> NoReturn:
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass  # a closed pipe must not change the exit code
    os._exit(code)
