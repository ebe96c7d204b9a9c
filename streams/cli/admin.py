"""Connections of the administration commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from streams.runtime.errors import Unavailable
from streams.runtime.settings import Settings


@contextmanager
def door_connection(settings: Settings) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """One transaction as the role that writes sources and tokens; committed when the block ends well.

    Raises Unavailable when the database does not answer.
    """
    with answering(settings), psycopg.connect(**settings.postgres.conninfo("door")) as connection:
        yield connection


@contextmanager
def answering(settings: Settings) -> Iterator[None]:
    """Inside, a database that does not answer is Unavailable, in one sentence."""
    try:
        yield
    except psycopg.OperationalError as exc:
        where = f"{settings.postgres.host}:{settings.postgres.port}"
        reason = (str(exc).strip().splitlines() or ["no reason given"])[-1]
        raise Unavailable(f"PostgreSQL at {where} does not answer: {reason}") from exc


@contextmanager
def identified_connection(
    settings: Settings,
) -> Iterator[tuple[psycopg.Connection[tuple[Any, ...]], Callable[[str, str, str], None]]]:
    """``door_connection``, and what writes (source, account, user_ref) to identity.users.

    Commit comes after the write: where the two differ, doors believe the log. Raises Unavailable when PostgreSQL or
    Kafka is away; then nothing is changed for sure, and repeating is harmless.
    """
    import asyncio

    from streams.ingest.people import identity_record
    from streams.runtime.publisher import KafkaPublisher

    key = settings.identity.key

    def publish(source_id: str, account: str, user_ref: str) -> None:
        record = identity_record(key(), source_id, account, user_ref)

        async def work() -> None:
            async with KafkaPublisher(settings.kafka.client(), timeout_s=settings.http.publish_timeout_s) as publisher:
                await publisher.publish([record])

        asyncio.run(work())

    with door_connection(settings) as connection:
        yield connection, publish
