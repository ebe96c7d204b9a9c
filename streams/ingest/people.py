"""Upstream users to ``user_ref``: random, one per (source, upstream user), acknowledged before first use.

    memory ─miss─► core.users ─unknown─► insert, re-select ─► identity.users acknowledged ─► marked, remembered

Two doors that meet a person at the same time both insert; the table lets one win and both read it back. Both
may publish; it is the same key and value. With the database away, people met lately still pass.
"""

from __future__ import annotations

import hashlib
import hmac
import uuid
from collections.abc import Collection, Mapping

from schemas.placement import partition_of
from schemas.topics import IDENTITY_USERS
from streams.runtime.clock import Clock
from streams.runtime.database import DatabaseAway
from streams.runtime.memory import Memory
from streams.runtime.people import PeopleStore, Person
from streams.runtime.publisher import Publisher, Record

REMEMBERED_MAX = 100_000
FRESH_S = 60.0
STALE_S = 900.0


def identity_key(hash_key: bytes, source_id: str, upstream_user: str) -> bytes:
    """The key of a person in identity.users: HMAC-SHA-256 of source NUL upstream user, in hex.

    Without ``hash_key`` nobody can tell from the topic who is in it, not even by trying names.
    """
    return hmac.new(hash_key, f"{source_id}\0{upstream_user}".encode(), hashlib.sha256).hexdigest().encode()


class People:
    def __init__(self, store: PeopleStore, publisher: Publisher, hash_key: bytes, clock: Clock) -> None:
        self._store = store
        self._publisher = publisher
        self._hash_key = hash_key
        self._memory = Memory[tuple[str, str], str](clock, size=REMEMBERED_MAX, fresh_s=FRESH_S, stale_s=STALE_S)

    async def refs(self, source_id: str, upstream_users: Collection[str]) -> dict[str, str]:
        """The user_ref of each, made when new.

        Raises DatabaseAway when the table is away and one of them is not remembered, BrokerAway when a new
        one can't be acknowledged, UnknownSource.
        """
        refs, missing = await self._look_up(source_id, upstream_users)
        unknown = missing.keys() - {name for name, person in missing.items() if person is not None}
        people: dict[str, Person] = {name: person for name, person in missing.items() if person is not None}
        if unknown:
            people |= await self._store.add(source_id, {name: uuid.uuid4().hex for name in unknown})
        await self._acknowledge(source_id, {name: p.user_ref for name, p in people.items() if not p.published})
        for name, person in people.items():
            self._memory.learn((source_id, name), person.user_ref)
            refs[name] = person.user_ref
        return refs

    def key_of(self, source_id: str, upstream_user: str) -> bytes:
        """``identity_key`` under this deployment's key."""
        return identity_key(self._hash_key, source_id, upstream_user)

    def remembered(self, source_id: str, upstream_users: Collection[str]) -> dict[str, str]:
        """The user_ref of those who were met lately: for when nobody else can be asked."""
        found = {name: self._memory.stale((source_id, name)) for name in upstream_users}
        return {name: ref for name, ref in found.items() if ref is not None}

    async def known(self, source_id: str, upstream_users: Collection[str]) -> dict[str, str]:
        """The user_ref of those who are known; nobody is made. Raises as ``refs``."""
        refs, missing = await self._look_up(source_id, upstream_users)
        return refs | {name: person.user_ref for name, person in missing.items() if person is not None}

    async def _look_up(self, source_id: str, names: Collection[str]) -> tuple[dict[str, str], dict[str, Person | None]]:
        """Those remembered, and for the others what the table says."""
        refs = {name: ref for name in names if (ref := self._memory.fresh((source_id, name))) is not None}
        asked = [name for name in names if name not in refs]
        if not asked:
            return refs, {}
        try:
            found = await self._store.find(source_id, asked)
        except DatabaseAway:
            old = {name: ref for name in asked if (ref := self._memory.stale((source_id, name))) is not None}
            if len(old) < len(asked):
                raise
            return refs | old, {}
        return refs, {name: found.get(name) for name in asked}

    async def _acknowledge(self, source_id: str, refs: Mapping[str, str]) -> None:
        if not refs:
            return
        records: list[Record] = []
        for name, user_ref in refs.items():
            key = identity_key(self._hash_key, source_id, name)
            records.append(Record(IDENTITY_USERS.name, partition_of(key), key, user_ref.encode()))
        await self._publisher.publish(records)
        try:
            await self._store.mark_published(source_id, refs.keys())
        except DatabaseAway:
            # Kafka has them, which is what counts; the next door publishes the same once more.
            return
