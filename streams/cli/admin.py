"""Connections of the administration commands."""

from __future__ import annotations

from collections.abc import Iterator
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
