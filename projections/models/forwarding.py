"""The forwarding projection: decisions to what other servers are to be told, in core.forward_wanted and core.tasks.

It has its own place in the log: a server that is told nothing, or a link looked up slowly, never holds up the read
models. Links are those of the library as it is when the decision is folded; an item that is listed later is linked from
the next decision on. What is told is the workers' affair (streams/effects/kinds/forward.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from projections.base import Connection, Folded, Projection, Record
from projections.models import forwarding_sql as sql
from projections.models.forwarding_rows import is_of_server, is_soon, place_of, play_of
from projections.models.playback import PlaybackProjection
from schemas.events import Event, PlaybackDecided, SourcePosition, UserForgotten
from schemas.placement import playback_key
from schemas.topics import PLAYBACK_DECIDED
from streams.domain.identity import media_id
from streams.runtime.errors import Permanent
from streams.runtime.misplaced import hold_person_in_place

KIND: Final = "forward"
Told: TypeAlias = PlaybackDecided | UserForgotten
_Target: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _News:
    """A decision that some other server may be told of."""

    record: Record[Told]
    event: PlaybackDecided

    @property
    def version(self) -> tuple[int, int]:
        return self.record.log_epoch, self.record.offset


class ForwardingProjection(Projection[Told]):
    """playback.decided to core.forward_wanted, core.forward_plays and tasks of kind forward."""

    name = "forwarding"
    topic = PLAYBACK_DECIDED
    version = 1

    def accept(self, key: bytes, event: Event, partition: int) -> Told:
        match event:
            case PlaybackDecided():
                accepted = PlaybackProjection().accept(key, event, partition)
                assert isinstance(accepted, PlaybackDecided)
                return accepted
            case UserForgotten():
                hold_person_in_place(event, key, partition, self.topic)
                return event
            case _:
                raise Permanent(f"a {type(event).__name__} is no decision", cause="wrong_event")

    def cause(self, event: Told) -> SourcePosition | None:
        return event.cause

    def fold(self, batch: Sequence[Record[Told]], tx: Connection) -> Folded:
        self._fold(batch, sql.PLAYS, tx)
        return Folded(())

    def fold_late(self, record: Record[Told], tx: Connection) -> Folded:
        """As ever, and what the servers were told since does not hold its play back. Raises Permanent while a worker
        is telling one of them."""
        tasks = self._fold([record], sql.PLAYS_LATE, tx)
        if tasks and _each(tx, sql.DUE_LATE, tasks) < len(tasks):
            raise Permanent("a server is being told of it at this moment: redrive it again", cause="other")
        return Folded(())

    def _fold(self, batch: Sequence[Record[Told]], plays_sql: str, tx: Connection) -> Sequence[Mapping[str, Any]]:
        """The tasks it is for, as rows for ``sql.TASKS``."""
        news, forgotten = _sorted_out(batch)
        if forgotten:
            for statement in sql.FORGET:
                tx.execute(statement.encode(), {"people": sorted(forgotten)})
        if not news or not _anywhere(tx):
            return ()
        targets = _targets(news, tx)
        moved: dict[_Target, _News] = {}
        newest: dict[_Target, _News] = {}
        soon: set[_Target] = set()
        plays: list[dict[str, Any]] = []
        for one, target in targets:
            newest[target] = one
            if is_soon(one.event):
                soon.add(target)
            if place_of(one.event) is not None:
                moved[target] = one
            played_at = play_of(one.event)
            if played_at is not None:
                plays.append({**_row(target, one), "played_at": played_at})
        # A server's own word goes before what was to be told it until then.
        own = {_own(one.event): one for one in news if is_of_server(one.event) and one.event.position_moved}
        moved = {to: one for to, one in moved.items() if to not in own or one.version > own[to].version}
        _each(tx, sql.OVERTAKE, [_overtaken(target, own[target]) for target in sorted(own)])
        _each(tx, plays_sql, plays)
        _each(tx, sql.WANT, [_wanted(target, one) for target, one in moved.items()])
        # What nobody needs to be told of (a listen that counts no play and has no place to resume) is no task.
        wanting = moved.keys() | {(row["source_id"], row["user_ref"], row["media_id"]) for row in plays}
        tasks = [_task(target, newest[target], target in soon) for target in sorted(wanting)]
        _each(tx, sql.TASKS, tasks)
        if tasks:
            tx.execute(b"NOTIFY playhead_tasks")
        return tasks


def _sorted_out(batch: Sequence[Record[Told]]) -> tuple[list[_News], set[str]]:
    """What is news for other servers, in the order of the log, and who was forgotten; nothing of them from before."""
    forgotten = {record.event.user_ref for record in batch if isinstance(record.event, UserForgotten)}
    news: list[_News] = []
    for record in batch:
        event = record.event
        if isinstance(event, UserForgotten):
            news = [one for one in news if one.event.user_ref != event.user_ref]
        elif place_of(event) is not None or play_of(event) is not None or event.position_moved:
            news.append(_News(record, event))
    return news, forgotten


def _anywhere(tx: Connection) -> bool:
    row = tx.execute(sql.ANYWHERE.encode()).fetchone()
    return bool(row and row[0])


def _targets(news: Sequence[_News], tx: Connection) -> list[tuple[_News, _Target]]:
    """Where each is to be told, in the order of the log."""
    moved = [
        {
            "n": number,
            "user_ref": one.event.user_ref,
            "media_id": one.event.media_id,
            "source_id": one.event.source_id,
            "of_server": is_of_server(one.event),
            "logged_at": one.event.logged_at,
        }
        for number, one in enumerate(news)
    ]
    rows = tx.execute(sql.TARGETS.encode(), {"moved": json.dumps(moved)}).fetchall()
    found = []
    for n, source, media in sorted(rows, key=lambda row: (row[0], row[1], row[2] or "")):
        event = news[n].event
        found.append((news[n], (source, event.user_ref, media or media_id(source, event.media_id))))
    return found


def _row(target: _Target, one: _News) -> dict[str, Any]:
    source_id, user_ref, media_id = target
    return {
        "source_id": source_id,
        "user_ref": user_ref,
        "media_id": media_id,
        "log_epoch": one.record.log_epoch,
        "version": one.record.offset,
        "logged_at": one.event.logged_at,
    }


def _own(event: PlaybackDecided) -> _Target:
    return event.source_id, event.user_ref, event.media_id


def _overtaken(target: _Target, one: _News) -> dict[str, Any]:
    return {**_row(target, one), "event_time": one.event.event_time}


def _wanted(target: _Target, one: _News) -> dict[str, Any]:
    event = one.event
    return {
        **_row(target, one),
        "from_source": event.source_id,
        "from_media": event.media_id,
        "partition": one.record.partition,
        "place": place_of(event),
        "position_ms": event.position_ms,
        "duration_ms": event.duration_ms,
        "event_time": event.event_time,
    }


def _task(target: _Target, one: _News, soon: bool) -> Mapping[str, Any]:
    source_id, user_ref, media_id = target
    return {
        "key": f"{user_ref}:{media_id}",
        "source_id": source_id,
        "log_epoch": one.record.log_epoch,
        "version": one.record.offset,
        "record": playback_key(user_ref, one.event.media_id).decode(),
        "soon": soon,
        "logged_at": one.event.logged_at,
        "correlation_id": one.event.correlation_id,
    }


def _each(tx: Connection, statement: str, rows: Sequence[Mapping[str, Any]]) -> int:
    """How many rows it has written."""
    return tx.execute(statement.encode(), {"rows": json.dumps(rows)}).rowcount if rows else 0
