"""Records of cache.invalidated as their followers take them: what each makes stale, even where it can't be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from confluent_kafka import Message

from schemas.events import MERGED, CacheInvalidated
from streams.runtime import logs
from streams.runtime.cache import Stamp
from streams.runtime.contract import Contract
from streams.runtime.errors import Permanent

NEVER: Final = Stamp(2**53 - 1, 0, 0)

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Invalidated:
    """One record at its place in the log. ``key``: what is stale. ``event`` None: the record can't be read."""

    partition: int
    offset: int
    key: str
    event: CacheInvalidated | None

    @property
    def floor(self) -> Stamp:
        """Nothing older is to be shown of the key; of what can't be read nothing is kept as long as floors last."""
        if self.event is None:
            return NEVER
        # With a merge no version moves: what was filled at this one is stale as well, until the next decision.
        beyond = self.event.version + (self.event.reason == MERGED)
        return Stamp(self.event.model_epoch, self.event.log_epoch, beyond)


def read_invalidation(contract: Contract, message: Message) -> Invalidated:
    """What a record of the log says; what can't be read is logged."""
    partition, offset = message.partition() or 0, message.offset() or 0
    try:
        event = contract.decode(message.value() or b"")
    except Permanent as exc:
        _log.error("an invalidation can't be read", partition=partition, cause=exc.cause)
        event = None
    if isinstance(event, CacheInvalidated):
        return Invalidated(partition, offset, event.cache_key, event)
    return Invalidated(partition, offset, (message.key() or b"").decode("utf-8", "replace"), None)
