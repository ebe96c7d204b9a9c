"""Sources and the bearer tokens that speak for them: kept as SHA-256, decided by the table, cached shortly.

A token is ``ph_`` and 256 random bits; being random, it needs no slow hash. What is looked up is the hash, so
no comparison depends on the secret. A missing, malformed, unknown or revoked token takes one path to one
answer. A revoked token stops within TTL_S; with the database away, a token seen lately goes on for STALE_S. One
that was rotated stops when its grace is over: its time of revocation lies ahead until then.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

import psycopg

from streams.runtime.clock import Clock
from streams.runtime.database import Connection, Database, DatabaseAway
from streams.runtime.errors import Permanent, PlayheadError
from streams.runtime.memory import Memory

TTL_S = 15.0
UNKNOWN_TTL_S = 5.0
# Nobody can revoke a token while the database is away, so what counted when it went counts until it is back.
STALE_S = 24 * 3600.0
CACHED_MAX = 10_000
PREFIX = "ph_"
SOURCE_KINDS = ("native", "jellyfin", "plex", "emby", "audiobookshelf", "subsonic", "listenbrainz", "files")
_FORM = re.compile(r"ph_[A-Za-z0-9_-]{43}")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_ID_BYTES = 6
GRACE_S_MAX = 30 * 24 * 3600


class Scope(StrEnum):
    """What a token may do. ``operate`` includes the other two and may name any source."""

    REPORT = "report"
    READ = "read"
    OPERATE = "operate"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling. ``source_id`` None: no source of its own; ``user_ref``: bound to this one person."""

    token_id: str
    source_id: str | None
    scopes: frozenset[Scope]
    user_ref: str | None = None

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.OPERATE in self.scopes


class Unauthenticated(PlayheadError):
    """No token, or none that counts. Says nothing about which."""


def hash_of(token: str) -> bytes:
    """What is stored of a token. Text that cannot be a token hashes as the empty one, which nobody has."""
    return hashlib.sha256(token.encode() if _FORM.fullmatch(token) else b"").digest()


class TokenStore(Protocol):
    async def find(self, token_hash: bytes) -> Principal | None:
        """The holder of an unrevoked token, else None. Raises DatabaseAway."""
        ...


class PostgresTokens:
    """The TokenStore over core.tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, token_hash: bytes) -> Principal | None:
        async def ask(connection: Connection) -> Principal | None:
            cursor = await connection.execute(
                "SELECT token_id, source_id, scopes, user_ref FROM core.tokens"
                " WHERE token_hash = %s AND (revoked_at IS NULL OR revoked_at > now())",
                (token_hash,),
            )
            row = await cursor.fetchone()
            if row is None:
                return None
            # A scope of a newer build means nothing here and gives nothing.
            return Principal(row[0], row[1], frozenset(s for s in Scope if s.value in row[2]), row[3])

        return await self._database.run(ask)


class Authenticator:
    """Tokens to principals, through a bounded cache over a TokenStore."""

    def __init__(self, store: TokenStore, clock: Clock) -> None:
        self._store = store
        # Two memories: a flood of unknown tokens must not push the known ones out.
        self._known = Memory[bytes, Principal](clock, size=CACHED_MAX, fresh_s=TTL_S, stale_s=STALE_S)
        self._unknown = Memory[bytes, bool](clock, size=CACHED_MAX, fresh_s=UNKNOWN_TTL_S)

    async def authenticate(self, token: str | None) -> Principal:
        """The token's holder.

        Raises Unauthenticated when there is none, DatabaseAway when only the absent database could tell.
        """
        token_hash = hash_of(token or "")
        known = self._known.fresh(token_hash)
        if known is not None:
            return known
        if self._unknown.fresh(token_hash):
            raise Unauthenticated
        try:
            found = await self._store.find(token_hash)
        except DatabaseAway:
            stale = self._known.stale(token_hash)
            if stale is None:
                raise
            return stale
        if found is None:
            self._known.forget(token_hash)
            self._unknown.learn(token_hash, True)
            raise Unauthenticated
        self._unknown.forget(token_hash)
        self._known.learn(token_hash, found)
        return found


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """A token as lists show it: everything but the secret, which nobody has any more."""

    token_id: str
    source_id: str | None
    scopes: tuple[str, ...]
    user_ref: str | None
    label: str
    created_at: datetime
    revoked_at: datetime | None


SyncConnection = psycopg.Connection[Any]


def create_source(connection: SyncConnection, source_id: str, kind: str, name: str) -> bool:
    """Make a source known; False when it was already (then its name is left alone).

    ``source_id``: lower-case letters, digits, dots, dashes, underscores, at most 64; ``kind``: one of SOURCE_KINDS.
    Raises Permanent for others, and when the source is there with another kind.
    """
    if not _NAME.fullmatch(source_id):
        raise Permanent(
            "a source id is 1 to 64 of a-z, 0-9, '.', '-', '_' and starts with a letter or digit", cause="bad_source"
        )
    if kind not in SOURCE_KINDS:
        raise Permanent(f"the kind of a source is one of {', '.join(SOURCE_KINDS)}", cause="bad_source")
    before = connection.execute("SELECT kind FROM core.sources WHERE source_id = %s", (source_id,)).fetchone()
    if before is not None and before[0] != kind:
        raise Permanent(f"source {source_id} is there already, of kind {before[0]}", cause="bad_source")
    made = connection.execute(
        "INSERT INTO core.sources (source_id, kind, name) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
        (source_id, kind, name),
    )
    return made.rowcount == 1


def create_token(
    connection: SyncConnection,
    source_id: str | None,
    scopes: Iterable[str],
    user_ref: str | None = None,
    label: str = "",
) -> str:
    """Make a token and return it: the only time anybody sees it. The caller commits.

    Raises Permanent for no or unknown scopes, for a source or person nobody knows, and for a token that could report
    without a source to report for (only an operator's may name sources).
    """
    wanted = sorted(set(scopes))
    if not wanted or not set(wanted) <= {s.value for s in Scope}:
        raise Permanent(f"scopes are one or more of {', '.join(Scope)}", cause="bad_scope")
    if source_id is None and Scope.REPORT in wanted and Scope.OPERATE not in wanted:
        raise Permanent("a token that reports needs a source", cause="bad_source")
    if source_id is not None:
        known = connection.execute("SELECT 1 FROM core.sources WHERE source_id = %s", (source_id,)).fetchone()
        if known is None:
            raise Permanent("no such source: create it first", cause="bad_source")
    if user_ref is not None:
        # Nothing but a user_ref may stand for a person in the log; a name here would be written there.
        known = connection.execute(
            "SELECT 1 FROM core.users WHERE user_ref = %s AND (%s::text IS NULL OR source_id = %s) LIMIT 1",
            (user_ref, source_id, source_id),
        ).fetchone()
        if known is None:
            raise Permanent(
                "no such person: a token is bound to a user_ref, as 'user' in the read API's answers shows it, of the "
                "same source",
                cause="bad_user",
            )
    return _insert(connection, source_id, wanted, user_ref, label)


def _insert(
    connection: SyncConnection, source_id: str | None, scopes: list[str], user_ref: str | None, label: str
) -> str:
    token = PREFIX + secrets.token_urlsafe(32)
    connection.execute(
        "INSERT INTO core.tokens (token_hash, token_id, source_id, scopes, user_ref, label)"
        " VALUES (%s, %s, %s, %s, %s, %s)",
        (hash_of(token), secrets.token_hex(_ID_BYTES), source_id, scopes, user_ref, label),
    )
    return token


def rotate_token(connection: SyncConnection, token_id: str, grace_s: int) -> str:
    """Make a token for the same source, scopes and person, valid at once; the old one goes on for ``grace_s``.

    The caller commits. Raises Permanent for a grace that is negative or over GRACE_S_MAX, and when there is no such
    token or it was revoked or rotated before.
    """
    if not 0 <= grace_s <= GRACE_S_MAX:
        raise Permanent("the grace is 0 seconds to 30 days", cause="bad_grace")
    row = connection.execute(
        "UPDATE core.tokens SET revoked_at = now() + make_interval(secs => %s)"
        " WHERE token_id = %s AND revoked_at IS NULL RETURNING source_id, scopes, user_ref, label",
        (grace_s, token_id),
    ).fetchone()
    if row is None:
        raise Permanent("no such token, or it was revoked or rotated before", cause="bad_token")
    return _insert(connection, *row)


def revoke_token(connection: SyncConnection, token_id: str) -> bool:
    """Doors stop taking it within TTL_S. False when there is no such token, or it was revoked before."""
    done = connection.execute(
        "UPDATE core.tokens SET revoked_at = now() WHERE token_id = %s AND (revoked_at IS NULL OR revoked_at > now())",
        (token_id,),
    )
    return done.rowcount == 1


def list_tokens(connection: SyncConnection) -> list[TokenEntry]:
    """All tokens, oldest first, revoked ones too."""
    rows = connection.execute(
        "SELECT token_id, source_id, scopes, user_ref, label, created_at, revoked_at"
        " FROM core.tokens ORDER BY created_at, token_id"
    ).fetchall()
    return [TokenEntry(r[0], r[1], tuple(r[2]), r[3], r[4], r[5], r[6]) for r in rows]


def list_sources(connection: SyncConnection) -> list[tuple[str, str, str]]:
    """``(source_id, kind, name)`` of every source, by id."""
    rows = connection.execute("SELECT source_id, kind, name FROM core.sources ORDER BY source_id").fetchall()
    return [(r[0], r[1], r[2]) for r in rows]
