"""Upstream users to ``user_ref``: random, one per (source, upstream user), acknowledged before first use.

    memory ─miss─► core.users ─unknown─► what identity.users has, else random ─► insert, re-select
                                                     ─► identity.users acknowledged ─► marked, remembered

Two doors that meet a person at the same time both insert; the table lets one win and both read it back. Both
may publish; it is the same key and value. With the database away, people met lately still pass. A table that was
restored to an older state is brought up to the log (identities.py): nobody gets a second user_ref.

Who was forgotten is known from markers in the log, and from the table while the log can't be read. What an account
played before that is refused; what it plays later is of somebody new. A forgotten user_ref means nobody for ever.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import uuid
from collections.abc import Collection, Mapping

from schemas.placement import partition_of
from schemas.topics import IDENTITY_USERS
from streams.ingest.identities import Identities, NothingWritten
from streams.runtime.clock import Clock
from streams.runtime.database import DatabaseAway
from streams.runtime.memory import Memory
from streams.runtime.people import PeopleStore, Person
from streams.runtime.publisher import Publisher, Record

REMEMBERED_MAX = 100_000
FRESH_S = 60.0
FOR_EVER = 2**63 - 1
NEVER = -1
# Nobody can be linked or forgotten while the table is away, so what was known when it went stays true.
STALE_S = 24 * 3600.0
_FORGOTTEN = "forgotten:"


def identity_record(hash_key: bytes, source_id: str, upstream_user: str, user_ref: str) -> Record:
    """What says in identity.users that this account is this person."""
    key = identity_key(hash_key, source_id, upstream_user)
    return Record(IDENTITY_USERS.name, partition_of(key), key, user_ref.encode())


def marker_of_account(hash_key: bytes, key: bytes) -> bytes:
    """Where identity.users says since when the account with this ``identity_key`` is forgotten."""
    return hmac.new(hash_key, b"\0account\0" + key, hashlib.sha256).hexdigest().encode()


def marker_of_person(hash_key: bytes, user_ref: str) -> bytes:
    """Where identity.users says since when there is nobody of this user_ref any more."""
    return hmac.new(hash_key, f"\0person\0{user_ref}".encode(), hashlib.sha256).hexdigest().encode()


def marker_value(since_ms: int) -> bytes:
    return f"{_FORGOTTEN}{since_ms}".encode()


def marked_since(value: bytes | str | None) -> int | None:
    """Since when, epoch ms; None when ``value`` is no marker's."""
    text = value.decode() if isinstance(value, bytes) else value or ""
    since = text.removeprefix(_FORGOTTEN)
    return int(since) if since != text and since.isdecimal() else None


def identity_key(hash_key: bytes, source_id: str, upstream_user: str) -> bytes:
    """The key of a person in identity.users: HMAC-SHA-256 of source NUL upstream user, in hex.

    Without ``hash_key`` nobody can tell from the topic who is in it, not even by trying names.
    """
    return hmac.new(hash_key, f"{source_id}\0{upstream_user}".encode(), hashlib.sha256).hexdigest().encode()


class People:
    def __init__(
        self,
        store: PeopleStore,
        publisher: Publisher,
        hash_key: bytes,
        clock: Clock,
        identities: Identities | None = None,
    ) -> None:
        self._store = store
        self._publisher = publisher
        self._hash_key = hash_key
        self._identities = identities or NothingWritten()
        self._memory = Memory[bytes, str](clock, size=REMEMBERED_MAX, fresh_s=FRESH_S, stale_s=STALE_S)
        self._forgotten = Memory[bytes, int](clock, size=REMEMBERED_MAX, fresh_s=FRESH_S, stale_s=STALE_S)
        self._identities.tell(self._changed)

    async def forgotten(self, source_id: str, names: Collection[str]) -> dict[str, int]:
        """Those who were forgotten, with since when, epoch ms: accounts as the source names them, and user_refs, which
        are FOR_EVER. With the table away, as far as the log was read; raises nothing."""
        keys = {name: self.key_of(source_id, name) for name in names}
        asked = [name for name, key in keys.items() if self._forgotten.fresh(key) is None]
        if asked:
            # Without the table the log has to do.
            with contextlib.suppress(DatabaseAway):
                known = await self._store.forgotten([keys[name].decode() for name in asked], asked)
                for name in asked:
                    since = FOR_EVER if name in known else known.get(keys[name].decode(), NEVER)
                    self._forgotten.learn(keys[name], since)
        found: dict[str, int] = {}
        for name, key in keys.items():
            account = marked_since(self._identities.seen(marker_of_account(self._hash_key, key)))
            since = max(self._forgotten.stale(key) or NEVER, NEVER if account is None else account)
            since = FOR_EVER if self._is_nobody(name) else since
            if since != NEVER:
                found[name] = since
        return found

    def _is_nobody(self, user_ref: str) -> bool:
        """Whether the log says that this user_ref was forgotten."""
        return self._identities.seen(marker_of_person(self._hash_key, user_ref)) is not None

    async def refs(self, source_id: str, upstream_users: Collection[str]) -> dict[str, str]:
        """The user_ref of each, made when new.

        Raises DatabaseAway when the table is away and one of them is not remembered, BrokerAway when a new
        one can't be acknowledged, UnknownSource.
        """
        refs, missing = await self._look_up(source_id, upstream_users)
        people = {name: person for name, person in missing.items() if person is not None}
        unknown = {name: self.key_of(source_id, name) for name in missing if name not in people}
        if unknown:
            written = await self._identities.current(unknown.values())
            proposed = {name: written.get(key) or uuid.uuid4().hex for name, key in unknown.items()}
            people |= await self._store.add(source_id, proposed)
        await self._acknowledge(source_id, {name: p.user_ref for name, p in people.items() if not p.published})
        self._learn(source_id, people)
        return refs | {name: person.user_ref for name, person in people.items()}

    def key_of(self, source_id: str, upstream_user: str) -> bytes:
        """``identity_key`` under this deployment's key."""
        return identity_key(self._hash_key, source_id, upstream_user)

    def remembered(self, source_id: str, upstream_users: Collection[str]) -> dict[str, str]:
        """The user_ref of those who were met lately: for when nobody else can be asked."""
        found = {name: self._memory.stale(self.key_of(source_id, name)) for name in upstream_users}
        return {name: ref for name, ref in found.items() if ref is not None and not self._is_nobody(ref)}

    async def known(self, source_id: str, upstream_users: Collection[str]) -> dict[str, str]:
        """The user_ref of those who are known; nobody is made. Raises as ``refs``."""
        refs, missing = await self._look_up(source_id, upstream_users)
        return refs | {name: person.user_ref for name, person in missing.items() if person is not None}

    async def _look_up(self, source_id: str, names: Collection[str]) -> tuple[dict[str, str], dict[str, Person | None]]:
        """Those remembered, and for the others what the table says, brought up to the log."""
        keys = {name: self.key_of(source_id, name) for name in names}
        refs = {
            name: ref
            for name, key in keys.items()
            if (ref := self._memory.fresh(key)) is not None and not self._is_nobody(ref)
        }
        asked = [name for name in names if name not in refs]
        if not asked:
            return refs, {}
        try:
            found = dict(await self._store.find(source_id, asked))
            for name in [name for name, person in found.items() if self._is_nobody(person.user_ref)]:
                # A table restored to before that, or one that is just being cleared.
                await self._store.drop(source_id, name, found.pop(name).user_ref)
            await self._bring_up(source_id, keys, found)
        except DatabaseAway:
            old = {
                name: ref
                for name in asked
                if (ref := self._memory.stale(keys[name])) is not None and not self._is_nobody(ref)
            }
            if len(old) < len(asked):
                raise
            return refs | old, {}
        return refs, {name: found.get(name) for name in asked}

    async def _bring_up(self, source_id: str, keys: Mapping[str, bytes], found: dict[str, Person]) -> None:
        """Where the log says another user_ref than the table, the log is right, and the table is told so."""
        differing = [
            name for name, person in found.items() if self._identities.seen(keys[name]) not in (None, person.user_ref)
        ]
        if not differing:
            return
        # As of now: what was read may be older than the table. What the log has now is never older: a link is
        # committed in the table when it is in the log.
        current = await self._identities.current([keys[name] for name in differing])
        fresh = await self._store.find(source_id, differing)
        for name in differing:
            ref, person = current.get(keys[name]), fresh.get(name)
            if ref is not None and person is not None and person.user_ref != ref:
                await self._store.correct(source_id, name, ref)
                person = Person(ref, True)
            if person is not None:
                found[name] = person

    def _learn(self, source_id: str, people: Mapping[str, Person]) -> None:
        for name, person in people.items():
            self._memory.learn(self.key_of(source_id, name), person.user_ref)

    def _changed(self, key: bytes, user_ref: str | None) -> None:
        """The log has news of somebody: who is remembered is remembered as of now."""
        if user_ref is None:
            self._memory.forget(key)
        elif self._memory.stale(key) is not None:
            self._memory.learn(key, user_ref)

    async def _acknowledge(self, source_id: str, refs: Mapping[str, str]) -> None:
        if not refs:
            return
        await self._publisher.publish(
            [identity_record(self._hash_key, source_id, name, user_ref) for name, user_ref in refs.items()]
        )
        try:
            await self._store.mark_published(source_id, refs.keys())
        except DatabaseAway:
            # Kafka has them, which is what counts; the next door publishes the same once more.
            return
