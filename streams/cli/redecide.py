"""``playhead redecide``: what this build's rules, or another policy, would make of the reports in the log."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.bars import bar
from streams.cli.output import Json, emit_json, emit_table

if TYPE_CHECKING:
    from confluent_kafka import Message

    from projections.rebuild.reading import LogReader
    from schemas.topics import Topic
    from streams.agents.redeciding import Findings
    from streams.runtime.contract import Contract
    from streams.runtime.settings import Settings

RECORDS_MAX = 5_000
Told = Callable[[int], None]


def redecide(
    policy: Annotated[str, typer.Option(help="playthrough or furthest; by default the one that is set.")] = "",
    since: Annotated[str, typer.Option(help="Tell of reports from this time on; all are decided.")] = "",
    partition: Annotated[list[int] | None, typer.Option(help="Only these, for a look; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Decide every report in the log again and compare with what was decided: which decisions would differ, and why.

    Nothing is written, to Kafka or anywhere but a temporary folder, and no agent notices. Run it before rules or policy
    change. A difference that follows from an earlier one of the same person and media is counted apart.

    Exit code 1 when decisions would differ.

    Examples:  playhead redecide  ·  playhead redecide --policy furthest --since 2026-11-01 --json
    """
    from projections.rebuild.starts import FromTime, start_of
    from schemas.topics import PLAYBACK_DECIDED
    from streams.domain.policy import POLICIES
    from streams.runtime import logs
    from streams.runtime.contract import Contract
    from streams.runtime.errors import EXIT_DIFFERENCES
    from streams.runtime.settings import Settings

    settings = Settings.load()
    logs.configure("redecide", level="WARNING")
    name = policy or settings.playback.policy
    if name not in POLICIES:
        raise typer.BadParameter(f"the policies are {', '.join(sorted(POLICIES))}", param_hint="--policy")
    start = start_of(since) if since else None
    if start is not None and not isinstance(start, FromTime):
        raise typer.BadParameter("a time like 2026-11-01 or 2026-11-01T20:15:00Z", param_hint="--since")
    partitions = partition or list(range(PLAYBACK_DECIDED.partitions))
    if not all(0 <= one < PLAYBACK_DECIDED.partitions for one in partitions):
        raise typer.BadParameter(f"from 0 to {PLAYBACK_DECIDED.partitions - 1}", param_hint="--partition")
    found = _Run(settings, Contract.of(settings), name, start.at_ms if start else 0).all(partitions)
    _tell(found, name, as_json=as_json)
    if found.differing:
        raise typer.Exit(EXIT_DIFFERENCES)


class _Run:
    def __init__(self, settings: Settings, contract: Contract, policy: str, since_ms: int) -> None:
        self._settings = settings
        self._contract = contract
        self._policy = policy
        self._since_ms = since_ms

    def all(self, partitions: list[int]) -> Findings:
        from schemas.topics import MEDIA_MERGED, PLAYBACK_DECIDED, PLAYBACK_REPORTED
        from streams.agents.redeciding import Findings
        from streams.runtime.kafka import topic_id

        findings = Findings()
        reported = topic_id(self._settings.kafka, PLAYBACK_REPORTED.name)
        with contextlib.ExitStack() as opened:
            readers = [opened.enter_context(_reading(self._settings, topic)) for topic in (
                PLAYBACK_REPORTED, PLAYBACK_DECIDED, MEDIA_MERGED
            )]  # fmt: skip
            extents = [reader.extents(partitions) for reader in readers]
            told = opened.enter_context(_bar(sum(end - first for first, end in extents[0].values())))
            for one in partitions:
                streams = [_records(reader, one, *extent[one]) for reader, extent in zip(readers, extents, strict=True)]
                with tempfile.TemporaryDirectory(prefix="playhead-redecide-") as folder:
                    self._partition(one, reported, streams, Path(folder), findings, told)
        return findings

    def _partition(
        self, partition: int, topic_id: str, streams: list[Iterator[Message]], folder: Path, into: Findings, told: Told
    ) -> None:
        from streams.agents.redeciding import Redecider
        from streams.domain.policy import POLICIES

        reports, recorded, merges = streams
        redecider = Redecider(
            partition,
            topic_id,
            recorded,
            self._contract,
            POLICIES[self._policy],
            folder,
            into,
            since_ms=self._since_ms,
        )
        try:
            merge = next(merges, None)
            for record in reports:
                while merge is not None and merge.timestamp()[1] <= record.timestamp()[1]:
                    redecider.merge(merge)
                    merge = next(merges, None)
                if not redecider.report(record):
                    into.undecided += 1
                told(1)
        finally:
            redecider.close()


@contextlib.contextmanager
def _reading(settings: Settings, topic: Topic) -> Iterator[LogReader]:
    from projections.rebuild.reading import LogReader

    reader = LogReader(settings.kafka, topic)
    try:
        yield reader
    finally:
        reader.close()


def _records(reader: LogReader, partition: int, first: int, end: int) -> Iterator[Message]:
    for batch in reader.between({partition: first}, {partition: end}, RECORDS_MAX, threading.Event()):
        yield from batch


def _tell(found: Findings, policy: str, *, as_json: bool) -> None:
    if as_json:
        emit_json(
            {
                "policy": policy,
                "reports": found.reports,
                "same": found.same,
                "differing": found.differing,
                "following_an_earlier_difference": found.followed,
                "undecided": found.undecided,
                "keys_that_end_differently": len(found.keys),
                "causes": [
                    {"cause": cause, "count": count, "examples": [_document(one) for one in found.examples[cause]]}
                    for cause, count in found.causes.most_common()
                ],
            }
        )
        return
    if found.causes:
        emit_table(("cause", "decisions"), found.causes.most_common(), title="would differ (recorded → now)")
        emit_table(
            ("cause", "place", "event", "user", "media", "recorded → now"),
            [
                (
                    cause,
                    f"{one.partition}:{one.offset}",
                    one.event_id,
                    one.user_ref,
                    one.media_id,
                    ", ".join(f"{name}: {then} → {now}" for name, (then, now) in one.fields.items()),
                )
                for cause, _ in found.causes.most_common()
                for one in found.examples[cause]
            ],
        )
    typer.echo(
        f"policy {policy}: {found.reports} reports decided again, {found.same} the same, {found.differing} differ "
        f"({found.followed} of them follow from an earlier one); {len(found.keys)} rows would end differently; "
        f"{found.undecided} are not decided yet"
    )


def _document(one: object) -> dict[str, object]:
    from dataclasses import asdict

    document = asdict(one)  # type: ignore[call-overload]
    document["fields"] = {name: {"recorded": then, "now": now} for name, (then, now) in document["fields"].items()}
    return dict(document)


@contextlib.contextmanager
def _bar(total: int) -> Iterator[Told]:
    """A progress bar on a terminal's stderr; nothing anywhere else."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    with bar(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as shown:
        task = shown.add_task("", total=total)
        yield lambda records: shown.advance(task, records)
