"""Named places where a fault can be made on purpose; off, and one dictionary look-up, unless asked for.

``PLAYHEAD_FAILPOINTS="projection.rows_written=kill:0.01,relay.published=stop"`` makes the process hit the
action at the point with that probability (default 1). Actions: ``kill`` (SIGKILL to itself), ``stop``
(SIGSTOP: freezes until somebody sends SIGCONT), ``raise`` (RuntimeError), ``hang`` (sleeps for an hour).
Points are listed in POINTS; an unknown one is refused, so a renamed point cannot silently disarm a test.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from streams.runtime.errors import ConfigurationError

POINTS: dict[str, str] = {
    "agent.fetched": "a batch was taken from the source topic",
    "agent.table_written": "the agent has come back for more; nothing was sent yet",
    "agent.produced": "outputs and changelog are handed to the producer, not flushed",
    "agent.flushed": "all were acknowledged, the offset is not in the transaction yet",
    "agent.before_commit": "everything is in the transaction, it is not committed",
    "agent.committed": "committed; the local store lags",
    "agent.stored": "the local store has the batch",
    "agent.restoring": "a piece of the changelog was replayed",
    "agent.revoked_midway": "partitions are being given away",
    "ingest.validated": "a request is valid, nothing was sent",
    "ingest.produced": "records are handed to the producer, not acknowledged",
    "ingest.acked": "acknowledged by Kafka, the client has no answer yet",
    "ingest.spooled": "on disk in the spool, the client has no answer yet",
    "ingest.drained": "sent from the spool and acknowledged, not deleted from it",
    "projection.tx_open": "the PostgreSQL transaction is open",
    "projection.rows_written": "rows are written, the outbox is not",
    "projection.outbox_written": "rows and outbox are written, the offset is not",
    "projection.offset_written": "all is written, not committed",
    "projection.committed": "committed in PostgreSQL; Kafka's group offset lags",
    "rebuild.seeded": "tables beside the live ones are made, not committed",
    "rebuild.rows_written": "rows beside the live ones are written, their offset is not",
    "rebuild.committed": "a batch beside the live model is committed",
    "rebuild.indexed": "the indexes left for the end are made",
    "rebuild.met": "all projections are held, both models are at equal offsets",
    "rebuild.switching": "the rebuilt tables are in place, not committed",
    "rebuild.switched": "the rebuilt model is live",
    "reconcile.checked": "one scope is compared, nothing is mended",
    "reconcile.compared": "a fold beside the live rows is compared, nothing is mended",
    "reconcile.refolded": "a read model is made anew from its log, the rest is not in the log",
    "reconcile.asked": "commands are in the log, reports and invalidations are not",
    "reconcile.told": "reports are in the log, invalidations are not",
    "forget.kept": "who is forgotten is kept in the database, the log knows nothing",
    "forget.asked": "the agent is asked, doors know nothing",
    "forget.told": "the log knows all, names are not erased",
    "work.claimed": "a task is leased, nothing of it is done",
    "work.observed": "a piece of what a scan saw is acknowledged",
    "forward.announced": "it is written down that a server is about to be told, it is not told",
    "forward.written": "a server is told, nobody has looked whether it kept it",
    "forward.noted": "what a server was told is noted as done, its task is not",
    "work.done": "a task is done, its row does not say so",
    "work.buried": "a task's dead letter is acknowledged, its row does not say so",
    "schedule.requested": "a scheduled scan is requested, its row is not moved on",
    "cache.read": "invalidations are read, the cache was told of none",
    "cache.raised": "the cache knows them, and how far the log was read",
    "cache.renewed": "the cache was said to be open for a moment more",
    "cache.opening": "everything is ready for a new generation, it is not open",
    "cache.opened": "a new, empty generation is open",
    "dlq.marked": "letters are marked as being redriven, nothing was appended",
    "dlq.appended": "their records are acknowledged, the letters not marked redriven",
    "dlq.done": "the letters are marked redriven",
    "dlq.folded": "a record was read again and folded, not committed",
    "dlq.reread": "that and the letter's mark are committed",
    "cache.page": "a page of a heavy list is in the cache, others are not",
    "relay.read_outbox": "outbox rows are read, nothing was published",
    "relay.published": "published and acknowledged, rows not deleted",
    "relay.deleted": "published rows are deleted and committed",
}
_ACTIONS = ("kill", "stop", "raise", "hang")
_HANG_S = 3600

Failpoint = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Armed:
    action: str
    probability: float


def disarmed(point: str) -> None:
    """The failpoint of production: does nothing."""


def armed(specification: str) -> Failpoint:
    """A failpoint function for ``specification``; ``disarmed`` when it is empty.

    Raises ConfigurationError for an unknown point, action or probability.
    """
    if not specification.strip():
        return disarmed
    table: dict[str, _Armed] = {}
    for item in specification.split(","):
        point, _, action = item.strip().partition("=")
        name, _, probability = action.partition(":")
        if point not in POINTS or name not in _ACTIONS:
            raise ConfigurationError(
                f"failpoint {item.strip()!r} is unknown; points: {', '.join(POINTS)}; actions: {', '.join(_ACTIONS)}"
            )
        try:
            chance = float(probability or 1)
        except ValueError:
            chance = -1.0
        if not 0 <= chance <= 1:
            raise ConfigurationError(f"failpoint {item.strip()!r}: the probability is not a number from 0 to 1")
        table[point] = _Armed(name, chance)
    dice = random.Random(os.getpid())  # noqa: S311 - decides when to fail, not a secret

    def hit(point: str) -> None:
        wanted = table.get(point)
        if wanted is None or dice.random() >= wanted.probability:
            return
        match wanted.action:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "raise":
                raise RuntimeError(f"failpoint {point}")
            case _:
                time.sleep(_HANG_S)

    return hit
