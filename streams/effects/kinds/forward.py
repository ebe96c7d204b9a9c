"""Kind ``forward``: a media server is told how a person's playback of one item stands.

    what is wanted ─ what the server has ─► nothing to do ───────────────────────────────► done
                                     └─► the lease is ours? ─ it may come back ─ write ─ read again ─► done

The lock is the task's key, ``lock:progress:user:{user}:media:{media}`` with the media as that server has it. A crash
anywhere leaves a task that asks the server first, and finds its own write there. What a server refuses for good, or
says it took and did not, is a dead letter; being away only takes time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from streams.domain.forwarding import Change, Has, Outcome, after, is_kept, is_newer, step
from streams.effects.forward.ports import Server, Thing
from streams.effects.forward.sessions import Sessions
from streams.effects.kinds import Kind, NotNow
from streams.effects.retry import RetryPolicy
from streams.runtime import logs, metrics
from streams.runtime.echoes import Value
from streams.runtime.errors import Permanent, Transient
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.forwarding import KIND, Forwarding, Item
from streams.runtime.leases import CameToNothing, Lease, LeaseLost
from streams.runtime.upstreams import LISTS_NOTHING, UpstreamEntry
from streams.upstream.errors import Resting, ServerFailed, UpstreamAway, UpstreamError

NAME: Final = KIND
AT_ONCE: Final = 6
TARGET_S: Final = 5.0
RETRY: Final = RetryPolicy(attempts=2_000)
"""A server that is away is waited for, for days: there is one task an item, whatever is played meanwhile."""
REFUSALS_MAX: Final = 5
_log = logs.get(__name__)


class NotKept(Transient):
    """The server said it took a value, and has another."""


class MovedOn(Transient):
    """Somebody went on there between our write and our look at it: that is the server's own, and comes by itself."""


@dataclass(frozen=True, slots=True)
class Forwards:
    """What forwarding stands on. ``entry``: where a source's server is, None when nobody has said."""

    rows: Forwarding
    sessions: Sessions
    entry: Callable[[str], UpstreamEntry | None]
    failpoint: Failpoint = disarmed


def forward_kind(forwards: Forwards, *, at_once: int = AT_ONCE) -> Kind:
    def run(lease: Lease) -> None:
        source_id = lease.task.source_id
        with forwards.sessions.turn(source_id):
            try:
                _tell(forwards, lease)
            except Resting as exc:
                raise NotNow(str(exc), exc.retry_after_s or 1.0) from exc
            except UpstreamAway:
                raise
            except UpstreamError as exc:
                raise Permanent(f"{exc.cause}: {exc}", cause="rejected") from exc

    return Kind(NAME, run, at_once, TARGET_S, RETRY)


def _tell(forwards: Forwards, lease: Lease) -> None:
    item = forwards.rows.item(lease.task)
    if item.wanted.place == "none" and not item.wanted.plays:
        forwards.rows.done(item, "nothing", ())
        return
    entry = forwards.entry(item.source_id)
    if entry is None or not item.accounts:
        raise CameToNothing("the source has no server, or the person no account there any more")
    media = item.media_id if entry.kind in LISTS_NOTHING else item.upstream_media
    if media is None or (entry.kind in LISTS_NOTHING and not (item.title and item.artists)):
        raise CameToNothing("the server lists it no more, or nobody knows what it is called")
    thing = Thing(media, item.wanted.plays, item.title, item.artists, item.duration_ms, item.recording_id)
    outcomes: list[Outcome] = []
    for user in item.accounts:
        server = forwards.sessions.server_for(entry, user)
        if server is None:
            raise CameToNothing("nobody's secret is known there who may speak for the person")
        try:
            outcomes.append(_tell_account(forwards, lease, item, server, user, thing))
        except (ServerFailed, NotKept) as exc:
            forwards.rows.refused(item)
            if item.refusals + 1 >= REFUSALS_MAX:
                raise Permanent(f"{type(exc).__name__}: {exc}", cause="rejected") from exc
            raise
    lease.check()
    outcome: Outcome = "written" if "written" in outcomes else outcomes[0]
    forwards.rows.done(item, outcome, item.wanted.plays)
    forwards.failpoint("forward.noted")
    metrics.FORWARDED.labels(entry.kind, outcome).inc()


def _tell_account(forwards: Forwards, lease: Lease, item: Item, server: Server, user: str, thing: Thing) -> Outcome:
    ask = forwards.sessions.run
    has = ask(server.read(user, thing))
    if has.duration_ms is None:
        has = replace(has, duration_ms=item.duration_ms)
    todo = step(item.wanted, has)
    change = todo.change
    if change is None:
        return todo.outcome
    expected = after(has, change)
    lease.check()
    forwards.rows.sending(item, change, _values(expected, change))
    forwards.failpoint("forward.announced")
    # The announcement may have taken long: nothing is written under a lease that is over.
    lease.check()
    try:
        try:
            ask(server.write(user, thing, has, change))
            forwards.failpoint("forward.written")
            found = ask(server.read(user, thing))
            if not is_kept(expected, found):
                if is_newer(expected, found):
                    raise MovedOn("somebody went on there meanwhile")
                if _stands(change):
                    forwards.rows.may_come_back(item, _values(found, change))
                raise NotKept("it answered well, and has another value than it was told")
        finally:
            # Whatever came of it, it may have arrived. Who takes the task from here on reads what the server has now;
            # who took it before may have told the server something newer before us.
            lease.check(anew=True)
    except LeaseLost:
        forwards.rows.look_again(lease.task)
        raise
    _log.info("told", position_ms=change.position_ms, played=change.played, plays=len(change.plays))
    return "written"


def _stands(change: Change) -> bool:
    return change.position_ms is not None or change.played is not None


def _values(has: Has, change: Change) -> list[Value]:
    """What the server may say of it, by a hook or when it is polled."""
    plays = [Value(played=True)] if change.plays and not has.keeps_played else []
    if has.played:
        return [Value(played=True)]
    if has.position_ms:
        return [*plays, Value(position_ms=has.position_ms)]
    return plays or [Value(played=False), Value(position_ms=0)]
