"""A listen told afterwards in one statement, as the reports a player would have made of it.

ListenBrainz and Subsonic submit a play when it is complete, with one time. As a bare `finish` the second listen of
a track would change nothing: the rules take it for the end of the playthrough that ended before, and a playthrough
counts once. But a listen says more. It began at the beginning, and half of the track or four minutes of it were
heard (the play rule of both protocols): so it is a start at 0, a progress there and a finish, in a session of its
own, and the rules find the proof they ask for (rule 7: 30 s really played). No rule knows anything of listens.

- The time of a listen is when it began (ListenBrainz), unless it could not be complete by now: then the sender
  means its end, and it began that much before.
- Where the track's length is unknown, 30 s were heard; a track shorter than that counts once in a playthrough.
- A listen without a time (Subsonic allows it) can't be told from its own retry: it proves nothing by itself. After
  a now-playing notice, which opens the run, it does.
- The ids of the reports before the finish are made from its id: a repeated listen is the same three duplicates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

from streams.domain.limits import PROOF_MS
from streams.domain.policy import KIND_RULES
from streams.domain.words import MediaKind
from streams.ingest.draft import Draft
from streams.ingest.hooks import Listen, ParsedReport

_PLAYED_AT: Final = KIND_RULES[MediaKind.MUSIC].played_at


@dataclass(frozen=True, slots=True)
class Told:
    """A report and the id of the event that it becomes."""

    event_id: str
    report: ParsedReport


def told(report: ParsedReport, event_id: str, *, received_at: int, duration_ms: int | None) -> tuple[Told, ...]:
    """What to write for a report, in order; the last one bears `event_id`. All but listens are themselves.

    ``duration_ms``: of the report, else what is known of the item. Times are epoch ms.
    """
    if not isinstance(report, Listen):
        return (Told(event_id, report),)
    plain = ParsedReport(**{field.name: getattr(report, field.name) for field in fields(ParsedReport)})
    heard_ms = (_PLAYED_AT.place(duration_ms) if duration_ms else None) or PROOF_MS
    if report.occurred_at is None:
        steps = [replace(plain, kind="progress", position_ms=heard_ms, played=None)]
    else:
        began = min(report.occurred_at, received_at)
        if began + heard_ms > received_at:
            began -= heard_ms
        plain = replace(plain, session_id=f"listen-{report.occurred_at}", occurred_at=began + heard_ms)
        steps = [
            replace(plain, kind="start", position_ms=0, occurred_at=began, played=None),
            replace(plain, kind="progress", position_ms=heard_ms, played=None),
        ]
    if heard_ms < PROOF_MS:  # where a finish stands tells more than a position this early
        steps = [step for step in steps if step.kind == "start"]
    return (*(Told(_id_before(event_id, step.kind), step) for step in steps), Told(event_id, plain))


def oldest_first(drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts with the listens among them in the order of their times: imports often come newest first.

    Listens stay in the places of listens; everything else stays where it is.
    """
    listens = [draft for draft in drafts if isinstance(draft.report, Listen)]
    listens.sort(key=lambda draft: draft.report.occurred_at or 0)
    in_order = iter(listens)
    return [next(in_order) if isinstance(draft.report, Listen) else draft for draft in drafts]


def _id_before(event_id: str, kind: str) -> str:
    return hashlib.sha256(f"{kind}\0{event_id}".encode()).hexdigest()[:32]
