"""The door: reports of an authenticated sender become records of playback.reported, or are refused.

    results of a parser + principal
      → whose (source, from the token) → who (user_ref) → what (media_id) → event_id → Avro
      → Kafka, all replicas → receipt

A receipt means that Kafka has every accepted report. A report that can't be used is refused alone. When
anything is in doubt nothing is accepted for sure and Unavailable is raised: the sender repeats the request, and
event ids make what was accepted after all count once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from schemas.errors import InvalidValue
from schemas.events import PlaybackReported
from schemas.limits import DOOR_RECORD_BYTES_MAX
from schemas.placement import playback_key, playback_partition
from schemas.topics import PLAYBACK_REPORTED
from streams.domain.report import problem
from streams.ingest.draft import Draft, as_rules_see, by_source, event_id_of, event_of
from streams.ingest.hooks import ParsedReport, Rejected
from streams.ingest.listens import oldest_first, told
from streams.ingest.media import Facts, Media, MediaFacts, Named, NothingKnown
from streams.ingest.people import People
from streams.runtime import metrics
from streams.runtime.clock import Clock
from streams.runtime.contract import Contract
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.people import UnknownSource
from streams.runtime.publisher import Publisher, Record
from streams.runtime.tokens import Principal, Scope


class Sources(Protocol):
    async def exists(self, source_id: str) -> bool:
        """Raises DatabaseAway."""
        ...


@dataclass(frozen=True, slots=True)
class Rejection:
    """``index``: place in what was handed in, from 0. ``reason`` is a stable word, ``detail`` a sentence."""

    index: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """``event_ids``: of the accepted reports, in the order they were handed in."""

    event_ids: tuple[str, ...]
    rejected: tuple[Rejection, ...]

    @property
    def accepted(self) -> int:
        return len(self.event_ids)


class Door:
    def __init__(
        self,
        *,
        contract: Contract,
        publisher: Publisher,
        people: People,
        media: Media,
        sources: Sources,
        clock: Clock,
        facts: MediaFacts | None = None,
        failpoint: Failpoint = disarmed,
    ) -> None:
        self._contract = contract
        self._publisher = publisher
        self._people = people
        self._media = media
        self._sources = sources
        self._clock = clock
        self._facts = facts or NothingKnown()
        self._failpoint = failpoint

    async def take(
        self,
        principal: Principal,
        results: Sequence[ParsedReport | Rejected],
        *,
        format: str,
        correlation_id: str,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Accept what can be accepted, durably; see the module. ``format`` names the parser, for metrics.

        Raises Unavailable (BrokerAway, DatabaseAway). After it, all, some or none may be in the log.
        """
        received_at = self._clock.now_ms()
        rejected: list[Rejection] = []
        drafts = await self._whose(principal, results, rejected)
        drafts = await self._who(principal, drafts, rejected)
        await self._what(drafts)
        drafts = oldest_first(drafts)
        records: list[Record] = []
        event_ids: dict[int, str] = {}
        for draft, facts in zip(drafts, await self._known_facts(drafts), strict=True):
            event_id = event_id_of(draft, principal, idempotency_key)
            duration_ms = draft.report.duration_ms or facts.duration_ms
            try:
                of_draft = [
                    self._record(event_of(draft, one.report, one.event_id, correlation_id, received_at, facts))
                    for one in told(draft.report, event_id, received_at=received_at, duration_ms=duration_ms)
                ]
            except InvalidValue:
                rejected.append(Rejection(draft.index, "invalid_value", "a value does not fit the log"))
                continue
            within = [record for record in of_draft if record is not None]
            if len(within) < len(of_draft):
                rejected.append(Rejection(draft.index, "too_large", f"over {DOOR_RECORD_BYTES_MAX} bytes"))
                continue
            records += within
            event_ids[draft.index] = event_id
        rejected.sort(key=lambda one: one.index)
        for refusal in rejected:
            metrics.REPORTS_REJECTED.labels(format, refusal.reason).inc()
        self._failpoint("ingest.validated")
        if records:
            await self._publisher.publish(records, produced=lambda: self._failpoint("ingest.produced"))
            metrics.REPORTS_ACCEPTED.labels(format).inc(len(event_ids))
        self._failpoint("ingest.acked")
        return Receipt(tuple(event_ids[index] for index in sorted(event_ids)), tuple(rejected))

    async def _whose(
        self, principal: Principal, results: Sequence[ParsedReport | Rejected], rejected: list[Rejection]
    ) -> list[Draft]:
        """The token decides the source. Only an operator's token without one may name it."""
        drafts: list[Draft] = []
        exists: dict[str, bool] = {}
        for index, report in enumerate(results):
            if isinstance(report, Rejected):
                rejected.append(Rejection(index, report.reason, report.detail))
                continue
            source_id = principal.source_id
            if source_id is not None:
                if report.source not in (None, source_id):
                    rejected.append(Rejection(index, "wrong_source", "the token speaks for another source"))
                    continue
            elif report.source is None or Scope.OPERATE not in principal.scopes:
                rejected.append(Rejection(index, "no_source", "the token has no source of its own and none is named"))
                continue
            else:
                source_id = report.source
                if source_id not in exists:
                    exists[source_id] = await self._sources.exists(source_id)
                if not exists[source_id]:
                    rejected.append(Rejection(index, "unknown_source", "there is no such source"))
                    continue
            user = report.user if report.user is not None else report.upstream_user
            if user is None and principal.user_ref is None:
                rejected.append(Rejection(index, "missing_user", "the report names no user and the token is nobody's"))
                continue
            if report.media is not None:
                named = Named(report.media, may_be_ours=True)
            else:
                assert report.upstream_media is not None, "parsers refuse reports without media"
                named = Named(report.upstream_media, may_be_ours=False)
            draft = Draft(index, report, source_id, user, named)
            # The rules behind the log would refuse it: then it is answered here, where somebody listens.
            wrong = problem(as_rules_see(draft, principal))
            if wrong is not None:
                rejected.append(Rejection(index, wrong.reason.value, wrong.detail))
                continue
            drafts.append(draft)
        return drafts

    async def _who(self, principal: Principal, drafts: list[Draft], rejected: list[Rejection]) -> list[Draft]:
        """A token bound to a person speaks for nobody else, and makes nobody."""
        bound = principal.user_ref
        passed: list[Draft] = []
        for source_id, group in by_source(drafts).items():
            names = {draft.user for draft in group if draft.user is not None}
            try:
                ask = self._people.refs if bound is None else self._people.known
                refs = await ask(source_id, names) if names else {}
            except UnknownSource:
                rejected += [Rejection(d.index, "unknown_source", "the source is gone") for d in group]
                continue
            for draft in group:
                user_ref = bound if draft.user is None else refs.get(draft.user)
                if user_ref is None or (bound is not None and user_ref != bound):
                    rejected.append(Rejection(draft.index, "wrong_user", "the token speaks for another person"))
                    continue
                draft.user_ref = user_ref
                passed.append(draft)
        return sorted(passed, key=lambda draft: draft.index)

    async def _what(self, drafts: Sequence[Draft]) -> None:
        for source_id, group in by_source(drafts).items():
            ids = await self._media.ids(source_id, {draft.named for draft in group})
            for draft in group:
                draft.media_id = ids[draft.named]

    async def _known_facts(self, drafts: Sequence[Draft]) -> list[Facts]:
        facts: dict[tuple[str, str], Facts] = {}
        for source_id, group in by_source(drafts).items():
            wanting = {d.media_id for d in group if d.report.media_kind is None or d.report.duration_ms is None}
            if wanting:
                known = await self._facts.of(source_id, wanting)
                facts |= {(source_id, its_id): fact for its_id, fact in known.items()}
        nothing = Facts()
        return [facts.get((draft.source_id, draft.media_id), nothing) for draft in drafts]

    def _record(self, event: PlaybackReported) -> Record | None:
        """The record of an event, None when it is too large for the door. Raises InvalidValue."""
        value = self._contract.encode(event)
        if len(value) > DOOR_RECORD_BYTES_MAX:
            return None
        key = playback_key(event.user_ref, event.media_id)
        return Record(PLAYBACK_REPORTED.name, playback_partition(key), key, value)
