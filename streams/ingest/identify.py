"""Who and what a draft is about, and the record it becomes: the same steps at the door and out of the spool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from schemas.errors import InvalidValue
from schemas.limits import DOOR_RECORD_BYTES_MAX
from schemas.placement import playback_key, playback_partition
from schemas.topics import PLAYBACK_REPORTED
from streams.domain.identity import media_id
from streams.ingest.draft import Draft, by_source, event_of
from streams.ingest.echoes import Echoes
from streams.ingest.listens import told
from streams.ingest.media import Facts, Media, MediaFacts
from streams.ingest.people import FOR_EVER, People
from streams.runtime import metrics
from streams.runtime.contract import Contract
from streams.runtime.database import DatabaseAway
from streams.runtime.echoes import Ledger
from streams.runtime.errors import Unavailable
from streams.runtime.people import UnknownSource
from streams.runtime.publisher import Record

# As long as any user_ref: a record with it is as large as the one that will be.
NOBODY: Final = "0" * 32


FORGOTTEN: Final = "forgotten"
"""Why a report is refused that is of somebody from before they were forgotten: nothing of it is kept anywhere."""


def is_before(draft: Draft, since_ms: int) -> bool:
    """Whether ``draft`` says what was then. What a poll finds without a time may be as old as the server."""
    occurred_at = draft.report.occurred_at
    if occurred_at is None and draft.report.origin == "poll":
        return True
    return min(draft.received_at, draft.received_at if occurred_at is None else occurred_at) <= since_ms


@dataclass(frozen=True, slots=True)
class Refusal:
    """One draft that can't be used: a stable word and a sentence."""

    draft: Draft
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Made:
    """A draft and its records: one, or those a listen is told in."""

    draft: Draft
    records: tuple[Record, ...]


@dataclass(slots=True)
class Identified:
    """``ready`` know who and what they are about; ``unclear`` are those only an absent service could tell of,
    with ``away``, the first thing that was; all in the order they were handed in."""

    ready: list[Draft] = field(default_factory=list)
    unclear: list[Draft] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    away: Unavailable | None = None


class Identify:
    def __init__(
        self, contract: Contract, people: People, media: Media, facts: MediaFacts, ledger: Ledger | None = None
    ) -> None:
        self._contract = contract
        self._media = media
        self._facts = facts
        self.people = people
        self.echoes = Echoes(ledger)

    async def of(self, drafts: Sequence[Draft]) -> Identified:
        """Fill in ``user_ref`` and ``media_id`` where they can be known now.

        Whether a token may speak for a person is never left for later: that raises Unavailable when it can't be told.
        """
        found = Identified()
        for source_id, group in by_source(drafts).items():
            known = await self._who(source_id, group, found)
            await self._what(source_id, known, found)
        place = {draft.index: number for number, draft in enumerate(drafts)}
        for sorted_out in (found.ready, found.unclear):
            sorted_out.sort(key=lambda draft: place[draft.index])
        await self.echoes.mark(found.ready)
        return found

    async def records(self, drafts: Sequence[Draft]) -> tuple[list[Made], list[Refusal]]:
        """What identified drafts become, in order, and those that are too large or hold what the log can't."""
        facts = await self._known_facts(drafts)
        nothing = Facts()
        made: list[Made] = []
        refused: list[Refusal] = []
        for draft in drafts:
            one = self._made(draft, facts.get((draft.source_id, draft.media_id), nothing))
            if isinstance(one, Made):
                made.append(one)
            else:
                refused.append(one)
        return made, refused

    def fit(self, drafts: Sequence[Draft]) -> tuple[list[Draft], list[Refusal]]:
        """Those whose record will fit the log, whoever they turn out to be, and the others."""
        fitting: list[Draft] = []
        refused: list[Refusal] = []
        for draft in drafts:
            before = draft.user_ref, draft.media_id
            draft.user_ref = before[0] or NOBODY
            draft.media_id = before[1] or media_id(draft.source_id, draft.named.name)
            made = self._made(draft, Facts())
            draft.user_ref, draft.media_id = before
            if isinstance(made, Made):
                fitting.append(draft)
            else:
                refused.append(made)
        return fitting, refused

    async def _not_forgotten(self, source_id: str, group: Sequence[Draft], found: Identified) -> list[Draft]:
        """Those that may be of somebody: what is of a person from before they were forgotten makes nobody again."""
        names = {name for draft in group for name in (draft.user, draft.bound) if name is not None}
        since = await self.people.forgotten(source_id, names) if names else {}
        kept: list[Draft] = []
        for draft in group:
            whose = draft.user if draft.user is not None else draft.bound
            if (whose in since and is_before(draft, since[whose])) or since.get(draft.bound or "") == FOR_EVER:
                found.refused.append(Refusal(draft, FORGOTTEN, "it is of somebody who was forgotten since"))
                metrics.FORGOTTEN_REFUSED.labels("door").inc()
            else:
                kept.append(draft)
        return kept

    async def _who(self, source_id: str, group: Sequence[Draft], found: Identified) -> list[Draft]:
        group = await self._not_forgotten(source_id, group, found)
        free = {draft.user for draft in group if draft.bound is None and draft.user is not None}
        tied = {draft.user for draft in group if draft.bound is not None and draft.user is not None}
        refs: dict[str, str] = {}
        gone = False
        try:
            refs |= await self.people.refs(source_id, free) if free else {}
        except UnknownSource:
            gone = True
        except Unavailable as exc:
            found.away = found.away or exc
            refs |= self.people.remembered(source_id, free)
        # A token bound to a person speaks for nobody else, and makes nobody.
        own = await self.people.known(source_id, tied) if tied else {}
        known: list[Draft] = []
        for draft in group:
            if draft.user is None:
                ref = draft.bound
            else:
                ref = refs.get(draft.user) if draft.bound is None else own.get(draft.user)
            if draft.bound is not None and ref != draft.bound:
                found.refused.append(Refusal(draft, "wrong_user", "the token speaks for another person"))
            elif gone and draft.bound is None:
                found.refused.append(Refusal(draft, "unknown_source", "the source is gone"))
            elif ref is None:
                found.unclear.append(draft)
            else:
                draft.user_ref = ref
                known.append(draft)
        return known

    async def _what(self, source_id: str, group: Sequence[Draft], found: Identified) -> None:
        names = {draft.named for draft in group}
        try:
            ids = await self._media.ids(source_id, names) if names else {}
        except DatabaseAway as exc:
            # Only a name that may be an id of ours needs the table.
            found.away = found.away or exc
            ids = await self._media.ids(source_id, {one for one in names if not one.ambiguous})
        for draft in group:
            its_id = ids.get(draft.named)
            if its_id is None:
                found.unclear.append(draft)
            else:
                draft.media_id = its_id
                found.ready.append(draft)

    async def _known_facts(self, drafts: Sequence[Draft]) -> dict[tuple[str, str], Facts]:
        facts: dict[tuple[str, str], Facts] = {}
        for source_id, group in by_source(drafts).items():
            wanting = {d.media_id for d in group if d.report.media_kind is None or d.report.duration_ms is None}
            if not wanting:
                continue
            try:
                known = await self._facts.of(source_id, wanting)
            except Unavailable:
                continue  # the report is all there is, as it is before the library was scanned
            facts |= {(source_id, its_id): fact for its_id, fact in known.items()}
        return facts

    def _made(self, draft: Draft, facts: Facts) -> Made | Refusal:
        duration_ms = draft.report.duration_ms or facts.duration_ms
        records: list[Record] = []
        for one in told(draft.report, draft.event_id, received_at=draft.received_at, duration_ms=duration_ms):
            event = event_of(draft, one.report, one.event_id, facts)
            try:
                value = self._contract.encode(event)
            except InvalidValue:
                return Refusal(draft, "invalid_value", "a value does not fit the log")
            if len(value) > DOOR_RECORD_BYTES_MAX:
                return Refusal(draft, "too_large", f"over {DOOR_RECORD_BYTES_MAX} bytes")
            key = playback_key(event.user_ref, event.media_id)
            records.append(Record(PLAYBACK_REPORTED.name, playback_partition(key), key, value))
        return Made(draft, tuple(records))
