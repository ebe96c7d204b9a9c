"""What the playback agent does when a person is forgotten, and with what is still said of them afterwards.

    UserForgotten ─► forget ─► all rows of user_ref: deleted, and in table "forgotten" that there was such a person
                           └─► playback.decided: UserForgotten, with its cause: the read models follow
    a report that meets no row of its key ─► is the person forgotten? then it is nothing: no row, no decision

All of a person's keys lie in one partition and begin with ``user_ref:``: one transaction's work. A user_ref is
never given to anybody again, so a report under a forgotten one is old, however it came: a door that had not heard, a
dead letter that was redriven, a log that was copied. It can only meet a key without a row: that is where is looked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from streams.agents import forgotten as rows
from streams.agents.forgotten import Forgotten
from streams.agents.merges import Rows


class Scanned(Rows, Protocol):
    """A table whose rows can be found by how their key begins."""

    def scan(self, prefix: bytes = ..., /) -> Iterator[tuple[bytes, bytes]]: ...


def forget(progress: Scanned, forgotten: Rows, user: str, logged_at: int) -> int:
    """Delete all rows of ``user`` and keep that there was one; how many rows that were. Repeating changes nothing."""
    mine = [key for key, _ in progress.scan(f"{user}:".encode())]
    for key in mine:
        del progress[key]
    key = user.encode()
    if forgotten.get(key) is None:
        forgotten[key] = rows.encode(Forgotten(logged_at))
    return len(mine)


def is_forgotten(forgotten: Rows, user: str) -> bool:
    """Whether what is said of ``user`` is of somebody who was forgotten."""
    row = forgotten.get(user.encode())
    if row is None:
        return False
    rows.decode(row)  # a row of a newer build may mean something else
    return True
