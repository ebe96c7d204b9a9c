"""What holds for any bytes whatsoever that are handed to a parser."""

from __future__ import annotations

import json
from dataclasses import dataclass

from schemas.codec import Codec
from schemas.events import PlaybackReported
from schemas.ids import SchemaIds
from schemas.limits import DOOR_RECORD_BYTES_MAX, ID_BYTES_MAX, REPORTS_PER_REQUEST_MAX, TEXT_BYTES_MAX
from streams.domain.identity import media_id
from streams.domain.limits import POSITION_MS_MAX
from streams.domain.report import problem
from streams.ingest.draft import Draft, as_rules_see, event_of
from streams.ingest.hooks import Census, Ignored, Observation, ParsedReport, Rejected, Result, as_json, parse
from streams.ingest.hooks.checks import PROVIDER_IDS_MAX
from streams.ingest.listens import told
from streams.ingest.media import Facts, Named
from tests.ingest.hooks.payloads import SECRETS

RECEIVED_AT = 1_796_069_700_000
PERSON = "b" * 32
DETAIL_MAX = 200
_CODEC = Codec(SchemaIds())


class Broken(AssertionError):
    """A property does not hold."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an input, in short: inputs of the same outcome tell the same."""

    shape: tuple[str, ...]


def check(format: str, body: bytes) -> Outcome:
    """Parse a body and check everything that is promised of the results. Raises Broken; the parser may not raise."""
    census = Census()
    results = parse(format, body, census=census)
    _hold(parse(format, body) == results, "the same bytes gave other results")
    # JSON lines may be many; the door counts them before it takes any.
    most = body.count(b"\n") * REPORTS_PER_REQUEST_MAX if format == "native" else 0
    _hold(len(results) <= max(most, REPORTS_PER_REQUEST_MAX), "more results than a request may hold")
    _hold(bool(results) or format == "native", "no result at all")
    for result in results:
        _check_result(result)
    seen = {_shape(result) for result in results}
    return Outcome((*sorted(seen), "strangers" if census.unknown else ""))


def _check_result(result: Result) -> None:
    json.dumps(as_json(result), allow_nan=False, ensure_ascii=False).encode()
    match result:
        case ParsedReport():
            _check_report(result)
        case Observation():
            _hold(len(result.upstream_media.encode()) <= ID_BYTES_MAX, "the item's id is too long")
            _hold(len((result.name or "").encode()) <= TEXT_BYTES_MAX, "the name is not cut")
            _hold(len(result.provider_ids) <= PROVIDER_IDS_MAX, "too many provider ids")
        case Ignored() | Rejected():
            _hold(result.reason.replace("_", "").isalpha(), "the reason is no word")
            _hold(0 < len(result.detail) <= DETAIL_MAX, "the detail is no sentence")
            _hold(result.detail.isprintable(), "the detail holds control characters")
            # A new event's name is told, and nothing else of what was sent.
            if result.reason != "unknown_event":
                _hold(not any(secret in result.detail for secret in SECRETS), "the detail quotes the input")


def _check_report(report: ParsedReport) -> None:
    _hold(report.position_ms is None or 0 <= report.position_ms <= POSITION_MS_MAX, "an impossible position")
    _hold(report.duration_ms is None or report.duration_ms > 0, "an impossible duration")
    user = report.user if report.user is not None else report.upstream_user
    name = report.media if report.media is not None else report.upstream_media
    if name is None:
        raise Broken("a report of no item")
    draft = Draft(
        index=0,
        report=report,
        source_id="attic",
        user=user,
        named=Named(name, may_be_ours=report.media is not None),
        bound=PERSON,
        correlation_id="c",
        received_at=RECEIVED_AT,
        user_ref=PERSON,
        media_id=media_id("attic", name),
    )
    wrong = problem(as_rules_see(draft))
    _hold(wrong is None, f"the rules refuse what the parser took: {wrong}")
    for one in told(report, report.event_id or "e", received_at=RECEIVED_AT, duration_ms=report.duration_ms):
        event: PlaybackReported = event_of(draft, one.report, one.event_id, Facts())
        data = _CODEC.encode(event)
        _hold(len(data) <= DOOR_RECORD_BYTES_MAX, "the record is too large for the door")
        _hold(_CODEC.decode(data) == event, "the record reads otherwise than it was written")


def _shape(result: Result) -> str:
    match result:
        case ParsedReport():
            given = ("position_ms", "duration_ms", "occurred_at", "played", "session_id", "device_id")
            there = "".join("1" if getattr(result, name) is not None else "0" for name in given)
            return f"report {result.kind} {result.media_kind} {result.origin} {there}"
        case Observation():
            return f"observation {result.change} {len(result.provider_ids)}"
        case Ignored() | Rejected():
            return (
                f"{type(result).__name__} {result.reason} {result.detail if result.reason != 'unknown_event' else ''}"
            )


def _hold(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Broken(otherwise)
