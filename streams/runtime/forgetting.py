"""Who is to be forgotten, as the tables of the door have it: whom a name stands for, what is kept, what is erased.

    whom ─► keep: core.forgotten_people (user_refs), core.forgotten_accounts (keyed hashes)   committed before
         ─► told to the log (streams/ingest/forgetting.py)
         ─► erase: accounts, names, tokens, what polls saw                                    committed after

Killed between any two of these, what is kept says what is left to do. Nothing here logs, and errors quote no names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from streams.runtime.errors import Permanent
from streams.runtime.people import Account, find_account
from streams.runtime.tokens import SyncConnection

AccountHash = Callable[[str, str], str]
"""(source, upstream user) → keyed hash, hex."""


@dataclass(frozen=True, slots=True)
class Whom:
    """All that is one person: the user_refs of now and of before accounts were linked, and the accounts."""

    user_refs: tuple[str, ...]
    accounts: tuple[Account, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """Everybody who was ever forgotten, with when, epoch ms. What is in one says nothing about who is in the other."""

    people: Mapping[str, int]
    accounts: Mapping[str, int]


def whom(connection: SyncConnection, person: str) -> Whom:
    """Whom ``SOURCE/ACCOUNT`` or a user_ref stands for; their accounts are locked until the transaction ends.

    With an account goes everything that was linked to it, and what it was before it was linked. Raises Permanent when
    there is nobody.
    """
    source_id, slash, account = person.partition("/")
    refs = {find_account(connection, source_id, account).user_ref if slash else person}
    while True:
        found = _accounts(connection, sorted(refs))
        more = refs | {ref for one in found for ref in (one.user_ref, one.own_ref) if ref is not None}
        if more == refs:
            break
        refs = more
    if not found and not _was_known(connection, sorted(refs)):
        raise Permanent("no such person: 'playhead user list' shows all", cause="bad_user")
    return Whom(tuple(sorted(refs)), tuple(found))


def of_refs(connection: SyncConnection, user_refs: Sequence[str]) -> Whom:
    """The accounts that are these people now, locked until the transaction ends."""
    return Whom(tuple(sorted(user_refs)), tuple(_accounts(connection, list(user_refs))))


def keep(connection: SyncConnection, who: Whom, account_hash: AccountHash, now_ms: int) -> None:
    """From ``now_ms`` on what is older of these accounts is refused, and these user_refs are nobody. Repeating is
    harmless: a person keeps when they were forgotten first, an account when it was last."""
    connection.execute(
        "INSERT INTO core.forgotten_people (user_ref, forgotten_at)"
        " SELECT ref, to_timestamp(%s / 1000.0) FROM unnest(%s::text[]) AS ref ON CONFLICT DO NOTHING",
        (now_ms, list(who.user_refs)),
    )
    connection.execute(
        "INSERT INTO core.forgotten_accounts AS a (account_hash, forgotten_at)"
        " SELECT hash, to_timestamp(%s / 1000.0) FROM unnest(%s::text[]) AS hash"
        " ON CONFLICT (account_hash) DO UPDATE SET forgotten_at = greatest(a.forgotten_at, excluded.forgotten_at)",
        (now_ms, sorted(account_hash(one.source_id, one.upstream_user) for one in who.accounts)),
    )


def kept(connection: SyncConnection) -> Kept:
    """Everybody who was ever forgotten."""
    people = connection.execute(
        "SELECT user_ref, floor(extract(epoch FROM forgotten_at) * 1000)::bigint FROM core.forgotten_people"
    ).fetchall()
    accounts = connection.execute(
        "SELECT account_hash, floor(extract(epoch FROM forgotten_at) * 1000)::bigint FROM core.forgotten_accounts"
    ).fetchall()
    return Kept(dict(people), dict(accounts))


def erase(connection: SyncConnection, who: Whom) -> dict[str, int]:
    """Delete what leads from a name to ``who``, and what was kept for their accounts; how many rows of what."""
    accounts = ([one.source_id for one in who.accounts], [one.upstream_user for one in who.accounts])
    refs = (list(who.user_refs),)
    done = {
        "tokens": connection.execute("DELETE FROM core.tokens WHERE user_ref = ANY(%s)", refs),
        "poll_state": connection.execute(
            "DELETE FROM core.poll_state WHERE (source_id, upstream_user) IN"
            " (SELECT * FROM unnest(%s::text[], %s::text[]))",
            accounts,
        ),
        "source_accounts": connection.execute(
            "DELETE FROM core.source_accounts WHERE account <> '' AND (source_id, account) IN"
            " (SELECT * FROM unnest(%s::text[], %s::text[]))",
            accounts,
        ),
        "forward_sent": connection.execute("DELETE FROM core.forward_sent WHERE user_ref = ANY(%s)", refs),
        "accounts": connection.execute("DELETE FROM core.users WHERE user_ref = ANY(%s)", refs),
    }
    # Whose account it was before it was linked to somebody who stays: unlinking would give back somebody forgotten.
    connection.execute("UPDATE core.users SET own_ref = NULL WHERE own_ref = ANY(%s)", refs)
    return {name: cursor.rowcount for name, cursor in done.items()}


def read_models_know(connection: SyncConnection, user_refs: Sequence[str]) -> set[str]:
    """Those of whom the read models have deleted everything."""
    rows = connection.execute(
        "SELECT user_ref FROM api.forgotten_users WHERE user_ref = ANY(%s)", (list(user_refs),)
    ).fetchall()
    return {row[0] for row in rows}


def forget_in_copies(connection: SyncConnection, user_refs: Sequence[str]) -> int:
    """Delete their rows from tables that a rebuild makes or has replaced; how many. Once the live tables hold none, no
    later switch leaves any in the former ones."""
    connection.execute("SET LOCAL statement_timeout = 0")  # all days of all explanations, without an index for it
    row = connection.execute("SELECT core.forget_in_copies(%s)", (list(user_refs),)).fetchone()
    assert row is not None
    return int(row[0])


def _accounts(connection: SyncConnection, refs: list[str]) -> list[Account]:
    rows = connection.execute(
        "SELECT source_id, upstream_user, user_ref, own_ref FROM core.users WHERE user_ref = ANY(%s)"
        " ORDER BY source_id, upstream_user FOR UPDATE",
        (refs,),
    ).fetchall()
    return [Account(*row) for row in rows]


def _was_known(connection: SyncConnection, refs: list[str]) -> bool:
    row = connection.execute(
        "SELECT 1 FROM core.users WHERE own_ref = ANY(%s)"
        " UNION ALL SELECT 1 FROM core.forgotten_people WHERE user_ref = ANY(%s) LIMIT 1",
        (refs, refs),
    ).fetchone()
    return row is not None
