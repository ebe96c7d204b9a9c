"""Observations into library.observed, in the order they were sent, each acknowledged by all in-sync replicas."""

from __future__ import annotations

from typing import Final, Self

from schemas.library import Observation
from schemas.topics import LIBRARY_OBSERVED
from streams.runtime.commands import command_partition
from streams.runtime.contract import Contract
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.outlet import Handed, Outlet
from streams.runtime.publisher import Record
from streams.runtime.settings import KafkaSettings

PIECE_RECORDS: Final = 1_000
PIECE_BYTES: Final = 1024 * 1024


class ObservedSink:
    """Of one scan; use as a context manager. Not thread-safe. Records go in pieces, and a piece is acknowledged before
    the next is handed over: what is in the log is always a beginning of what was sent. While a piece is on its way the
    next is made.
    """

    def __init__(
        self, kafka: KafkaSettings, contract: Contract, source_id: str, failpoint: Failpoint = disarmed
    ) -> None:
        self._contract = contract
        self._key = source_id.encode()
        self._partition = command_partition(source_id)
        self._failpoint = failpoint
        self._outlet = Outlet(kafka)
        self._waiting: list[Record] = []
        self._bytes = 0
        self._under_way: Handed | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._outlet.close()

    def send(self, event: Observation) -> None:
        """Raises Unavailable when a piece is full and the one before it was not delivered: then nothing more may be
        sent."""
        value = self._contract.encode(event)
        self._waiting.append(Record(LIBRARY_OBSERVED.name, self._partition, self._key, value))
        self._bytes += len(value)
        if len(self._waiting) >= PIECE_RECORDS or self._bytes >= PIECE_BYTES:
            self._hand_over()

    def flush(self) -> None:
        """Return when everything sent is in the log. Raises Unavailable, then nothing more may be sent."""
        self._hand_over()
        self._arrived()

    def _hand_over(self) -> None:
        self._arrived()
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if waiting:
            self._under_way = self._outlet.begin(waiting)

    def _arrived(self) -> None:
        """Return when what was handed over is in the log."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            self._outlet.end(under_way)
            self._failpoint("work.observed")
