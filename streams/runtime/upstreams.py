"""Where a source's media server is and the accounts it is read with, as an operator entered them.

A secret has to be given to the server as it is, so it can't be kept as a hash. It is kept as text that the database
role of the door alone may read, or better as the path of a file that is read at each use (a mounted secret, which can
be changed without a restart). No secret is in a repr, a log line or an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from schemas.limits import ID_BYTES_MAX
from streams.runtime.database import Connection, Database
from streams.runtime.errors import ConfigurationError, Permanent
from streams.runtime.tokens import SyncConnection

POLLABLE: Final = ("jellyfin", "plex", "audiobookshelf", "subsonic")
LISTS_NOTHING: Final = frozenset({"listenbrainz"})
"""Kinds of servers without a library: they are told of media by their names."""
LOGINS: Final[Mapping[str, tuple[str, ...]]] = {
    "jellyfin": ("api_key",),
    "plex": ("api_key",),
    "audiobookshelf": ("api_key",),
    "subsonic": ("token", "password", "api_key"),
    "emby": ("api_key",),
    "listenbrainz": ("api_key",),
}
"""How one may log in, by kind of source; the first is the usual one."""
NAMES_AN_ACCOUNT: Final = frozenset({"subsonic", "audiobookshelf", "listenbrainz"})
"""Kinds whose accounts are asked one by one; a key of the others sees everybody."""
SECRET_CHARS_MAX: Final = 1_024
INTERVAL_S_MIN: Final = 5
# It becomes a header or a form field: no control character may end it early, no quote close it.
_SECRET = re.compile(r"[\x21\x23-\x5b\x5d-\x7e](?:[\x20\x21\x23-\x5b\x5d-\x7e]*[\x21\x23-\x5b\x5d-\x7e])?")
_PASSWORD = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]+")


@dataclass(frozen=True, slots=True)
class Account:
    """``name``: as the server knows it; "" where one key sees everybody. ``secret`` or ``secret_file`` is set."""

    name: str
    login: str
    secret: str = field(default="", repr=False)
    secret_file: str | None = None

    def reveal(self) -> str:
        """The secret. Raises ConfigurationError when its file can't be read or holds none that can be sent."""
        if self.secret_file is None:
            return self.secret
        try:
            text = Path(self.secret_file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else "not UTF-8"
            raise ConfigurationError(f"a source's secret file can't be read: {reason}") from None
        if not can_be_sent(text, self.login):
            raise ConfigurationError("a source's secret file holds no secret that can be sent")
        return text


@dataclass(frozen=True, slots=True)
class UpstreamEntry:
    """One source's server. ``interval_s``: seconds from poll to poll."""

    source_id: str
    kind: str
    url: str
    interval_s: int
    verify_tls: bool
    accounts: tuple[Account, ...]


class Upstreams(Protocol):
    async def pollable(self, source_ids: Sequence[str] = ()) -> list[UpstreamEntry]:
        """Sources with a server and an account, of these or of all, by id. Raises DatabaseAway."""
        ...


_ENTRIES: Final = (
    "SELECT u.source_id, s.kind, u.url, u.interval_s, u.verify_tls, a.account, a.login, a.secret, a.secret_file"
    " FROM core.source_upstreams u JOIN core.sources s USING (source_id)"
    " JOIN core.source_accounts a USING (source_id)"
    " WHERE cardinality(%(wanted)s::text[]) = 0 OR u.source_id = ANY(%(wanted)s)"
    " ORDER BY u.source_id, a.account"
)


def _entries(rows: Sequence[tuple[Any, ...]]) -> list[UpstreamEntry]:
    found: dict[str, UpstreamEntry] = {}
    for source_id, kind, url, interval_s, verify_tls, *account in rows:
        entry = found.get(source_id)
        accounts = (
            *(entry.accounts if entry else ()),
            Account(account[0], account[1], account[2] or "", account[3]),
        )
        found[source_id] = UpstreamEntry(source_id, kind, url, interval_s, verify_tls, accounts)
    return list(found.values())


def upstream_entry(connection: SyncConnection, source_id: str) -> UpstreamEntry | None:
    """One source's server with its accounts; None when it has none."""
    found = _entries(connection.execute(_ENTRIES, {"wanted": [source_id]}).fetchall())
    return found[0] if found else None


class PostgresUpstreams:
    """The Upstreams over core.source_upstreams and core.source_accounts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def pollable(self, source_ids: Sequence[str] = ()) -> list[UpstreamEntry]:
        wanted = list(source_ids)

        async def ask(connection: Connection) -> list[UpstreamEntry]:
            cursor = await connection.execute(_ENTRIES, {"wanted": wanted})
            return [entry for entry in _entries(await cursor.fetchall()) if entry.kind in POLLABLE]

        return await self._database.run(ask)


def can_be_sent(secret: str, login: str) -> bool:
    """Whether a secret fits where it is put: a header (printable ASCII, no quotes), or Subsonic's form (passwords)."""
    form = _PASSWORD if login in ("token", "password") else _SECRET
    return 0 < len(secret) <= SECRET_CHARS_MAX and form.fullmatch(secret) is not None


def connect_upstream(
    connection: SyncConnection, source_id: str, url: str, account: Account, *, interval_s: int, verify_tls: bool
) -> str:
    """Keep where the source's server is, and one account; what was kept of both is replaced. Returns its kind.

    The caller has checked ``url`` and commits. Raises Permanent for an unknown source, a kind without a
    server, and an account that can't be used.
    """
    row = connection.execute("SELECT kind FROM core.sources WHERE source_id = %s", (source_id,)).fetchone()
    if row is None:
        raise Permanent("no such source: 'playhead source add' makes one", cause="bad_source")
    kind = str(row[0])
    if kind not in LOGINS:
        raise Permanent(f"a source of kind {kind} has no server to ask: only {', '.join(LOGINS)}", cause="bad_source")
    if account.login not in LOGINS[kind]:
        raise Permanent(f"{kind} takes the login {' or '.join(LOGINS[kind])}", cause="bad_account")
    if kind in NAMES_AN_ACCOUNT and not account.name.strip():
        raise Permanent(f"{kind} is read account by account: name one", cause="bad_account")
    if "\0" in account.name or len(account.name.encode("utf-8", "replace")) > ID_BYTES_MAX:
        raise Permanent(f"an account's name has at most {ID_BYTES_MAX} bytes and no NUL", cause="bad_account")
    if account.secret_file is None and not can_be_sent(account.secret, account.login):
        raise Permanent("the secret is empty, too long, or holds characters that can't be sent", cause="bad_account")
    if interval_s < INTERVAL_S_MIN:
        raise Permanent(f"a server is asked every {INTERVAL_S_MIN} s at most", cause="bad_source")
    connection.execute(
        "INSERT INTO core.source_upstreams (source_id, url, interval_s, verify_tls) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT (source_id) DO UPDATE SET url = excluded.url, interval_s = excluded.interval_s,"
        " verify_tls = excluded.verify_tls",
        (source_id, url, interval_s, verify_tls),
    )
    connection.execute(
        "INSERT INTO core.source_accounts (source_id, account, login, secret, secret_file) VALUES (%s, %s, %s, %s, %s)"
        " ON CONFLICT (source_id, account) DO UPDATE SET login = excluded.login, secret = excluded.secret,"
        " secret_file = excluded.secret_file",
        (source_id, account.name, account.login, account.secret or None, account.secret_file),
    )
    return kind


def set_forwarding(connection: SyncConnection, source_id: str, on: bool | None) -> str | None:
    """Whether the source's server is told of what is played elsewhere from now on; ``on`` None: as before. Returns
    since when it is, ISO 8601; None: it is not. The caller commits.

    Raises Permanent for a source without a server.
    """
    row = connection.execute(
        "UPDATE core.source_upstreams SET forward_since = CASE"
        " WHEN %(on)s::boolean IS NULL THEN forward_since WHEN %(on)s THEN coalesce(forward_since, now()) END"
        " WHERE source_id = %(source)s RETURNING forward_since",
        {"on": on, "source": source_id},
    ).fetchone()
    if row is None:
        raise Permanent("the source has no server: 'playhead source connect' says where it is", cause="bad_source")
    return None if row[0] is None else str(row[0].isoformat(timespec="seconds"))


def disconnect_upstream(connection: SyncConnection, source_id: str, account: str | None) -> int:
    """Forget one account, or with None the server and all of them; returns how many accounts are gone."""
    gone = connection.execute(
        "DELETE FROM core.source_accounts"
        " WHERE source_id = %(source)s AND (%(account)s::text IS NULL OR account = %(account)s)",
        {"source": source_id, "account": account},
    )
    if account is None:
        connection.execute("DELETE FROM core.source_upstreams WHERE source_id = %s", (source_id,))
    return gone.rowcount
