"""What the rest of Playhead needs to know of an agent: to run it, to make its changelogs, to look into its tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streams.engine import App
from streams.runtime.contract import Contract
from streams.runtime.settings import Settings


@dataclass(frozen=True, slots=True)
class AgentTable:
    """``readable`` makes JSON values of a row, without personal data: people are ``user_ref``. It raises
    ConfigurationError for a row of a newer build, ValueError for a damaged one. ``home`` is the partition of a
    key; it raises ValueError when the key has another form than ``key_form`` says.
    """

    name: str
    holds: str
    key_form: str
    readable: Callable[[bytes], object]
    home: Callable[[bytes], int]


@dataclass(frozen=True, slots=True)
class Agent:
    """``name`` is its consumer group, and with it the prefix of transactional ids and changelogs and the name of
    its state directory. ``outputs`` are the topics it writes in its transactions, besides changelogs and dead
    letters. ``declare`` declares its tables and its agent on the app; nothing connects there.
    ``batch_records_max`` is its setting. ``bulk``: what it does may wait for reports, so a process of its own for it
    gives way to them.
    """

    name: str
    tables: tuple[AgentTable, ...]
    outputs: tuple[str, ...]
    declare: Callable[[App, Settings, Contract], None]
    batch_records_max: Callable[[Settings], int]
    bulk: bool = False
