"""Scans that workers ask for themselves: by schedule, as follow-ups, when files change, and again after a failure."""

from __future__ import annotations

from typing import Self

from streams.runtime import logs, metrics
from streams.runtime.clock import Clock
from streams.runtime.commands import command_record, reconcile_requested, scan_requested
from streams.runtime.contract import Contract
from streams.runtime.outlet import Outlet
from streams.runtime.settings import KafkaSettings

_log = logs.get(__name__)


class Requests:
    """Not thread-safe. As a context manager, closed at the end."""

    def __init__(self, kafka: KafkaSettings, contract: Contract, clock: Clock) -> None:
        self._outlet = Outlet(kafka)
        self._contract = contract
        self._clock = clock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def scan(
        self,
        source_id: str,
        requested_by: str,
        *,
        full: bool = False,
        replaces: int | None = None,
        correlation_id: str | None = None,
    ) -> int:
        """Ask for a scan; its generation. Raises Unavailable: then it may have been asked for all the same."""
        command = scan_requested(
            source_id,
            self._clock,
            requested_by=requested_by,
            full=full,
            replaces=replaces,
            correlation_id=correlation_id,
        )
        [place] = self._outlet.publish([command_record(self._contract, command)])
        metrics.SCANS_REQUESTED.labels(requested_by).inc()
        _log.info(
            "scan requested",
            source=source_id,
            by=requested_by,
            generation=place.offset,
            correlation_id=command.correlation_id,
        )
        return place.offset

    def reconcile(self, source_id: str, scope: str) -> None:
        """Ask for a comparison. Raises Unavailable: then it may have been asked for all the same."""
        command = reconcile_requested(source_id, self._clock, scope)
        self._outlet.publish([command_record(self._contract, command)])
        _log.info("comparison requested", source=source_id, scope=scope, correlation_id=command.correlation_id)

    def close(self) -> None:
        self._outlet.close()
