"""One bad record is a dead letter; a flood of them is a fault of ours or of a sender, and stops the projection.

The breaker is a row in PostgreSQL, so it stays open over restarts until an operator has looked and resumed it.
Records of the flood that tripped it are then let through as the dead letters they are.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from projections.base import Connection
from streams.runtime.errors import ConfigurationError

IN_A_ROW_MAX = 100
WINDOW = 1_000
IN_WINDOW_MAX = 100
"""10 % of the window."""


class FloodGuard:
    """Counts outcomes in the order of the log. Only batches that were committed count (``keep``)."""

    def __init__(self) -> None:
        self._recent: deque[bool] = deque(maxlen=WINDOW)
        self._in_a_row = 0

    def trips(self, dead: Sequence[bool]) -> str | None:
        """Why a batch with these outcomes must not be committed, or None. Counts nothing yet."""
        recent, in_a_row = deque(self._recent, maxlen=WINDOW), self._in_a_row
        in_window = sum(recent)
        for is_dead in dead:
            in_window += is_dead - (recent[0] if len(recent) == WINDOW else 0)
            recent.append(is_dead)
            in_a_row = in_a_row + 1 if is_dead else 0
            if in_a_row >= IN_A_ROW_MAX:
                return f"{in_a_row} dead letters in a row"
            if in_window > IN_WINDOW_MAX:
                return f"{in_window} dead letters among the last {WINDOW:,} records"
        return None

    def keep(self, dead: Sequence[bool]) -> None:
        """Count a committed batch."""
        for is_dead in dead:
            self._recent.append(is_dead)
            self._in_a_row = self._in_a_row + 1 if is_dead else 0


@dataclass(frozen=True, slots=True)
class Breaker:
    """State of a consumer's breaker. ``through``: partition to last offset of the flood that tripped it."""

    reason: str
    open: bool
    through: Mapping[int, int]


def read_breaker(tx: Connection, consumer: str) -> Breaker | None:
    """The consumer's breaker; None when it never tripped."""
    row = tx.execute(
        "SELECT reason, resumed_at IS NULL, through FROM model.breakers WHERE consumer = %s", (consumer,)
    ).fetchone()
    return row and Breaker(row[0], row[1], {int(partition): int(offset) for partition, offset in row[2].items()})


def open_breaker(tx: Connection, consumer: str, reason: str, through: Mapping[int, int]) -> None:
    """Stop this consumer, over restarts, until somebody resumes it."""
    tx.execute(
        "INSERT INTO model.breakers (consumer, reason, through) VALUES (%s, %s, %s)"
        " ON CONFLICT (consumer) DO UPDATE SET reason = excluded.reason, through = excluded.through,"
        " opened_at = now(), resumed_at = NULL",
        (consumer, reason, json.dumps(through)),
    )


def refusal(consumer: str, reason: str) -> ConfigurationError:
    """What a consumer with an open breaker ends with."""
    return ConfigurationError(
        f"{consumer} stopped: {reason}. The batch was not committed, and nothing was skipped. Find out who sent it "
        f"(its topic and offsets are in the log) and mend that, then 'playhead dlq resume {consumer}' and start again."
    )


def resume(conninfo: Mapping[str, Any], consumer: str) -> bool:
    """Close the breaker; False when it was not open. What tripped it becomes dead letters at the next start."""
    with psycopg.connect(**dict(conninfo)) as connection:
        done = connection.execute(
            "UPDATE model.breakers SET resumed_at = now() WHERE consumer = %s AND resumed_at IS NULL", (consumer,)
        )
        return done.rowcount == 1
