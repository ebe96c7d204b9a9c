"""HTTP doors into the log: the client API, and the addresses media servers send their hooks to."""

from streams.ingest.http.router import ingest_router

__all__ = ["ingest_router"]
