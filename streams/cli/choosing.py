"""Which letters a command of ``playhead dlq`` means, and how they are shown."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import typer

from streams.cli.bars import bar

if TYPE_CHECKING:
    from projections.dlq.desk import Chosen, Letter

_AGE: Final = re.compile(r"(\d{1,6})([smhd])")
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_ID: Final = re.compile(r"[0-9a-f]{4,32}")


def choose(
    letters: Sequence[str] | None = None,
    topic: str | None = None,
    cause: str | None = None,
    consumer: str | None = None,
    source: str | None = None,
    older: str | None = None,
    newer: str | None = None,
    limit: int = 50,
    statuses: Sequence[str] = (),
) -> Chosen:
    """What the options say. Raises typer.BadParameter for what is no id or no age."""
    from projections.dlq.desk import Chosen

    for letter in letters or ():
        if not _ID.fullmatch(letter):
            raise typer.BadParameter("an id is 32 hexadecimal digits, or at least the first 4 of them")
    return Chosen(
        letters=tuple(letters or ()),
        topic=topic,
        cause=cause,
        consumer=consumer,
        source=source,
        older_ms=None if older is None else _ago(older),
        newer_ms=None if newer is None else _ago(newer),
        limit=limit,
        statuses=tuple(statuses),
    )


def narrow(chosen: Chosen, everything: bool) -> None:
    """Return unless all letters there are would be meant by accident."""
    if chosen.everything and not everything:
        raise typer.BadParameter("say which letters: their ids, a filter, or --all")


def statuses_of(text: str) -> tuple[str, ...]:
    """The statuses of an option; none means all. Raises typer.BadParameter."""
    from projections.dlq.desk import Status

    if text == "all":
        return ()
    named = tuple(part.strip() for part in text.split(",") if part.strip())
    if not named or set(named) - {status.value for status in Status}:
        raise typer.BadParameter(f"one of {', '.join(Status)}, or all", param_hint="--status")
    return named


def when(ms: int) -> str:
    """Epoch ms for people, UTC."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def place_of(letter: Letter) -> str:
    """Where the record lies."""
    return f"{letter.topic}[{letter.topic_partition}]@{letter.topic_offset}"


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[int], None]]:
    """A counter on a terminal's stderr; nothing anywhere else."""
    from rich.progress import SpinnerColumn, TextColumn

    with bar(SpinnerColumn(), TextColumn("{task.completed} letters"), quiet=quiet) as shown:
        task = shown.add_task("", total=None)
        yield lambda more: shown.advance(task, more)


def _ago(age: str) -> int:
    found = _AGE.fullmatch(age)
    if found is None:
        raise typer.BadParameter(f"{age!r} is no age: 90s, 15m, 6h, 2d")
    return time.time_ns() // 1_000_000 - int(found[1]) * _UNIT_MS[found[2]]
