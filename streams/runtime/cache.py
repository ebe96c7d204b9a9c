"""The cache as readers use it: look, read what is missing, offer it. Never needed for a right answer.

    look ─ hit ──► answer
      │─ fill ──► read PostgreSQL ─► offer under the token ─► answer
      │─ busy ──► wait a little, look again; then read as below
      └─ closed ─► read PostgreSQL ─► offer without a token: nothing older is shown from now on ─► answer

What a request reads itself was read after the request began, so it is never older than what its sender has seen. A
cached answer is shown only while nobody has seen, or was told of, anything newer: a fill is taken only when since its
``look`` no other answer was offered and no floor rose above it (cache_scripts.py).

Versions of a key compare: (model_epoch, log_epoch, offset) in the one partition that is its home.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypeVar

from valkey.asyncio import BlockingConnectionPool, Valkey
from valkey.asyncio.retry import Retry
from valkey.backoff import NoBackoff
from valkey.exceptions import ValkeyError

from schemas.events import WHOLE_MODEL
from streams.runtime import cache_scripts as scripts
from streams.runtime import metrics
from streams.runtime.circuit import Circuit
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.errors import ConfigurationError
from streams.runtime.failures import failed
from streams.runtime.memory import Memory
from streams.runtime.settings import Settings

HEAVY_PREFIX: Final = "playhead:heavy:"
HEAVY_S: Final = 3_600
"""So long after it was read last a heavy list is kept in the cache before it is asked for."""
OPEN_MS: Final = 1_500
"""How long the cache stays open unless its worker says again that it may."""
TIMEOUT_S: Final = OPEN_MS / 1000 + 0.1
"""Longest wait for Valkey. Not shorter: when a frozen one is given up, it must not count as open any more, so that
what is then read past it can't be followed by something older from it."""
REST_S: Final = 1.0
CONNECTIONS_MAX: Final = 32
BUSY_WAIT_S: Final = 0.3
DEPS_MAX: Final = 2_000
VALUE_BYTES_MAX: Final = 2**20
_BUSY_FIRST_S, _BUSY_MAX_S = 0.005, 0.04
OWED_MAX: Final = 10_000
_PAID_AT_ONCE: Final = 1_000
_AWAY = (ValkeyError, OSError, TimeoutError)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class Stamp:
    """A version of a cache key."""

    model_epoch: int
    log_epoch: int
    offset: int

    def __str__(self) -> str:
        return f"{self.model_epoch}.{self.log_epoch}.{self.offset}"


_FIRST: Final = Stamp(0, 0, -1)
"""Older than anything there is."""
_EVERY_LOG: Final = 2**31
"""Beyond all log epochs of a model."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a reader found.

    ``document``: the value as JSON types. ``deps``: every key it depends on, each with the version it was read at, the
    first being the key it is kept under; None: it is not to be kept. ``shows``: what who gets it has seen of keys; no
    answer shows less of them from now on.
    """

    value: T
    document: Any = None
    deps: Sequence[tuple[str, Stamp]] | None = None
    shows: Sequence[tuple[str, Stamp]] = ()


def url_of(settings: Settings) -> str | None:
    """Where the cache is. Raises ConfigurationError for what is no address of a Valkey."""
    if settings.cache.url is None:
        return None
    url = settings.cache.url.get_secret_value()
    if not url.startswith(("valkey://", "valkeys://", "redis://", "rediss://")):
        raise ConfigurationError("PLAYHEAD_CACHE__URL is no valkey:// or valkeys:// address")
    return url


class Cache:
    """One process's way to the cache; use as an async context manager. No method raises because Valkey is away."""

    def __init__(self, url: str | None, *, clock: Clock | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """``url`` None: there is no cache, and every read goes to its reader."""
        self._circuit = Circuit("valkey", clock or SystemClock(), rest_s=REST_S)
        # Of each key the newest that was shown while Valkey was away. How often that was more than can be kept in mind;
        # after the last of these times that was looked at, the generation that was open then.
        self._owed: dict[str, Stamp] = {}
        self._overflows = 0
        self._refused = (0, "")
        self._noted = Memory[str, bool](clock or SystemClock(), size=1_000, fresh_s=HEAVY_S / 10)
        self._valkey: Valkey | None = None
        if url is not None:
            self._valkey = Valkey.from_pool(
                BlockingConnectionPool.from_url(
                    url,
                    max_connections=CONNECTIONS_MAX,
                    timeout=timeout_s,
                    socket_timeout=timeout_s,
                    socket_connect_timeout=timeout_s,
                    retry=Retry(NoBackoff(), 0),
                )
            )
            self._look = self._valkey.register_script(scripts.LOOK)
            self._offer = self._valkey.register_script(scripts.OFFER)
            self._raise = self._valkey.register_script(scripts.RAISE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._valkey is not None:
            await self._valkey.aclose(close_connection_pool=True)

    async def through(
        self,
        key: str,
        variant: str,
        read: Callable[[], Awaitable[Answer[T]]],
        restore: Callable[[Any], T],
        *,
        fresh: bool = False,
    ) -> T:
        """What ``read`` answers, or what it answered before and nobody knows to be stale: then ``restore`` makes it
        from the document. ``variant`` tells answers of one key apart (a page size). ``fresh``: read in any case."""
        kind = key.partition(":")[0]
        if self._valkey is None:
            return (await read()).value
        outcome, generation, token, document = await self._looked(key, variant, fresh)
        metrics.CACHE_READS.labels(kind, "fresh" if fresh and outcome == "fill" else outcome).inc()
        if outcome == "hit":
            return restore(json.loads(document))
        answer = await read()
        await self._offered(key, variant, token, generation, answer)
        return answer.value

    async def raise_floors(self, newer: Iterable[tuple[str, Stamp]]) -> None:
        """Nothing below these versions is shown from now on, as if the worker had come that far already."""
        shown = list(newer)
        if shown and self._valkey is not None and await self._call(self._raise, *_floors(shown)) is None:
            self._owe(shown)

    async def note_heavy(self, key: str) -> None:
        """Somebody reads this list, and it is much to read."""
        if self._valkey is None or self._circuit.is_open or self._noted.fresh(key):
            return
        self._noted.learn(key, True)
        with contextlib.suppress(*_AWAY):
            await self._valkey.set(HEAVY_PREFIX + key, 1, ex=HEAVY_S)

    async def _looked(self, key: str, variant: str, fresh: bool) -> tuple[str, str, str, bytes]:
        """(outcome, generation, token, document): hit, fill with a token, busy after waiting in vain, closed, away."""
        token = secrets.token_hex(8)
        deadline = time.monotonic() + BUSY_WAIT_S
        pause = _BUSY_FIRST_S
        while True:
            overflows = self._overflows
            found = await self._call(self._look, key, variant, token, scripts.TOKEN_TTL_MS, int(fresh))
            if found is None:
                return "away", "", "", b""
            outcome = found[0].decode()
            generation = "" if outcome == "closed" else found[1].decode()
            if overflows > self._refused[0]:
                # More was shown while Valkey was away than could be kept in mind: not before it begins anew.
                self._refused = overflows, generation
            if outcome == "closed" or generation == self._refused[1]:
                return "closed", "", "", b""
            if outcome == "hit":
                return "hit", generation, "", found[2]
            if outcome == "fill":
                return "fill", generation, token, b""
            # Somebody reads it at this moment: once in a while that takes longer than reading it as well.
            fresh = time.monotonic() + pause > deadline
            if not fresh:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _BUSY_MAX_S)

    async def _offered(self, key: str, variant: str, token: str, generation: str, answer: Answer[Any]) -> None:
        deps = answer.deps
        if deps is None:
            if not token:
                return
            # Nothing to keep, and nobody is to wait for it.
            deps, token = [(key, _FIRST)], ""
        value = json.dumps(answer.document) if token else ""
        if len(deps) > DEPS_MAX or len(value) > VALUE_BYTES_MAX:
            token = value = ""
        # Of a model that is live no more nothing is shown, whoever hears of the next one first.
        model = WHOLE_MODEL, Stamp(deps[0][1].model_epoch, _EVERY_LOG, 0)
        read_at = json.dumps([[name, str(stamp)] for name, stamp in (*deps, model)])
        said = (key, variant, token, generation, read_at, value, scripts.ENTRY_TTL_S, *_flat(answer.shows))
        done = await self._call(self._offer, *said)
        if done is None:
            self._owe((*(answer.deps or ()), *answer.shows))
        metrics.CACHE_FILLS.labels("away" if done is None else done.decode()).inc()

    def _owe(self, shown: Iterable[tuple[str, Stamp]]) -> None:
        """What can't be said now is said later, before anything else is asked: what was shown must not be followed by
        something older."""
        for key, stamp in shown:
            self._owed[key] = max(stamp, self._owed.get(key, stamp))
        if len(self._owed) > OWED_MAX:
            self._owed.clear()
            self._overflows += 1

    async def _pay(self) -> None:
        """Say some of what is owed; what is newer than what was said stays owed."""
        said = list(itertools.islice(self._owed.items(), _PAID_AT_ONCE))
        await self._raise(args=_floors(said))
        for key, stamp in said:
            if self._owed.get(key) == stamp:
                del self._owed[key]

    async def _call(self, script: Any, *arguments: object) -> Any:
        """What a script answers; None when Valkey is away."""
        if not self._circuit.enter():
            return None
        began = time.monotonic()
        try:
            while self._owed:
                await self._pay()
            answer = await script(args=arguments)
        except _AWAY as exc:
            self._circuit.failed()
            failed("valkey", exc)
            return None
        except BaseException:
            self._circuit.abandoned()
            raise
        self._circuit.succeeded()
        metrics.CACHE_SECONDS.observe(time.monotonic() - began)
        return answer


def _floors(newer: Iterable[tuple[str, Stamp]]) -> list[str]:
    """What the script that raises floors is told, whichever generation is open."""
    return ["", "{}", *_flat(newer)]


def _flat(pairs: Iterable[tuple[str, Stamp]]) -> list[str]:
    return [str(part) for pair in pairs for part in pair]
