"""``playhead cache``: what became stale in the log becomes stale in Valkey."""

from __future__ import annotations


def cache() -> None:
    """Keep the cache until SIGTERM or Ctrl-C: invalidations in, floors out; without it every read asks PostgreSQL.

    Needs PLAYHEAD_CACHE__URL. Start a second one to take over at once: they share what they know, in Valkey itself.
    After a restart of Valkey, a gap in the log or a rebuilt model the cache begins anew, empty.

    Example:  PLAYHEAD_CACHE__URL=valkey://:password@127.0.0.1:6379/0 playhead cache
    """
    from streams.cli import role
    from streams.cli.stopping import until_signal
    from streams.effects.cache.heavy import heavy_lists
    from streams.effects.cache.keeper import Keeper
    from streams.runtime import failpoints
    from streams.runtime.cache import url_of
    from streams.runtime.contract import Contract
    from streams.runtime.errors import ConfigurationError

    settings = role.begin("cache")
    url = url_of(settings)
    if url is None:
        raise ConfigurationError("no cache to keep: set PLAYHEAD_CACHE__URL or PLAYHEAD_CACHE__URL_FILE")
    with until_signal() as stop, heavy_lists(settings, url) as heard:
        failpoint = failpoints.armed(settings.failpoints)
        Keeper(settings, url, Contract.of(settings), failpoint=failpoint, heard=heard).run(stop)
