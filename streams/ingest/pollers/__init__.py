"""Media servers that push nothing or too little, asked at intervals; only what is new becomes a report."""

from __future__ import annotations

from streams.ingest.pollers.poll import FORMAT, Poll, Polled
from streams.ingest.pollers.schedule import Result, Scheduler, Source

__all__ = ["FORMAT", "Poll", "Polled", "Result", "Scheduler", "Source"]
