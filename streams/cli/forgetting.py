"""Forgetting carried out: what the database keeps is told to the log, what the log says is kept, names are erased.

Every step may be repeated; killed between two, the next call goes on. Restoring a backup ends with it too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.topics import PLAYBACK_REPORTED
from streams.cli.admin import door_connection
from streams.ingest.forgetting import account_hash, heard, read_identities, telling
from streams.ingest.people import identity_key, marked_since, marker_of_account
from streams.runtime.clock import SystemClock
from streams.runtime.contract import Contract
from streams.runtime.failpoints import Failpoint
from streams.runtime.forgetting import Whom, erase, forget_in_copies, keep, kept, of_refs, read_models_know, whom
from streams.runtime.people import list_accounts
from streams.runtime.publisher import KafkaPublisher, Record
from streams.runtime.settings import Settings

LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Carried:
    """``told``: user_refs the log did not know to be forgotten; ``erased``: rows of core, by table; ``heard``: people
    of whom only the log knew."""

    told: tuple[str, ...]
    erased: dict[str, int]
    heard: int


def look(settings: Settings, person: str) -> Whom:
    """Whom it would be. Changes nothing."""
    with door_connection(settings) as connection:
        return whom(connection, person)


def forget(settings: Settings, person: str, correlation_id: str, failpoint: Failpoint) -> tuple[Whom, Carried]:
    """Forget a person, as far as the log and the names go. Raises Unavailable: then it is kept, or not, and repeating
    goes on with it."""
    hash_key = settings.identity.key()
    with door_connection(settings) as connection:
        who = whom(connection, person)
        keep(connection, who, lambda source, user: account_hash(hash_key, source, user), SystemClock().now_ms())
    failpoint("forget.kept")
    return who, carry_out(settings, correlation_id, failpoint, again=who.user_refs)


def carry_out(
    settings: Settings, correlation_id: str, failpoint: Failpoint, *, again: Sequence[str] = (), everybody: bool = False
) -> Carried:
    """Bring log and database to where both say of everybody who was forgotten that they are.

    ``again``: user_refs of whom playback.reported is told whatever the log says; ``everybody``: of all.
    """
    hash_key, now_ms = settings.identity.key(), SystemClock().now_ms()
    written = read_identities(settings.kafka.client())
    with door_connection(settings) as connection:
        told = heard(list_accounts(connection), written, hash_key)
        if told.user_refs:
            keys = [identity_key(hash_key, one.source_id, one.upstream_user) for one in told.accounts]
            since = [marked_since(written.get(marker_of_account(hash_key, key))) or 0 for key in keys]
            keep(connection, told, lambda source, user: account_hash(hash_key, source, user), max(since, default=0))
        known = kept(connection)
    contract = Contract.of(settings)
    try:
        wanted = frozenset(known.people) if everybody else frozenset(again)
        news = telling(known, written, hash_key, contract, now_ms, correlation_id, again=wanted)
    finally:
        contract.close()
    # The agent first: what a marker says is believed to have been asked of it.
    _publish(settings, [one for one in news.records if one.topic == PLAYBACK_REPORTED.name])
    failpoint("forget.asked")
    _publish(settings, [one for one in news.records if one.topic != PLAYBACK_REPORTED.name])
    failpoint("forget.told")
    with door_connection(settings) as connection:
        erased = erase(connection, of_refs(connection, sorted(known.people)))
    return Carried(news.people, erased, len(told.user_refs))


def wait_for_read_models(settings: Settings, user_refs: Sequence[str], seconds: float) -> bool:
    """Whether the read models have deleted all rows of these people, after at most ``seconds``; then they are deleted
    from tables kept for a rollback as well."""
    deadline = time.monotonic() + seconds
    while True:
        with door_connection(settings) as connection:
            if read_models_know(connection, user_refs) >= set(user_refs):
                forget_in_copies(connection, user_refs)
                return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_EVERY_S)


def _publish(settings: Settings, records: Sequence[Record]) -> None:
    async def work() -> None:
        async with KafkaPublisher(settings.kafka.client(), timeout_s=settings.http.publish_timeout_s) as publisher:
            await publisher.publish(records)

    if records:
        asyncio.run(work())
