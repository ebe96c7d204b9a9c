"""The echo guard: a value that Playhead itself wrote to a server and that a hook or a poll brings back.

    identified draft ─► what does it say? ─► in the ledger, unreturned by this way? ─► origin echo ─► log ─► returned

An echo goes into the log like any report, so that it can be explained; the rules ignore it. With the database away
nothing is known to be an echo: the report then says what the state says already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from streams.ingest.draft import Draft, by_source
from streams.ingest.hooks import ParsedReport
from streams.runtime import logs
from streams.runtime.database import DatabaseAway
from streams.runtime.echoes import WAYS, Back, Ledger, Value, Way

_OWN_FORMATS: Final = frozenset({"native"})
_log = logs.get(__name__)


def way_of(format: str) -> Way | None:
    """How a value comes back in this format; None: a device's or client's own word, which is never an echo."""
    if format == "poll":
        return "poll"
    return None if format in _OWN_FORMATS else "hook"


def value_of(report: ParsedReport) -> Value | None:
    """What a server says by it that it may have been told; None for reports that nobody writes, as a start."""
    match report.kind:
        case "finish" | "mark_played":
            return Value(played=True)
        case "mark_unplayed":
            return Value(played=False)
        case "clear_position":
            return Value(position_ms=0)
        case "progress" | "pause" | "resume" | "seek" | "stop" | "set_position":
            if report.played:
                return Value(played=True)
            return None if report.position_ms is None else Value(position_ms=report.position_ms)
        case _:
            return None


class Echoes:
    def __init__(self, ledger: Ledger | None) -> None:
        self._ledger = ledger

    async def mark(self, drafts: Sequence[Draft]) -> None:
        """Give those identified drafts that are echoes that origin."""
        if self._ledger is None:
            return
        for source_id, group in by_source(drafts).items():
            for way in WAYS:
                asked = [
                    (draft, Back(draft.user_ref, draft.media_id, value))
                    for draft in group
                    if draft.way == way
                    and draft.report.origin != "echo"
                    and (value := value_of(draft.report)) is not None
                ]
                if not asked:
                    continue
                try:
                    found = await self._ledger.returning(source_id, way, [back for _, back in asked])
                except DatabaseAway:
                    continue
                for place, row in found.items():
                    draft = asked[place][0]
                    draft.report = replace(draft.report, origin="echo")
                    draft.echo_of = row

    async def returned(self, drafts: Sequence[Draft]) -> None:
        """The drafts are where they can't be lost: what they brought back has come back."""
        for way in WAYS:
            rows = [draft.echo_of for draft in drafts if draft.way == way and draft.echo_of is not None]
            if not rows or self._ledger is None:
                continue
            try:
                await self._ledger.returned(way, rows)
            except DatabaseAway:
                # The row serves once more, at most until it expires: the same value again changes nothing.
                _log.info("an echo stays in the ledger")
