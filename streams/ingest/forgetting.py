"""Forgetting, as the log is told of it, and as doors hear of it.

    playback.reported   UserForgotten, in the person's partition: the agent, then the read models, delete
    identity.users      account's key: tombstone      marker of the account, marker of the user_ref: since when

Markers are what every door and every restored database learns it from: keyed hashes like all keys of that topic, apart
from those of accounts, so that whoever the account is next has a key as before. What the log lacks of what the database
keeps is said (again); what the database lacks of what the log says (it was restored) is kept and erased.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from schemas.events import UserForgotten
from schemas.placement import partition_of
from schemas.topics import IDENTITY_USERS, PLAYBACK_REPORTED
from streams.ingest.people import identity_key, marked_since, marker_of_account, marker_of_person, marker_value
from streams.runtime.contract import Contract
from streams.runtime.errors import Unavailable
from streams.runtime.forgetting import Kept, Whom
from streams.runtime.people import Account
from streams.runtime.publisher import Record
from streams.runtime.quiet import quieted

ASKED_BY: Final = "operator"
READ_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Telling:
    """What the log does not say yet. ``people``: of how many it did not know."""

    records: tuple[Record, ...]
    people: tuple[str, ...]


def telling(
    kept: Kept,
    written: Mapping[bytes, bytes],
    hash_key: bytes,
    contract: Contract,
    now_ms: int,
    correlation_id: str,
    *,
    again: Collection[str] = (),
) -> Telling:
    """What is to be said so that a log that says ``written`` in identity.users says all of ``kept``; of those in
    ``again`` whatever it says. Publish what is of playback.reported first: a marker stands for that having been asked.
    """
    records: list[Record] = []
    people: list[str] = []
    for user_ref, since in sorted(kept.people.items()):
        marker = marker_of_person(hash_key, user_ref)
        if marked_since(written.get(marker)) is not None and user_ref not in again:
            continue
        event = UserForgotten(
            event_id=uuid.uuid4().hex,
            correlation_id=correlation_id,
            source_id=ASKED_BY,
            received_at=now_ms,
            user_ref=user_ref,
        )
        key = user_ref.encode()
        records += [
            Record(PLAYBACK_REPORTED.name, partition_of(key), key, contract.encode(event)),
            _identity(marker, marker_value(since)),
        ]
        people.append(user_ref)
    for account, since in sorted(kept.accounts.items()):
        key = account.encode()
        marker = marker_of_account(hash_key, key)
        if (marked_since(written.get(marker)) or -1) < since:
            records.append(_identity(marker, marker_value(since)))
        if written.get(key, b"").decode() in kept.people:
            records.append(_identity(key, b""))
    return Telling(tuple(records), tuple(people))


def heard(accounts: list[Account], written: Mapping[bytes, bytes], hash_key: bytes) -> Whom:
    """Of ``accounts`` those the log says are forgotten: a database restored to before that still has their names."""
    refs = {
        ref
        for one in accounts
        for ref in (one.user_ref, one.own_ref)
        if ref is not None and marked_since(written.get(marker_of_person(hash_key, ref))) is not None
    }
    return Whom(tuple(sorted(refs)), tuple(one for one in accounts if one.user_ref in refs))


def account_hash(hash_key: bytes, source_id: str, upstream_user: str) -> str:
    """What core.forgotten_accounts calls an account: its key in identity.users."""
    return identity_key(hash_key, source_id, upstream_user).decode()


def read_identities(client: Mapping[str, Any], *, timeout_s: float = READ_S) -> dict[bytes, bytes]:
    """All that identity.users says now, tombstones applied. Raises Unavailable."""
    consumer = Consumer(
        {
            **client,
            "group.id": "playhead-forgetting",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        },
        logger=quieted("librdkafka.forgetting"),
    )
    found: dict[bytes, bytes] = {}
    left = set(range(IDENTITY_USERS.partitions))
    try:
        consumer.assign([TopicPartition(IDENTITY_USERS.name, p, OFFSET_BEGINNING) for p in left])
        while left:
            first = consumer.poll(timeout_s)
            if first is None:
                raise Unavailable("who is known can't be read from Kafka in time")
            for message in (first, *consumer.consume(500, timeout=0)):
                error, key, value = message.error(), message.key(), message.value()
                if error is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise Unavailable(f"who is known can't be read from Kafka: {error.name()}")
                    left.discard(message.partition() or 0)
                elif key is not None and value:
                    found[key] = value
                elif key is not None:
                    found.pop(key, None)
    except KafkaException as exc:
        raise Unavailable(f"who is known can't be read from Kafka: {exc.args[0].name()}") from exc
    finally:
        consumer.close()
    return found


def _identity(key: bytes, value: bytes) -> Record:
    return Record(IDENTITY_USERS.name, partition_of(key), key, value)


__all__ = ["Telling", "account_hash", "heard", "read_identities", "telling"]
