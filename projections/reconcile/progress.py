"""Playback against what servers say of it, item by item, as the forwarder reads them.

    ours (read model) ─┐
    has (the server)  ─┼─ the same ─────────────────────────────────────────► in order
                       ├─ is to be told, and has nothing newer of its own ──► forward_lost ─► it is told once more
                       └─ has something: was that reported before? ─ yes ───► settled: the rules have had their say
                                                                   └ no ────► upstream_changed ─► it is reported

What a server has of media we know nothing of is found by the sweeps of polling, not here.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from projections.base import Connection
from projections.rebuild.running import connect
from projections.reconcile.findings import Cause, Findings, ForwardAgain, Scope, Tell
from streams.domain.forwarding import SLACK_MS, Has, Place, Wanted, step
from streams.domain.limits import POSITION_MS_MAX
from streams.effects.forward.ports import Thing
from streams.effects.forward.sessions import Sessions
from streams.effects.kinds import NotNow
from streams.ingest.hooks import ParsedReport
from streams.ingest.pollers.jellyfin import LONG_AGO_MS
from streams.ingest.pollers.statements import EventIds
from streams.runtime.errors import ConfigurationError, Transient
from streams.runtime.polls import Key
from streams.runtime.settings import Settings
from streams.runtime.upstreams import LISTS_NOTHING, UpstreamEntry, upstream_entry
from streams.upstream.errors import NotOffered, UpstreamError

ITEMS_MAX: Final = 5_000
"""Of one source so many are asked for in one run, those played last first."""
FAILURES_MAX: Final = 5
"""Errors in a row after which a server is let be."""
Told: TypeAlias = Callable[[str, int, int], None]
"""Source, how many of its items were asked for, of how many."""

# A person's row may be of another media that is the same: what was decided about it last counts.
_OURS: Final = """
SELECT u.user_ref, u.upstream_user, i.media_id, i.upstream_id, i.media_kind, i.duration_ms,
       p.position_ms, p.phase, p.played, p.event_time, p.log_epoch, p.version,
       w.place, w.position_ms, w.duration_ms, w.event_time, w.sent, w.version > w.done_version,
       t.dead_at IS NOT NULL, t.wanted_version > greatest(t.done_version, t.cancelled_version)
FROM core.users u
JOIN LATERAL (
    SELECT i.* FROM model.media_items i
    WHERE i.source_id = u.source_id AND NOT i.merged AND i.status IN ('present', 'provisional')
      AND i.upstream_id IS NOT NULL
      AND (EXISTS (SELECT FROM model.playback_progress p WHERE p.user_ref = u.user_ref AND p.media_id = i.media_id)
           OR EXISTS (SELECT FROM core.forward_wanted w WHERE w.source_id = u.source_id AND w.user_ref = u.user_ref
                      AND w.media_id = i.media_id AND w.place <> 'none'))
) AS i ON true
LEFT JOIN model.playback_progress p ON p.user_ref = u.user_ref AND p.media_id = i.media_id
LEFT JOIN core.forward_wanted w ON w.source_id = u.source_id AND w.user_ref = u.user_ref AND w.media_id = i.media_id
    AND w.place <> 'none'
LEFT JOIN core.tasks t ON t.kind = 'forward' AND t.key = u.user_ref || ':' || i.media_id
WHERE u.source_id = %(source)s
ORDER BY greatest(p.event_time, w.event_time) DESC, u.user_ref, i.media_id LIMIT %(limit)s"""
_TOLD: Final = "SELECT forward_since IS NOT NULL FROM core.source_upstreams WHERE source_id = %s"
# By whatever way: a poll, a hook, or a run before this one.
_SAID: Final = """
SELECT 1 FROM model.progress_history
WHERE source_id = %(source)s AND user_ref = %(user)s AND media_id = %(media)s AND event_time >= %(since)s
  AND (abs(coalesce(report_position_ms, 0) - %(position)s) <= %(slack)s AND NOT %(played)s
       OR %(played)s AND kind IN ('finish', 'mark_played'))
UNION ALL
SELECT 1 FROM model.processed_events
WHERE source_id = %(source)s AND user_ref = %(user)s AND media_id = %(media)s AND event_time >= %(since)s
  AND event_id = %(event)s
LIMIT 1"""


@dataclass(frozen=True, slots=True)
class _Ours:
    """How playback of an item stands here. ``event_time``: when it was so, epoch ms; None: there is nothing of it."""

    position_ms: int
    played: bool
    event_time: int | None


@dataclass(frozen=True, slots=True)
class _Item:
    user_ref: str
    account: str
    media_id: str
    upstream: str
    media_kind: str | None
    duration_ms: int | None
    ours: _Ours
    wanted: Wanted | None
    waits: bool
    """Somebody is about to tell the server."""
    dead: bool
    """It was given up: that is a dead letter's affair."""


def check_progress(
    settings: Settings,
    source_id: str,
    sessions: Sessions,
    findings: Findings,
    *,
    stop: threading.Event,
    told: Told = lambda *_: None,
) -> None:
    """Ask one source's server for everything that was played of it here. What it does not answer is passed over."""
    with connect(settings) as tx:
        entry = upstream_entry(tx, source_id)
        if entry is None or entry.kind in LISTS_NOTHING:
            return
        row = tx.execute(_TOLD.encode(), (source_id,)).fetchone()
        items = [_item(row) for row in tx.execute(_OURS.encode(), {"source": source_id, "limit": ITEMS_MAX}).fetchall()]
    if len(items) == ITEMS_MAX:
        findings.pass_over(Scope.PROGRESS, source_id, f"only the {ITEMS_MAX} items played last were looked at")
    ids = EventIds(settings.identity.key(), source_id)
    is_told = bool(row and row[0])
    own: list[tuple[_Item, Has]] = []
    failures = 0
    unasked: Counter[str] = Counter()
    for number, item in enumerate(items, 1):
        try:
            has = _has(sessions, entry, item, stop)
            failures = 0
        except NotOffered:
            continue  # the library's affair
        except (UpstreamError, Transient, ConfigurationError) as exc:
            failures += 1
            why = f"the server does not answer: {type(exc).__name__}"
            unasked[why] += 1
            if failures >= FAILURES_MAX:
                unasked[why] += len(items) - number
                break
            continue
        if has is None:
            unasked["nobody's secret is known there who may ask for the person"] += 1
            continue
        findings.looked(Scope.PROGRESS, 1)
        told(source_id, number, len(items))
        if _judge(source_id, item, has, is_told, findings):
            own.append((item, has))
    for why, times in sorted(unasked.items()):
        findings.pass_over(Scope.PROGRESS, source_id, f"{times} of {len(items)} items: {why}")
    with connect(settings) as tx:
        _report(tx, source_id, own, ids, findings)


def _has(sessions: Sessions, entry: UpstreamEntry, item: _Item, stop: threading.Event) -> Has | None:
    """What the server says; None when nobody may ask for this person."""
    while True:
        try:
            with sessions.turn(entry.source_id):
                server = sessions.server_for(entry, item.account)
                if server is None:
                    return None
                has = sessions.run(server.read(item.account, Thing(item.upstream, duration_ms=item.duration_ms)))
                return replace(has, duration_ms=has.duration_ms or item.duration_ms)
        except NotNow as exc:
            # Others' turn: forwarding goes first.
            if stop.wait(exc.retry_after_s):
                raise


def _judge(source_id: str, item: _Item, has: Has, is_told: bool, findings: Findings) -> bool:
    """Whether the server has something of its own. Whatever else is wrong goes into the findings."""
    if _same(item.ours, has):
        return False
    wanted = item.wanted
    if wanted is not None and is_told:
        todo = step(replace(wanted, plays=()), has)
        if todo.change is not None:
            if item.waits:
                findings.settle("the server is about to be told")
            elif item.dead:
                findings.settle("the server refused it: a dead letter")
            else:
                again = ForwardAgain(source_id, item.user_ref, item.media_id)
                findings.add(Cause.FORWARD_LOST, _what(source_id, item, has), again)
            return False
        if todo.outcome != "kept":
            return False
    if not has.played and not has.position_ms:
        # As polling has it: that something was neither begun nor played is no news.
        findings.settle("there is nothing of it on the server, which is not told")
        return False
    return True


def _report(
    tx: Connection, source_id: str, own: Sequence[tuple[_Item, Has]], ids: EventIds, findings: Findings
) -> None:
    """What was said of these before has had its say: the same again would change nothing."""
    for item, has in own:
        report = _told(item, has, ids)
        said = {
            "source": source_id,
            "user": item.user_ref,
            "media": item.media_id,
            "position": has.position_ms,
            "played": has.played and not has.position_ms,
            "since": (has.at or 0) - SLACK_MS,
            "slack": SLACK_MS,
            "event": report.event_id,
        }
        if tx.execute(_SAID.encode(), said).fetchone() is not None:
            findings.settle("it was reported, and the rules decided otherwise")
        else:
            findings.add(Cause.UPSTREAM_CHANGED, _what(source_id, item, has), Tell(source_id, report))


def _what(source_id: str, item: _Item, has: Has) -> str:
    return f"{item.user_ref}:{item.media_id} of {source_id}: {_said(has)} there, {_said_ours(item.ours)} here"


def _told(item: _Item, has: Has, ids: EventIds) -> ParsedReport:
    """As a poll would say it. Its id is made of all that the server told, so said twice it is said once."""
    key = Key(item.account, "reconcile", item.upstream)
    finished = has.played and not has.position_ms
    media_kind: Any = item.media_kind
    return ParsedReport(
        event_id=ids.of(key, has.position_ms, has.played, has.at),
        kind="finish" if finished else "progress",
        origin="reconcile",
        upstream_user=item.account,
        upstream_media=item.upstream,
        media_kind=media_kind,
        # Jellyfin notes when playing began: within one of its runs what is further is newer.
        session_id=f"user data {has.at or 0}",
        sequence=POSITION_MS_MAX + 1 if finished else has.position_ms,
        position_ms=has.position_ms or None,
        duration_ms=has.duration_ms,
        occurred_at=LONG_AGO_MS if has.at is None else has.at,
        played=True if finished else None,
    )


def _same(ours: _Ours, has: Has) -> bool:
    if has.keeps_played and ours.played != has.played and not (has.position_ms and ours.position_ms):
        return False
    if not has.keeps_positions:
        return True
    return abs(ours.position_ms - has.position_ms) <= SLACK_MS


def _item(row: Sequence[Any]) -> _Item:
    user, account, media, upstream, media_kind, duration, *rest = row
    position, phase, played, event_time, _, _, place, w_position, w_duration, w_time, sent, undone, dead, waits = rest
    # What is played and not begun again stands at no place, as servers have it.
    at = 0 if position is None or phase == "finished" else position
    ours = _Ours(at, bool(played), event_time)
    if place is not None and (event_time is None or event_time < w_time):
        # What it is to be told is newer; a row of its own may say no more than that an echo was heard.
        ours = _Ours(w_position if place == "at" else 0, place == "finished", w_time)
    places: Place | None = place
    wanted = None if places is None else Wanted(places, w_position, w_time, w_duration, (), tuple(sent))
    return _Item(user, account, media, upstream, media_kind, duration, ours, wanted, bool(undone and waits), bool(dead))


def _said(has: Has) -> str:
    return "played" if has.played and not has.position_ms else f"{has.position_ms} ms"


def _said_ours(ours: _Ours) -> str:
    if ours.event_time is None:
        return "nothing"
    return "played" if ours.played and not ours.position_ms else f"{ours.position_ms} ms"
