"""What a server is to be told of a person's playback, and what became of it: the worker's side of core.forward_wanted.

projection: core.forward_wanted (newest decision), core.forward_plays ── task of kind forward
worker:     sending() commits what it is about to write, and that it may come back ── writes ── done()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streams.domain.forwarding import Change, Outcome, Play, Wanted, lasting, sent_mark
from streams.runtime.blocking import BlockingDatabase, Connection
from streams.runtime.echoes import EXPIRY_S, Value
from streams.runtime.leases import Task

KIND: Final = "forward"


@dataclass(frozen=True, slots=True)
class Item:
    """What is to be told, of whom and of what. ``accounts``: the person's on that server. ``upstream_media``: what the
    server calls it; None: it is not listed there, and the rest is of what was played. ``duration_ms``: of it."""

    source_id: str
    user_ref: str
    media_id: str
    version: tuple[int, int]
    wanted: Wanted
    refusals: int
    accounts: tuple[str, ...]
    upstream_media: str | None
    duration_ms: int | None
    title: str | None = None
    artists: tuple[str, ...] = ()
    recording_id: str | None = None


class Forwarding:
    """Safe for threads. All methods raise DatabaseAway."""

    def __init__(self, database: BlockingDatabase) -> None:
        """``database``: as role worker."""
        self._database = database

    def item(self, task: Task) -> Item:
        """As it is wanted now, which may be newer than the task."""
        user_ref, _, media_id = task.key.partition(":")
        named = {"source": task.source_id, "user": user_ref, "media": media_id}

        def ask(connection: Connection) -> Item:
            row = connection.execute(
                "SELECT log_epoch, version, place, position_ms, duration_ms, event_time, sent, refusals"
                " FROM core.forward_wanted"
                " WHERE source_id = %(source)s AND user_ref = %(user)s AND media_id = %(media)s",
                named,
            ).fetchone()
            plays = connection.execute(
                "SELECT played_at, tried, log_epoch, version FROM core.forward_plays"
                " WHERE source_id = %(source)s AND user_ref = %(user)s AND media_id = %(media)s"
                " ORDER BY log_epoch, version LIMIT 100",
                named,
            ).fetchall()
            accounts = connection.execute(
                "SELECT upstream_user FROM core.users WHERE source_id = %(source)s AND user_ref = %(user)s ORDER BY 1",
                named,
            ).fetchall()
            listed = connection.execute(
                "SELECT upstream_id, duration_ms, title, artists, provider_ids FROM api.media"
                " WHERE asked = %(media)s AND source_id = %(source)s",
                named,
            ).fetchone()
            # A server that lists nothing is told of the media that was played.
            of = (
                listed
                or connection.execute(
                    "SELECT NULL, duration_ms, title, artists, provider_ids FROM api.media WHERE asked = %(media)s",
                    {"media": str(task.payload.get("record", "")).partition(":")[2]},
                ).fetchone()
            )
            upstream_media, its_duration_ms, title, artists, provider_ids = of or _UNKNOWN
            log_epoch, version, place, position_ms, duration_ms, event_time, sent, refusals = row or _NOTHING
            return Item(
                source_id=task.source_id,
                user_ref=user_ref,
                media_id=media_id,
                version=(log_epoch, version),
                wanted=Wanted(
                    place,
                    position_ms,
                    event_time or max((play[0] for play in plays), default=0),
                    duration_ms,
                    tuple(Play(at, tried, (epoch, offset)) for at, tried, epoch, offset in plays),
                    tuple(sent),
                ),
                refusals=refusals,
                accounts=tuple(account[0] for account in accounts),
                upstream_media=upstream_media,
                duration_ms=its_duration_ms,
                title=title,
                artists=tuple(artists),
                recording_id=next((id for provider, id in provider_ids if provider == "mbid"), None),
            )

        return self._database.run(ask)

    def sending(self, item: Item, change: Change, values: Sequence[Value], expiry_s: float = EXPIRY_S) -> None:
        """Commit that the server is about to be told this, and what it may say of it then."""

        def work(connection: Connection) -> None:
            connection.execute(
                "UPDATE core.forward_wanted SET sent = %(sent)s"
                " WHERE source_id = %(source)s AND user_ref = %(user)s AND media_id = %(media)s",
                {**_named(item), "sent": lasting(item.wanted.sent, sent_mark(change))},
            )
            connection.execute(
                "UPDATE core.forward_plays SET tried = true FROM unnest(%(epochs)s::integer[], %(offsets)s::bigint[])"
                " AS k (log_epoch, version) WHERE source_id = %(source)s AND user_ref = %(user)s"
                " AND media_id = %(media)s AND forward_plays.log_epoch = k.log_epoch"
                " AND forward_plays.version = k.version",
                {**_named(item), **_keys(change.plays)},
            )
            _may_come_back(connection, item, values, expiry_s)

        self._database.run(work)

    def may_come_back(self, item: Item, values: Sequence[Value], expiry_s: float = EXPIRY_S) -> None:
        """The server keeps another value than it was told: that one comes back, then."""
        self._database.run(lambda connection: _may_come_back(connection, item, values, expiry_s))

    def done(self, item: Item, outcome: Outcome, plays: Sequence[Play]) -> None:
        """It stands as it was wanted, and these plays are counted."""

        def work(connection: Connection) -> None:
            connection.execute(
                "UPDATE core.forward_wanted SET done_version = greatest(done_version, %(version)s),"
                " outcome = %(outcome)s, done_at = now(), refusals = 0"
                " WHERE source_id = %(source)s AND user_ref = %(user)s AND media_id = %(media)s"
                " AND log_epoch = %(log_epoch)s",
                {**_named(item), "outcome": outcome},
            )
            connection.execute(
                "DELETE FROM core.forward_plays p USING unnest(%(epochs)s::integer[], %(offsets)s::bigint[])"
                " AS k (log_epoch, version) WHERE p.source_id = %(source)s AND p.user_ref = %(user)s"
                " AND p.media_id = %(media)s AND p.log_epoch = k.log_epoch AND p.version = k.version",
                {**_named(item), **_keys(plays)},
            )

        self._database.run(work)

    def refused(self, item: Item) -> None:
        """The server answers, and does not take it: one more time."""

        def work(connection: Connection) -> None:
            connection.execute(
                "UPDATE core.forward_wanted SET refusals = refusals + 1"
                " WHERE source_id = %(source)s AND user_ref = %(user)s AND media_id = %(media)s",
                _named(item),
            )

        self._database.run(work)

    def look_again(self, task: Task) -> None:
        """Somebody else has had the task, and what we wrote may have come after what they did: it is to be compared
        once more. Who is at it now is not to say that it is done: they may have looked before we wrote."""

        def work(connection: Connection) -> None:
            connection.execute(
                "UPDATE core.tasks SET done_version = least(done_version, wanted_version - 1),"
                " lease_token = CASE WHEN lease_token = %(token)s THEN lease_token END,"
                " lease_until = CASE WHEN lease_token = %(token)s THEN lease_until END"
                " WHERE kind = %(kind)s AND key = %(key)s",
                {"kind": task.kind, "key": task.key, "token": task.token},
            )

        self._database.run(work)


_NOTHING: Final = (0, -1, "none", 0, None, 0, (), 0)
_UNKNOWN: Final = (None, None, None, (), ())


def _may_come_back(connection: Connection, item: Item, values: Sequence[Value], expiry_s: float) -> None:
    for value in values:
        (value_hash,) = value.hashes(item.source_id, item.user_ref, item.media_id)
        connection.execute(
            "INSERT INTO core.forward_sent (source_id, user_ref, media_id, value_hash, expires_at)"
            " VALUES (%s, %s, %s, %s, now() + make_interval(secs => %s))",
            (item.source_id, item.user_ref, item.media_id, value_hash, expiry_s),
        )


def _named(item: Item) -> Mapping[str, Any]:
    return {
        "source": item.source_id,
        "user": item.user_ref,
        "media": item.media_id,
        "log_epoch": item.version[0],
        "version": item.version[1],
    }


def _keys(plays: Sequence[Play]) -> Mapping[str, Any]:
    return {"epochs": [one.key[0] for one in plays], "offsets": [one.key[1] for one in plays]}
