"""What only a person can end: letters nobody has dealt with, projections a flood has stopped, no backup made lately.

None of it heals or shows by itself, so the relay, which every deployment has, counts it for the metrics.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Final

from prometheus_client import Gauge

from projections.base import Connection
from streams.runtime import metrics

EVERY_S: Final = 30.0

_LETTERS = b"""
SELECT d.cause_class, count(*) FROM model.dead_letters d LEFT JOIN core.dead_letter_marks m USING (letter_id)
WHERE model.letter_status(m.status, m.failed_at, d.failed_at) = 'open' GROUP BY 1"""
_STOPPED = b"SELECT consumer, 1 FROM model.breakers WHERE resumed_at IS NULL"
_BACKUP = b"SELECT extract(epoch FROM clock_timestamp() - max(made_at))::float8 FROM core.backups"


class Attention:
    """Counts now and then, and shows the counts in the metrics of this process."""

    def __init__(self) -> None:
        self._looked_at: float | None = None
        self._shown: dict[Gauge, set[str]] = {metrics.DEAD_LETTERS_OPEN: set(), metrics.BREAKERS_OPEN: set()}

    @property
    def due(self) -> bool:
        return self._looked_at is None or time.monotonic() - self._looked_at >= EVERY_S

    def look(self, tx: Connection) -> None:
        """Set the gauges to what is there now. A cause or a consumer that was shown before stays, as 0."""
        self._looked_at = time.monotonic()
        self._show(metrics.DEAD_LETTERS_OPEN, dict(tx.execute(_LETTERS).fetchall()))
        self._show(metrics.BREAKERS_OPEN, dict(tx.execute(_STOPPED).fetchall()))
        age_s = backup_age_s(tx)
        metrics.BACKUP_AGE_SECONDS.set(math.inf if age_s is None else max(0.0, age_s))

    def _show(self, gauge: Gauge, counts: Mapping[str, int]) -> None:
        shown = self._shown[gauge]
        shown.update(counts)
        for label in shown:
            gauge.labels(label).set(counts.get(label, 0))


def backup_age_s(tx: Connection) -> float | None:
    """How long ago the newest backup was made; None: there is none."""
    row = tx.execute(_BACKUP).fetchone()
    assert row is not None
    return None if row[0] is None else float(row[0])
