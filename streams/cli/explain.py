"""``playhead explain``: what became of a report, from the read model or from the log itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from streams.cli.bars import bar
from streams.cli.output import Json, emit_json, emit_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.runtime.settings import Settings

READ_AT_ONCE = 2_000


def explain(
    event_id: str = typer.Argument(help="Of the report, as the door's answer gave it."),
    from_log: bool = typer.Option(
        False, "--from-log", help="Read the decisions themselves: slow, and there for ever, not 30 days."
    ),
    user: str | None = typer.Option(None, help="user_ref of the person: with --from-log a twelfth of the work."),
    as_json: Json = False,
) -> None:
    """Show what was decided about a report, why, and what it led to. Exit code 1 when nothing is known of it.

    The read model knows what was decided in the last 30 days. --from-log finds everything that ever was, several times
    when the report came several times.

    Examples:  playhead explain tv-17:s3:42  ·  playhead explain tv-17:s3:42 --from-log --user 5f0c…
    """
    from streams.runtime.errors import EXIT_DIFFERENCES
    from streams.runtime.settings import Settings

    settings = Settings.load()
    found = _from_log(settings, event_id, user, quiet=as_json) if from_log else _read(settings, event_id, user)
    if as_json:
        emit_json({"event_id": event_id, "decisions": found})
    elif found:
        for one in found:
            emit_table(("", ""), [(name, value) for name, value in one.items() if value not in (None, [], ())])
    else:
        hint = "" if from_log else "; older than 30 days it is found with --from-log"
        typer.echo(f"nothing is known of {event_id!r}{hint}")
    if not found:
        raise typer.Exit(EXIT_DIFFERENCES)


def _read(settings: Settings, event_id: str, user: str | None) -> list[dict[str, Any]]:
    import asyncio

    from projections.api import ReadModels
    from streams.runtime.database import Database

    async def ask() -> list[dict[str, Any]]:
        async with ReadModels(Database(settings.postgres.conninfo("reader"))) as read:
            return await read.events(event_id, source=None, user=user, media=None)

    return asyncio.run(ask())


def _from_log(settings: Settings, event_id: str, user: str | None, *, quiet: bool) -> list[dict[str, Any]]:
    """Every decision about a report of this id, oldest first within a partition."""
    from dataclasses import asdict

    from projections.dlq.reading import Places
    from schemas.events import PlaybackDecided
    from schemas.placement import partition_of
    from schemas.topics import PLAYBACK_DECIDED
    from streams.runtime.contract import Contract

    topic, contract, named = PLAYBACK_DECIDED, Contract.of(settings), event_id.encode()
    partitions = range(topic.partitions) if user is None else [partition_of(user.encode(), topic.partitions)]
    found: list[dict[str, Any]] = []
    with Places(settings.kafka, committed=True, at_once=READ_AT_ONCE) as places:
        extents = {partition: places.extent(topic.name, partition) for partition in partitions}
        with _bar(sum(end - first for first, end in extents.values()), quiet) as moved:
            for partition, (first, end) in extents.items():
                for message in places.between(topic.name, partition, first, end):
                    moved(1)
                    value = message.value()
                    # Decoding is the work: what does not hold the text can't be about it.
                    if value is None or named not in value:
                        continue
                    event = contract.decode(value)
                    if isinstance(event, PlaybackDecided) and event.event_id == event_id:
                        found.append(asdict(event) | {"partition": partition, "offset": message.offset()})
    return [one for one in found if user is None or one["user_ref"] == user]


@contextmanager
def _bar(total: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal's stderr; nothing anywhere else."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    with bar(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), quiet=quiet) as shown:
        task = shown.add_task("", total=total)
        yield lambda more: shown.advance(task, more)
