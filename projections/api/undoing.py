"""Which commands a person's correction is: pure functions of what the read models show.

Each is a report of kind set_position or mark_unplayed like any other; the rules decide about it. Its time is now, or
just after the newest thing known when a device's clock went ahead: a correction is never older than what it corrects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from projections.api.read_models import Row

FINISHED: Final = "finished"
Kind = Literal["set_position", "mark_unplayed"]


@dataclass(frozen=True, slots=True)
class Command:
    """``position_ms`` None: this command has none."""

    kind: Kind
    position_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BeforeFinish:
    """Where a person was, as the history has it, when the playthrough that ended last had not ended. ``played``:
    whether it counted as played before, by an earlier one."""

    position_ms: int
    played: bool


def position(position_ms: int) -> list[Command]:
    """Go there."""
    return [Command("set_position", position_ms)]


def undo(before: BeforeFinish) -> list[Command]:
    """As if it had not been finished. How often it was played is counted on, as by every mark_unplayed."""
    commands = [] if before.played else [Command("mark_unplayed")]
    if before.position_ms or before.played:
        commands.append(Command("set_position", before.position_ms))
    return commands


def before_finish(newest_first: Iterable[Row]) -> BeforeFinish | None:
    """What stood before the newest finish in a whole history; None when nothing in it was finished.

    Of plain progress the history has the first in each minute, so it is up to a minute early.
    """
    in_finish = False
    at: int | None = None
    for row in newest_first:
        if row["phase"] == FINISHED and at is None:
            in_finish = True
            continue
        if not in_finish:
            continue
        if at is None:
            at = int(row["position_ms"])
        if row["play_counted"] or (row["kind"] == "mark_played" and row["verdict"] == "accepted"):
            return BeforeFinish(at, played=True)
        if row["kind"] == "mark_unplayed" and row["verdict"] == "accepted":
            return BeforeFinish(at, played=False)
    return BeforeFinish(at or 0, played=False) if in_finish else None


def occurred_at(now_ms: int, newest_event_time: int) -> int:
    """The time of a correction, epoch ms."""
    return max(now_ms, newest_event_time + 1)


def entry_named(entry: str) -> tuple[int, int, int] | None:
    """``(log_epoch, partition, version)`` of a history entry's id; None when it is none."""
    parts: Sequence[str] = entry.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) <= 18 for part in parts):
        return None
    log_epoch, partition, version = map(int, parts)
    return log_epoch, partition, version
