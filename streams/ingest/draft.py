"""A report on its way through the door: whose, who, what, and the event it becomes."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from schemas.events import PlaybackReported
from streams.domain.identity import derived_event_id, media_id
from streams.domain.report import Report
from streams.ingest.hooks import ParsedReport
from streams.ingest.media import Facts, Named
from streams.runtime.echoes import Way
from streams.runtime.tokens import Principal

PersonKey = Callable[[str, str], bytes]
"""(source, upstream user) → the keyed hash they have in identity.users."""


@dataclass(slots=True)
class Draft:
    """``index``: place in the request. ``user``: as the source names them; None: the one the token is bound to,
    ``bound``. ``event_id`` is given before anything is looked up; ``user_ref`` and ``media_id`` are empty until
    they are known. ``way``: how a value that was written to the server comes back in it; ``echo_of``: the row that
    says this one did."""

    index: int
    report: ParsedReport
    source_id: str
    user: str | None
    named: Named
    bound: str | None
    correlation_id: str
    received_at: int
    event_id: str = ""
    user_ref: str = ""
    media_id: str = ""
    way: Way | None = None
    echo_of: int | None = None

    @property
    def whose(self) -> tuple[str, str]:
        """What the door keeps the order of: reports of one person by one source."""
        return self.source_id, self.user if self.user is not None else self.bound or ""


def as_rules_see(draft: Draft) -> Report:
    """The report in the sender's own words, for rule 0: these, too, must be valid texts."""
    report = draft.report
    return Report(
        kind=report.kind,
        user=draft.whose[1],
        media=draft.named.name,
        received_at=0,
        source=draft.source_id,
        event_id=report.event_id or None,
        media_kind=report.media_kind,
        session_id=report.session_id,
        device_id=report.device_id,
        sequence=report.sequence,
        position_ms=report.position_ms,
        duration_ms=report.duration_ms,
        occurred_at=report.occurred_at,
        listened_ms=report.listened_ms,
        origin=report.origin,
    )


def keyed_event_id(principal: Principal, idempotency_key: str, index: int) -> str:
    """The id of the report at ``index`` of the request with this key."""
    return hashlib.sha256(f"{principal.token_id}\0{idempotency_key}\0{index}".encode()).hexdigest()[:32]


def event_id_of(draft: Draft, principal: Principal, idempotency_key: str | None, person_key: PersonKey) -> str:
    """The sender's own, else one that a repeated request makes again, else a random one.

    What is derived is derived from what the sender said, a person by ``person_key``: with every store away it comes
    out the same, before a link or a restored database as after it, and nobody can try names against it.
    """
    report = draft.report
    if report.event_id:
        return report.event_id
    if idempotency_key is not None:
        return keyed_event_id(principal, idempotency_key, draft.index)
    if report.sequence is None and report.occurred_at is None:
        return uuid.uuid4().hex
    derived = derived_event_id(
        source=draft.source_id,
        user=person_key(*draft.whose).decode(),
        media=media_id(draft.source_id, draft.named.name),
        session_id=report.session_id,
        device_id=report.device_id,
        sequence=report.sequence,
        kind=report.kind,
        position_ms=report.position_ms,
        occurred_at=report.occurred_at,
    )
    assert derived is not None, "a sequence or a time is there"
    return derived


def event_of(draft: Draft, report: ParsedReport, event_id: str, facts: Facts) -> PlaybackReported:
    """The event of ``report``, which is the draft's or one that follows from it."""
    upstream = None if draft.named.name == draft.media_id else draft.named.name
    return PlaybackReported(
        event_id=event_id,
        correlation_id=draft.correlation_id,
        source_id=draft.source_id,
        occurred_at=report.occurred_at,
        received_at=draft.received_at,
        user_ref=draft.user_ref,
        media_id=draft.media_id,
        upstream_media=report.upstream_media if report.upstream_media is not None else upstream,
        media_kind=report.media_kind or facts.media_kind,
        session_id=report.session_id,
        device_id=report.device_id,
        sequence=report.sequence,
        kind=report.kind,
        position_ms=report.position_ms,
        duration_ms=report.duration_ms if report.duration_ms is not None else facts.duration_ms,
        automated=bool(report.automated),
        failed=bool(report.failed),
        played=report.played,
        listened_ms=report.listened_ms,
        origin=report.origin,
    )


def by_source(drafts: Iterable[Draft]) -> dict[str, list[Draft]]:
    groups: dict[str, list[Draft]] = {}
    for draft in drafts:
        groups.setdefault(draft.source_id, []).append(draft)
    return groups
