"""Heavy lists that became stale are wanted in the cache again: noted when they are read, asked for when they change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from valkey import Valkey
from valkey.exceptions import ValkeyError

from schemas.events import CacheInvalidated
from streams.runtime import logs
from streams.runtime.blocking import BlockingDatabase
from streams.runtime.cache import HEAVY_PREFIX, TIMEOUT_S
from streams.runtime.errors import Unavailable
from streams.runtime.settings import Settings

_KIND: Final = "collection"
_WANT: Final = (
    "SELECT core.want_cache(key, source, epoch, version, correlation) FROM unnest(%s::text[], %s::text[], %s::int[],"
    " %s::bigint[], %s::text[]) AS wanted (key, source, epoch, version, correlation) ORDER BY key"
)
_log = logs.get(__name__)


class HeavyLists:
    """Told of invalidations by the keeper. Failing to ask is no failure: a page is read when somebody asks for it."""

    def __init__(self, database: BlockingDatabase, valkey: Valkey) -> None:
        self._database = database
        self._valkey = valkey

    def __call__(self, events: Sequence[CacheInvalidated]) -> None:
        newest: dict[str, CacheInvalidated] = {}
        for event in events:
            if event.cache_key.startswith(f"{_KIND}:"):
                newest[event.cache_key] = event
        if not newest:
            return
        try:
            noted = self._valkey.mget([HEAVY_PREFIX + key for key in newest])
            heavy = [event for event, at in zip(newest.values(), noted, strict=True) if at is not None]  # type: ignore[arg-type]
            if heavy:
                columns = (
                    [event.cache_key.partition(":")[2] for event in heavy],
                    [event.source_id for event in heavy],
                    [event.log_epoch for event in heavy],
                    [event.version for event in heavy],
                    [event.correlation_id for event in heavy],
                )
                self._database.run(lambda connection: connection.execute(_WANT.encode(), columns))
        except (Unavailable, ValkeyError, OSError) as exc:
            _log.warning("lists not asked for", error_class=type(exc).__name__)


@contextmanager
def heavy_lists(settings: Settings, url: str) -> Iterator[HeavyLists]:
    """As the database role worker. Raises ConfigurationError when its password is not set."""
    valkey = Valkey.from_url(url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)
    with BlockingDatabase(settings.postgres.conninfo("worker"), connections_max=1) as database:
        try:
            yield HeavyLists(database, valkey)
        finally:
            valkey.connection_pool.disconnect()
