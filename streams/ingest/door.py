"""The door: reports of an authenticated sender become records of playback.reported, or are refused.

    results of a parser + principal
      → whose (source, from the token) → event_id → who (user_ref) → what (media_id) → Avro
      → Kafka, all replicas → receipt
      → or the spool, fsynced → receipt: Kafka away, a person only the absent database knows, or reports of the
        same person waiting there already

A receipt means that every accepted report is on disk. A report that can't be used is refused alone. When anything
is in doubt nothing is accepted for sure and Unavailable is raised: the sender repeats the request, and event ids
make what was accepted after all count once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from streams.domain.report import problem
from streams.ingest.draft import Draft, as_rules_see, event_id_of
from streams.ingest.echoes import way_of
from streams.ingest.hooks import Observation, ParsedReport, Rejected
from streams.ingest.identify import Identified, Identify, Made
from streams.ingest.listens import oldest_first
from streams.ingest.media import Media, MediaFacts, Named, NothingKnown
from streams.ingest.news import is_of_an_item, observed_record, seen_of
from streams.ingest.people import People
from streams.ingest.spooled import entry_of, entry_of_news
from streams.runtime import metrics
from streams.runtime.clock import Clock
from streams.runtime.contract import Contract
from streams.runtime.echoes import Ledger, Way
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.publisher import BrokerAway, Publisher
from streams.runtime.spool import Spool
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


@dataclass(frozen=True, slots=True)
class Told:
    """What became of news of the library: how many are on disk, and how many are of no item."""

    taken: int = 0
    unused: int = 0


class Door:
    """``spool`` None: what Kafka or PostgreSQL can't take now is Unavailable. ``ledger`` None: nothing is an echo."""

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
        spool: Spool | None = None,
        ledger: Ledger | None = None,
        failpoint: Failpoint = disarmed,
    ) -> None:
        self.identify = Identify(contract, people, media, facts or NothingKnown(), ledger)
        self._contract = contract
        self._publisher = publisher
        self._sources = sources
        self._clock = clock
        self._spool = spool
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

        Raises Unavailable (BrokerAway, DatabaseAway, SpoolAway). After it, all, some or none may be in the log.
        """
        rejected: list[Rejection] = []
        drafts = await self._whose(principal, results, way_of(format), correlation_id, rejected)
        for draft in drafts:
            draft.event_id = event_id_of(draft, principal, idempotency_key, self.identify.people.key_of)
        drafts = oldest_first(drafts)
        found = await self.identify.of(drafts)
        made, refused = await self.identify.records(found.ready)
        later, unfit = self.identify.fit(found.unclear)
        refused = [*found.refused, *refused, *unfit]
        rejected += [Rejection(one.draft.index, one.reason, one.detail) for one in refused]
        rejected.sort(key=lambda one: one.index)
        for refusal in rejected:
            metrics.REPORTS_REJECTED.labels(format, refusal.reason).inc()
        self._failpoint("ingest.validated")
        await self._keep(drafts, made, later, found)
        await self.identify.echoes.returned([one.draft for one in made])
        accepted = sorted([one.draft.index for one in made] + [draft.index for draft in later])
        if accepted:
            metrics.REPORTS_ACCEPTED.labels(format).inc(len(accepted))
        self._failpoint("ingest.acked")
        event_ids = {draft.index: draft.event_id for draft in drafts}
        return Receipt(tuple(event_ids[index] for index in accepted), tuple(rejected))

    async def tell(
        self,
        principal: Principal,
        news: Sequence[Observation],
        *,
        correlation_id: str,
        idempotency_key: str | None = None,
    ) -> Told:
        """Accept news of the library, durably. A token without a source of its own has no library to speak of.

        Raises Unavailable, as ``take`` does.
        """
        source_id = principal.source_id
        received_at = self._clock.now_ms()
        records = [
            observed_record(
                self._contract,
                seen_of(
                    one,
                    index,
                    source_id,
                    principal,
                    received_at=received_at,
                    correlation_id=correlation_id,
                    idempotency_key=idempotency_key,
                ),
            )
            for index, one in enumerate(news)
            if source_id is not None and is_of_an_item(one)
        ]
        if records:
            try:
                await self._publisher.publish(records)
            except BrokerAway:
                if self._spool is None:
                    raise
                await self._spool.put([entry_of_news(source_id or "", record) for record in records])
        return Told(len(records), len(news) - len(records))

    async def _keep(
        self, drafts: Sequence[Draft], made: Sequence[Made], later: Sequence[Draft], found: Identified
    ) -> None:
        """Return when all that was made is in Kafka or, with ``later``, in the spool."""
        spool = self._spool
        if later and spool is None:
            assert found.away is not None, "something is away when something is unclear"
            raise found.away
        # Nothing is awaited between this look and the hand-over: who was spooled meanwhile is seen.
        direct = [one for one in made if spool is None or not spool.holds(*one.draft.whose)]
        sent = {one.draft.index for one in direct}
        if direct:
            records = [record for one in direct for record in one.records]
            try:
                await self._publisher.publish(records, produced=lambda: self._failpoint("ingest.produced"))
            except BrokerAway:
                if spool is None:
                    raise
                sent = set()
        waiting = {one.draft.index for one in made if one.draft.index not in sent} | {one.index for one in later}
        if waiting:
            assert spool is not None, "without one everything was sent"
            await spool.put([entry_of(draft) for draft in drafts if draft.index in waiting])
            self._failpoint("ingest.spooled")

    async def _whose(
        self,
        principal: Principal,
        results: Sequence[ParsedReport | Rejected],
        way: Way | None,
        correlation_id: str,
        rejected: list[Rejection],
    ) -> list[Draft]:
        """The token decides the source. Only an operator's token without one may name it."""
        received_at = self._clock.now_ms()
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
            draft = Draft(index, report, source_id, user, named, principal.user_ref, correlation_id, received_at)
            draft.way = way
            # The rules behind the log would refuse it: then it is answered here, where somebody listens.
            wrong = problem(as_rules_see(draft))
            if wrong is not None:
                rejected.append(Rejection(index, wrong.reason.value, wrong.detail))
                continue
            drafts.append(draft)
        return drafts
