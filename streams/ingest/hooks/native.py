"""Playhead's own format: a report, {"reports": […]}, or JSON lines of either.

What a report may hold is the domain's word (`streams.domain.reading`, rule 0), so that the door and
`playhead decide` never disagree. A report is rejected alone; its neighbours go on. The door overrides
source and whatever else a token decides; this parser only says what was sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, get_args

from schemas.limits import BODY_BYTES_MAX, REPORTS_PER_REQUEST_MAX
from streams.domain import report as domain
from streams.domain.reading import read_report, received_at_of
from streams.domain.timekeeping import in_milliseconds
from streams.ingest.hooks.checks import Refuse, guarded
from streams.ingest.hooks.documents import decode, load_json
from streams.ingest.hooks.fields import checked_id
from streams.ingest.hooks.known import Census, count
from streams.ingest.hooks.result import Kind, MediaKind, Origin, ParsedReport, Rejected, Result

_KINDS: Final[dict[str, Kind]] = {kind: kind for kind in get_args(Kind)}
_MEDIA_KINDS: Final[dict[str, MediaKind]] = {kind: kind for kind in get_args(MediaKind)}
_ORIGINS: Final[dict[str, Origin]] = {origin: origin for origin in get_args(Origin)}


def parse(body: bytes, census: Census | None = None) -> list[Result]:
    """All reports of a body, in order, each a ParsedReport or a Rejected."""
    return list(iterate(body, census))


def iterate(body: bytes, census: Census | None = None) -> Iterator[Result]:
    """The same one by one; the size limit holds for the document, or for each line of JSON lines."""
    whole: object = Rejected("too_large", f"the body is over {BODY_BYTES_MAX} bytes")
    if len(body) <= BODY_BYTES_MAX:
        whole = _document(body)
    if isinstance(whole, Rejected) and body.strip().count(b"\n"):
        lines = [line for line in body.split(b"\n") if line.strip()]
        # A broken document over many lines is one fault; broken lines are one fault each.
        if any(not isinstance(_document(line), Rejected) for line in lines):
            for line in lines:
                yield from _results(_document(line), census)
            return
    yield from _results(whole, census)


def _document(body: bytes) -> object:
    """The JSON value of a text, or the Rejected that it is."""
    try:
        document: object = load_json(decode(body))
    except Refuse as refusal:
        return Rejected(refusal.reason, refusal.detail)
    return document


def _results(document: object, census: Census | None) -> Iterator[Result]:
    if not isinstance(document, Rejected):
        count(census, "native", document)
    match document:
        case Rejected():
            yield document
        case {"reports": list(reports)} if len(reports) > REPORTS_PER_REQUEST_MAX:
            yield Rejected("too_many", f"over {REPORTS_PER_REQUEST_MAX} reports")
        case {"reports": list(reports)}:
            for report in reports:
                yield guarded(read, report)
        case _:
            yield guarded(read, document)


def read(document: object) -> ParsedReport:
    """One report, its times in epoch ms; raises Refuse for what rule 0 forbids."""
    # The door stamps received_at, so none is asked of the sender: zero stands in for "the line before".
    found = read_report(document, previous_received_at=0)
    if isinstance(found, domain.Rejected):
        raise Refuse(found.reason.value, found.detail)
    assert isinstance(document, dict), "nothing else is read as a report"
    ours = _text(document, "media")
    return ParsedReport(
        event_id=found.event_id,
        source=found.source or None,
        user=found.user,
        media=found.media if ours is not None else None,
        upstream_user=_text(document, "upstream_user"),
        upstream_media=_text(document, "upstream_media"),
        media_kind=None if found.media_kind is None else _MEDIA_KINDS[found.media_kind],
        session_id=found.session_id,
        device_id=found.device_id,
        sequence=found.sequence,
        kind=_KINDS[found.kind],
        position_ms=found.position_ms,
        duration_ms=found.duration_ms,
        occurred_at=None if found.occurred_at is None else in_milliseconds(found.occurred_at)[0],
        received_at=received_at_of(document),
        automated=document.get("automated"),
        failed=document.get("failed"),
        played=found.played,
        listened_ms=found.listened_ms,
        origin=_ORIGINS[found.origin],
    )


def _text(document: dict[str, object], name: str) -> str | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise Refuse("invalid_field", f"{name} is not a text")
    return checked_id(name, value)
