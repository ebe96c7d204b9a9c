"""The outbox: what became stale, written in the transaction that made it so, so that neither exists alone."""

from __future__ import annotations

from collections.abc import Sequence

from projections.base import Connection, Invalidation
from schemas.events import WHOLE_MODEL

CHANNEL = "playhead_outbox"
"""PostgreSQL channel that wakes the relay; delivered at commit."""

BULK = ("item:", "collection:")
"""How keys of the library begin. A scan makes them stale by the hundred thousand, and what tells of playback does not
wait behind them."""

_COPY = (
    b"COPY model.outbox (cache_key, model_epoch, log_epoch, partition, version, correlation_id, event_id, source_id,"
    b" reason) FROM STDIN"
)


def write(tx: Connection, invalidations: Sequence[Invalidation]) -> None:
    """Add ``invalidations`` under the model epoch of now, and wake the relay when ``tx`` commits."""
    if not invalidations:
        return
    row = tx.execute("SELECT model_epoch FROM model.epoch").fetchone()
    assert row is not None
    with tx.cursor().copy(_COPY) as copy:
        for one in invalidations:
            copy.write_row(
                (
                    one.cache_key,
                    row[0],
                    one.log_epoch,
                    one.partition,
                    one.version,
                    one.correlation_id,
                    one.event_id,
                    one.source_id,
                    one.reason,
                )
            )
    tx.execute(f"NOTIFY {CHANNEL}".encode())


def void(tx: Connection, reason: str, correlation_id: str) -> int:
    """Rows changed and their versions do not tell: raise the model epoch, which every version begins with, and say that
    all copies are void. The model epoch from then on."""
    row = tx.execute("SELECT model.raise_epoch()").fetchone()
    assert row is not None
    write(tx, [Invalidation(WHOLE_MODEL, 1, 0, 0, correlation_id, correlation_id, "playhead", reason)])
    return int(row[0])
