"""``app.Table``: the mapping an agent uses, a view into the batch its task works on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any, NoReturn

import faust
from faust.tables.manager import TableManager as FaustTableManager

from .batch import Batch, Prefetch, TableSpec
from .overlay import Overlay

#: The batch of the running agent task; set by the stream, so that two agents never share one.
current_batch: ContextVar[Batch] = ContextVar("current_batch")


class Table(faust.Table):  # type: ignore[misc]
    """Rows are bytes; agents encode and decode. Only usable while an agent works on a batch.

    A read sees the committed rows with this batch's writes on top. What is not here (iteration over all
    keys, windows, ``update``) cannot be had within one partition and one transaction, or would be slow.
    """

    def __init__(self, app: Any, *, name: str, prefetch: Prefetch | None = None, **options: Any) -> None:
        super().__init__(app, name=name, key_type=bytes, value_type=bytes, **options)
        self.spec = TableSpec.of(app.config.group, name, prefetch)
        self._of = name

    def _overlay(self) -> Overlay:
        """Return the view of the batch at hand; the first use in a batch makes it."""
        try:
            batch = current_batch.get()
        except LookupError:
            raise RuntimeError(f"table {self.spec.name!r} used outside of an agent's batch") from None
        return batch.overlay(self.spec)

    # The two that agents call for every record look for the view themselves: a call less each.

    def get(self, key: bytes, default: bytes | None = None) -> bytes | None:
        try:
            overlay = current_batch.get().overlays[self._of]
        except LookupError:
            overlay = self._overlay()
        value = overlay.get(key)
        return default if value is None else value

    def __getitem__(self, key: bytes) -> bytes:
        value = self._overlay().get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: bytes, value: bytes) -> None:
        if value is None:
            raise TypeError("use del to remove a row")
        try:
            overlay = current_batch.get().overlays[self._of]
        except LookupError:
            overlay = self._overlay()
        overlay.set(key, value)

    def __delitem__(self, key: bytes) -> None:
        """Remove a row. Unlike a dict's, deleting what is not there is fine: it may be a replay."""
        self._overlay().set(key, None)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and self._overlay().get(key) is not None

    def scan(self, prefix: bytes = b"", after: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield this partition's rows whose key starts with ``prefix``, in key order, own writes included.

        ``after``: only those whose key comes after it, so that long work can stop and go on.
        """
        return self._overlay().scan(prefix, after)

    def load(self, keys: Iterable[bytes]) -> None:
        """Bring rows that will be asked for into memory, with one read for all that are not there."""
        self._overlay().load(keys)

    def __bool__(self) -> bool:
        return True

    def _unsupported(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("tables offer get, [], del, in, scan and load; see streams/engine/README.md")

    __iter__ = __len__ = keys = values = items = _unsupported
    clear = update = pop = popitem = setdefault = _unsupported
    hopping = tumbling = using_window = _unsupported

    async def on_start(self) -> None:
        """Nothing to start: units own the state."""

    @property
    def changelog_topic_name(self) -> str:
        return self.spec.changelog


class TableManager(FaustTableManager):  # type: ignore[misc]
    """Keeps Faust's registry of tables. Recovery, changelogs and offsets are the units' business."""

    def add(self, table: Any) -> Any:
        if self._tables_finalized.is_set():
            raise RuntimeError("tables are declared before the app starts")
        if table.name in self:
            raise ValueError(f"table {table.name!r} already exists")
        self[table.name] = table
        return table

    @property
    def recovery(self) -> NoReturn:
        raise RuntimeError("Faust's recovery is not used")

    async def on_start(self) -> None:
        self._tables_finalized.set()
        self._tables_registered.set()

    async def on_stop(self) -> None:
        await self.app._fetcher.stop()

    def on_partitions_revoked(self, *_: Any) -> None:
        pass

    def persist_offset_on_commit(self, *_: Any) -> NoReturn:
        raise RuntimeError("offsets travel in transactions only")

    async def on_rebalance(self, *_: Any, **__: Any) -> None:
        """Let messages flow again; units deliver when they are restored."""
        self._recovery_started.set()
        app = self.app
        app.flow_control.resume()
        app.consumer.resume_flow()
        await app._fetcher.maybe_start()
        app.loop.call_soon(app.on_rebalance_end)

    async def wait_until_recovery_completed(self) -> bool:
        return False
