"""Who is meant: the table of people and the aliases of media, as the door asks them; and linking accounts.

The one place where an upstream user id meets a ``user_ref``. Nothing here logs, and errors quote no values.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import psycopg

from streams.runtime.database import Connection, Database
from streams.runtime.errors import Permanent
from streams.runtime.tokens import SyncConnection


@dataclass(frozen=True, slots=True)
class Person:
    """``published``: identity.users has acknowledged this user_ref, so it may be used."""

    user_ref: str
    published: bool


class UnknownSource(Exception):
    """A person or media can't be kept for a source nobody has created."""


class PeopleStore(Protocol):
    """All methods raise DatabaseAway; repeating any of them is harmless."""

    async def find(self, source_id: str, upstream_users: Collection[str]) -> Mapping[str, Person]:
        """The known ones among these; a name that is itself a user_ref of this source finds that person."""
        ...

    async def add(self, source_id: str, refs: Mapping[str, str]) -> Mapping[str, Person]:
        """Keep these (upstream user → proposed user_ref) and return what counts: whoever was first wins,
        so that many doors at once agree. Raises UnknownSource."""
        ...

    async def mark_published(self, source_id: str, upstream_users: Collection[str]) -> None: ...

    async def correct(self, source_id: str, upstream_user: str, user_ref: str) -> None:
        """Give somebody who is known the user_ref that identity.users has for them."""
        ...

    async def drop(self, source_id: str, upstream_user: str, user_ref: str) -> None:
        """Delete the account if it is still that person, who was forgotten."""
        ...

    async def forgotten(self, account_hashes: Collection[str], user_refs: Collection[str]) -> Mapping[str, int]:
        """Those of either that were forgotten, with when, epoch ms."""
        ...


class AliasStore(Protocol):
    """Upstream ids of media with their media_id. All methods raise DatabaseAway; repeating is harmless."""

    async def find(self, source_id: str, named: Collection[str]) -> Mapping[str, str]:
        """name → media_id, of those that are an upstream id or a media_id this source is known to have."""
        ...

    async def upstream(self, source_id: str, media_ids: Collection[str]) -> Mapping[str, str]:
        """media_id → what this source calls it now, of those it has named."""
        ...

    async def add(self, source_id: str, media: Mapping[str, str]) -> Mapping[str, str]:
        """Keep these (upstream id → media_id) and return what counts: an alias that was there wins."""
        ...

    async def versions(self) -> Mapping[str, int]:
        """source → a number that is raised with every change of its aliases but those by ``add``."""
        ...


class PostgresPeople:
    """The PeopleStore over core.users."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, source_id: str, upstream_users: Collection[str]) -> Mapping[str, Person]:
        async def ask(connection: Connection) -> dict[str, Person]:
            return await _people(connection, source_id, list(upstream_users))

        return await self._database.run(ask)

    async def add(self, source_id: str, refs: Mapping[str, str]) -> Mapping[str, Person]:
        # Sorted: two doors that add the same people in another order would wait for each other for ever.
        names = sorted(refs)

        async def work(connection: Connection) -> dict[str, Person]:
            await connection.execute(
                "INSERT INTO core.users (source_id, upstream_user, user_ref)"
                " SELECT %s, name, ref FROM unnest(%s::text[], %s::text[]) AS new (name, ref) ON CONFLICT DO NOTHING",
                (source_id, names, [refs[name] for name in names]),
            )
            # The statement above waited for whoever inserted the same name first; now that row is visible.
            return await _people(connection, source_id, names)

        try:
            return await self._database.run(work)
        except psycopg.errors.ForeignKeyViolation:
            raise UnknownSource from None

    async def mark_published(self, source_id: str, upstream_users: Collection[str]) -> None:
        names = sorted(upstream_users)

        async def work(connection: Connection) -> None:
            await connection.execute(
                "UPDATE core.users SET published = true"
                " WHERE source_id = %s AND upstream_user = ANY(%s) AND NOT published",
                (source_id, names),
            )

        await self._database.run(work)

    async def correct(self, source_id: str, upstream_user: str, user_ref: str) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(
                "UPDATE core.users SET user_ref = %(ref)s, published = true,"
                " own_ref = nullif(coalesce(own_ref, user_ref), %(ref)s)"
                " WHERE source_id = %(source)s AND upstream_user = %(user)s",
                {"ref": user_ref, "source": source_id, "user": upstream_user},
            )

        await self._database.run(work)

    async def drop(self, source_id: str, upstream_user: str, user_ref: str) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(
                "DELETE FROM core.users WHERE source_id = %s AND upstream_user = %s AND user_ref = %s",
                (source_id, upstream_user, user_ref),
            )

        await self._database.run(work)

    async def forgotten(self, account_hashes: Collection[str], user_refs: Collection[str]) -> Mapping[str, int]:
        async def ask(connection: Connection) -> dict[str, int]:
            cursor = await connection.execute(
                "SELECT account_hash, floor(extract(epoch FROM forgotten_at) * 1000)::bigint"
                " FROM core.forgotten_accounts WHERE account_hash = ANY(%s)"
                " UNION ALL SELECT user_ref, floor(extract(epoch FROM forgotten_at) * 1000)::bigint"
                " FROM core.forgotten_people WHERE user_ref = ANY(%s)",
                (list(account_hashes), list(user_refs)),
            )
            return dict(await cursor.fetchall())

        return await self._database.run(ask)


class PostgresAliases:
    """The AliasStore over core.media_aliases and what the library has: a file has a media_id and no upstream id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, source_id: str, named: Collection[str]) -> Mapping[str, str]:
        names = list(named)

        async def ask(connection: Connection) -> dict[str, str]:
            cursor = await connection.execute(
                "SELECT upstream_media, media_id FROM core.media_aliases"
                " WHERE source_id = %(source)s AND (upstream_media = ANY(%(names)s) OR media_id = ANY(%(names)s))"
                " UNION ALL SELECT media_id, media_id FROM api.media_facts"
                " WHERE source_id = %(source)s AND media_id = ANY(%(names)s)",
                {"source": source_id, "names": names},
            )
            rows = await cursor.fetchall()
            # An upstream id is what its source calls it, so it goes before a media_id of the same spelling.
            return {row[1]: row[1] for row in rows} | {row[0]: row[1] for row in rows if row[0] != row[1]}

        return await self._database.run(ask)

    async def upstream(self, source_id: str, media_ids: Collection[str]) -> Mapping[str, str]:
        wanted = list(media_ids)

        async def ask(connection: Connection) -> dict[str, str]:
            cursor = await connection.execute(
                # As the library lists it now; of several names the door has met, the same one each time.
                "SELECT asked, coalesce(n.upstream_id, min(a.upstream_media)) FROM unnest(%(media)s::text[]) AS asked"
                " LEFT JOIN api.media_names n ON n.media_id = asked AND n.source_id = %(source)s"
                " LEFT JOIN core.media_aliases a ON a.media_id = asked AND a.source_id = %(source)s"
                " GROUP BY asked, n.upstream_id HAVING coalesce(n.upstream_id, min(a.upstream_media)) IS NOT NULL",
                {"source": source_id, "media": wanted},
            )
            return dict(await cursor.fetchall())

        return await self._database.run(ask)

    async def add(self, source_id: str, media: Mapping[str, str]) -> Mapping[str, str]:
        names = sorted(media)

        async def work(connection: Connection) -> dict[str, str]:
            await connection.execute(
                "INSERT INTO core.media_aliases (source_id, upstream_media, media_id)"
                " SELECT %s, name, id FROM unnest(%s::text[], %s::text[]) AS new (name, id) ON CONFLICT DO NOTHING",
                (source_id, names, [media[name] for name in names]),
            )
            cursor = await connection.execute(
                "SELECT upstream_media, media_id FROM core.media_aliases"
                " WHERE source_id = %s AND upstream_media = ANY(%s)",
                (source_id, names),
            )
            return {row[0]: row[1] for row in await cursor.fetchall()}

        return await self._database.run(work)

    async def versions(self) -> Mapping[str, int]:
        async def ask(connection: Connection) -> dict[str, int]:
            cursor = await connection.execute("SELECT source_id, version FROM core.alias_versions")
            return dict(await cursor.fetchall())

        return await self._database.run(ask)


class PostgresSources:
    """Which sources there are."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def exists(self, source_id: str) -> bool:
        """Raises DatabaseAway."""

        async def ask(connection: Connection) -> bool:
            cursor = await connection.execute("SELECT 1 FROM core.sources WHERE source_id = %s", (source_id,))
            return await cursor.fetchone() is not None

        return await self._database.run(ask)


async def _people(connection: Connection, source_id: str, names: list[str]) -> dict[str, Person]:
    cursor = await connection.execute(
        "SELECT upstream_user, user_ref, published FROM core.users"
        " WHERE source_id = %(source)s AND (upstream_user = ANY(%(names)s) OR user_ref = ANY(%(names)s))",
        {"source": source_id, "names": names},
    )
    rows = await cursor.fetchall()
    # Whoever says a user_ref has been given it by us, which happens after it was acknowledged only.
    by_ref = {row[1]: Person(row[1], True) for row in rows}
    by_name = {row[0]: Person(row[1], row[2]) for row in rows}
    asked: Iterable[str] = names
    return {name: found for name in asked if (found := by_name.get(name) or by_ref.get(name))}


@dataclass(frozen=True, slots=True)
class Account:
    """An upstream account as an operator sees it. ``own_ref``: who it was before it was linked; None: it is not."""

    source_id: str
    upstream_user: str
    user_ref: str
    own_ref: str | None


def make_account(connection: SyncConnection, source_id: str, upstream_user: str) -> str:
    """The user_ref of an account, made when there is none; the caller writes it to identity.users, then commits."""
    connection.execute(
        "INSERT INTO core.users (source_id, upstream_user, user_ref, published) VALUES (%s, %s, %s, true)"
        " ON CONFLICT (source_id, upstream_user) DO UPDATE SET published = true",
        (source_id, upstream_user, uuid.uuid4().hex),
    )
    return find_account(connection, source_id, upstream_user).user_ref


def list_accounts(connection: SyncConnection) -> list[Account]:
    """All accounts, those of one person together."""
    rows = connection.execute(
        "SELECT source_id, upstream_user, user_ref, own_ref FROM core.users ORDER BY user_ref, source_id, upstream_user"
    ).fetchall()
    return [Account(*row) for row in rows]


def find_account(connection: SyncConnection, source_id: str, upstream_user: str) -> Account:
    """One account, locked until the transaction ends.

    Raises Permanent when there is none, or when its user_ref is not in identity.users yet: the door that is just
    writing it there would undo what is done here.
    """
    row = connection.execute(
        "SELECT source_id, upstream_user, user_ref, own_ref, published FROM core.users"
        " WHERE source_id = %s AND upstream_user = %s FOR UPDATE",
        (source_id, upstream_user),
    ).fetchone()
    if row is None:
        raise Permanent("no such account: 'playhead user list' shows those who have reported", cause="bad_user")
    if not row[4]:
        raise Permanent("the account is just being made: try again when its next report is in", cause="bad_user")
    return Account(*row[:4])


def link_account(connection: SyncConnection, account: Account, user_ref: str) -> None:
    """From now on ``account`` is the person ``user_ref``. Raises Permanent when nobody is, or it is already.

    The caller commits when identity.users has it, and not before: where the two differ, doors believe the log.
    """
    known = connection.execute("SELECT 1 FROM core.users WHERE user_ref = %s LIMIT 1", (user_ref,)).fetchone()
    if known is None:
        raise Permanent("no such person: 'playhead user list' shows all", cause="bad_user")
    if account.user_ref == user_ref:
        raise Permanent("the account is that person already", cause="bad_user")
    _move(connection, account, user_ref)


def unlink_account(connection: SyncConnection, account: Account) -> str:
    """The account is who it was before it was linked; returns that user_ref. Raises Permanent when it is not linked.

    The caller commits as for ``link_account``.
    """
    if account.own_ref is None:
        raise Permanent("the account is not linked", cause="bad_user")
    _move(connection, account, account.own_ref)
    return account.own_ref


def _move(connection: SyncConnection, account: Account, user_ref: str) -> None:
    connection.execute(
        "UPDATE core.users SET user_ref = %(ref)s, own_ref = nullif(coalesce(own_ref, user_ref), %(ref)s)"
        " WHERE source_id = %(source)s AND upstream_user = %(user)s",
        {"ref": user_ref, "source": account.source_id, "user": account.upstream_user},
    )
