"""What to write to a media server, from how playback should stand there and what the server says: pure.

    wanted (newest decision) ─┐
    has (read just before)  ──┼─► step: a change to write, or why nothing is written; which plays are told by it
    sent (written before)   ──┘

A server is never moved back, nor away from something newer of its own: unless what it has is what was written to it
before, the decision must be newer than the server's own time of the value. Where it tells no time, a position only
moves forward. A play is told once: one that was tried before counts as told when the server shows any play at or after
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

Place: TypeAlias = Literal["at", "finished", "unplayed", "none"]
Outcome: TypeAlias = Literal["written", "same", "kept", "nothing"]

SLACK_MS: Final = 1_500
"""Servers keep whole seconds, cut or rounded."""
PLAYED: Final = -1
UNPLAYED: Final = -2
"""In the list of what was sent, where positions are not negative."""
SENT_MAX: Final = 8
_SECOND_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Play:
    """``at``: epoch ms. ``tried``: it was begun to be told, so it may be counted already. ``key``: (log_epoch, version)
    of its decision."""

    at: int
    tried: bool = False
    key: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Wanted:
    """How playback should stand. ``position_ms`` counts for place "at"; ``event_time``: when it was so, epoch ms.
    ``duration_ms``: of what was played."""

    place: Place
    position_ms: int
    event_time: int
    duration_ms: int | None = None
    plays: tuple[Play, ...] = ()
    sent: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Has:
    """How it stands on the server. A finished item's ``position_ms`` is 0. ``at``: when that was so, epoch ms by the
    server. ``play_count`` None: it counts none; ``last_play_at``: of the newest it counted.

    ``counted_s``: seconds of plays it is known to have counted. ``keeps_positions``, ``keeps_played``: whether it can
    at all. ``keeps_times``: whether ``at`` of what it is told is the time it is told. ``raw``: what the server said,
    for writing it back whole.
    """

    position_ms: int = 0
    played: bool = False
    at: int | None = None
    play_count: int | None = None
    last_play_at: int | None = None
    duration_ms: int | None = None
    counted_s: frozenset[int] = frozenset()
    keeps_positions: bool = True
    keeps_played: bool = True
    keeps_times: bool = False
    raw: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Change:
    """What to write: ``position_ms`` and ``played`` where they are not None; plays to count, oldest first. ``at``: the
    time it was so, epoch ms."""

    at: int
    position_ms: int | None = None
    played: bool | None = None
    plays: tuple[Play, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """``change`` None: nothing is to be written, and ``outcome`` says why. ``told``: plays that are counted already."""

    outcome: Outcome
    change: Change | None = None
    told: tuple[Play, ...] = ()


def step(wanted: Wanted, has: Has) -> Step:
    """What brings the server from ``has`` to ``wanted``."""
    outcome, position_ms, played = _standing(wanted, has)
    if has.play_count is None:
        fresh: tuple[Play, ...] = ()
    else:
        fresh = tuple(sorted((one for one in wanted.plays if not _is_told(one, has)), key=lambda one: one.at))
    told = tuple(one for one in wanted.plays if one not in fresh)
    if position_ms is None and played is None and not fresh:
        return Step(outcome, told=told)
    return Step("written", Change(wanted.event_time, position_ms, played, fresh), told)


def after(has: Has, change: Change) -> Has:
    """How it stands on the server when the change is kept."""
    played = has.played if change.played is None else change.played
    position_ms = has.position_ms if change.position_ms is None else change.position_ms
    if change.played is not None and change.position_ms is None:
        position_ms = 0
    at = told_at(has, change) if has.keeps_times else has.at
    return replace(has, position_ms=position_ms, played=played, at=at)


def told_at(has: Has, change: Change) -> int:
    """The time that a server which keeps times is told with a change, epoch ms: it never goes back."""
    return max([change.at, has.at or 0, *(play.at for play in change.plays)])


def is_kept(expected: Has, found: Has) -> bool:
    """Whether the server has what it was told, as well as it can have it."""
    at_place = not found.keeps_positions or abs(expected.position_ms - found.position_ms) <= SLACK_MS
    return at_place and (not found.keeps_played or expected.played == found.played)


def is_newer(expected: Has, found: Has) -> bool:
    """Whether what the server has is what somebody did there since, and not what it made of what it was told.

    Only times tell these apart, so where a server keeps none of ours this is False.
    """
    return found.keeps_times and found.at is not None and found.at > (expected.at or 0)


def sent_mark(change: Change) -> int | None:
    """What stands for a change in the list of what was sent; None: it tells plays only."""
    if change.position_ms:
        return change.position_ms
    if change.played is not None:
        return PLAYED if change.played else UNPLAYED
    return change.position_ms


def _standing(wanted: Wanted, has: Has) -> tuple[Outcome, int | None, bool | None]:
    """The outcome when nothing more is to do, the position to write, and played or not played to write."""
    match wanted.place:
        case "none":
            return "nothing", None, None
        case "at":
            return _moved(wanted, has)
        case "finished":
            if (has.played or not has.keeps_played) and has.position_ms <= SLACK_MS:
                return "same", None, None
            if not _may_write(wanted, has):
                return "kept", None, None
            return ("same", None, True) if has.keeps_played else ("same", 0, None)
        case "unplayed":
            if not has.played and has.position_ms <= SLACK_MS:
                return "same", None, None
            if not _may_write(wanted, has):
                return "kept", None, None
            return ("same", None, False) if has.keeps_played else ("same", 0, None)


def _moved(wanted: Wanted, has: Has) -> tuple[Outcome, int | None, bool | None]:
    if not has.keeps_positions or not _comparable(wanted.duration_ms, has.duration_ms):
        return "nothing", None, None
    if abs(wanted.position_ms - has.position_ms) <= SLACK_MS and not (has.played and wanted.position_ms > SLACK_MS):
        return "same", None, None
    forward = wanted.position_ms > has.position_ms and not has.played
    if not _may_write(wanted, has, without_time=forward):
        return "kept", None, None
    # Playing again what was played: servers unset it themselves when somebody begins.
    return "same", wanted.position_ms, False if has.played and wanted.position_ms > SLACK_MS else None


def _may_write(wanted: Wanted, has: Has, *, without_time: bool = True) -> bool:
    if any(_is_of_us(mark, has) for mark in wanted.sent):
        return True
    return without_time if has.at is None else wanted.event_time > has.at


def _is_of_us(mark: int, has: Has) -> bool:
    if mark == PLAYED:
        return has.played and has.position_ms <= SLACK_MS
    if mark == UNPLAYED:
        return not has.played and has.position_ms <= SLACK_MS
    return not has.played and abs(mark - has.position_ms) <= SLACK_MS


def _is_told(play: Play, has: Has) -> bool:
    if play.at // _SECOND_MS in has.counted_s:
        return True
    last = has.last_play_at
    if last is None or not has.play_count:
        return False
    if abs(last // _SECOND_MS - play.at // _SECOND_MS) <= (1 if play.tried else 0):
        return True
    return play.tried and last >= play.at


def _comparable(one: int | None, other: int | None) -> bool:
    """Whether a position in one is the same place in the other: two cuts of a film, two readers of a book are not."""
    if not one or not other:
        return True
    return abs(one - other) <= max(60_000, max(one, other) // 20)


def lasting(sent: Sequence[int], mark: int | None) -> list[int]:
    """The list of what was sent with a new one."""
    return list(sent) if mark is None else [mark, *(one for one in sent if one != mark)][:SENT_MAX]
