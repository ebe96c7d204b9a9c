"""Playhead's own format: a report, {"reports": […]}, or JSON lines of either.

The words are those of the playback rules, and so is rule 0, which decides what is rejected here. A
report is rejected alone; its neighbours go on. The door overrides source and what a token decides; this
parser only says what was sent. Times are RFC 3339 or epoch ms, and numbers that are plainly seconds are
read as such.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar, get_args

from streams.ingest.hooks.checks import (
    BODY_MAX_BYTES,
    REPORTS_MAX,
    WHOLE_MAX,
    Refuse,
    accept,
    guarded,
    known_duration,
    seconds_to_ms,
)
from streams.ingest.hooks.documents import decode, load_json
from streams.ingest.hooks.fields import checked_id
from streams.ingest.hooks.moments import parse_moment
from streams.ingest.hooks.result import Kind, MediaKind, Origin, ParsedReport, Rejected, Result

Word = TypeVar("Word", bound=str)

_KINDS: Final[dict[str, Kind]] = {kind: kind for kind in get_args(Kind)}
_MEDIA_KINDS: Final[dict[str, MediaKind]] = {kind: kind for kind in get_args(MediaKind)}
_ORIGINS: Final[dict[str, Origin]] = {origin: origin for origin in get_args(Origin)}


def parse(body: bytes, *, content_type: str | None = None) -> list[Result]:  # noqa: ARG001
    """All reports of a body, in order, each a ParsedReport or a Rejected."""
    return list(iterate(body))


def iterate(body: bytes) -> Iterator[Result]:
    """The same one by one; the size limit holds for the document, or for each line of JSON lines."""
    whole: object = _document(body) if len(body) <= BODY_MAX_BYTES else Rejected("too_large", "the body is too large")
    if isinstance(whole, Rejected) and body.strip().count(b"\n"):
        lines = [line for line in body.split(b"\n") if line.strip()]
        # A broken document over many lines is one fault; broken lines are one fault each.
        if any(not isinstance(_document(line), Rejected) for line in lines):
            for line in lines:
                yield from _results(_document(line))
            return
    yield from _results(whole)


def _document(body: bytes) -> object:
    """The JSON value of a text, or the Rejected that it is."""
    try:
        document: object = load_json(decode(body))
    except Refuse as refusal:
        return Rejected(refusal.reason, refusal.detail)
    return document


def _results(document: object) -> Iterator[Result]:
    match document:
        case Rejected():
            yield document
        case {"reports": list(reports)} if len(reports) > REPORTS_MAX:
            yield Rejected("too_many", f"over {REPORTS_MAX} reports")
        case {"reports": list(reports)}:
            for report in reports:
                yield guarded(read, report)
        case _:
            yield guarded(read, document)


def read(document: object) -> ParsedReport:
    """One report; raises Refuse with the reason of rule 0 that forbids it."""
    if not isinstance(document, dict):
        raise Refuse("bad_shape", "a report is a JSON object")
    user = _id(document, "user")
    if user is None:
        raise Refuse("no_user", "user is missing")
    kind = _word(document, "kind", _KINDS)
    if kind is None:
        raise Refuse("unknown_kind", "kind is missing")
    return accept(
        ParsedReport(
            event_id=_id(document, "event_id"),
            source=_id(document, "source"),
            user=user,
            media=_id(document, "media"),
            upstream_user=_id(document, "upstream_user"),
            upstream_media=_id(document, "upstream_media"),
            media_kind=_word(document, "media_kind", _MEDIA_KINDS),
            session_id=_id(document, "session_id"),
            device_id=_id(document, "device_id"),
            sequence=_not_negative(document, "sequence"),
            kind=kind,
            position_ms=_whole(document, "position_ms", "bad_position"),
            duration_ms=known_duration(_whole(document, "duration_ms", "bad_duration")),
            occurred_at=_time(document, "occurred_at"),
            received_at=_time(document, "received_at"),
            automated=_flag(document, "automated"),
            failed=_flag(document, "failed"),
            played=_flag(document, "played"),
            listened_ms=_whole(document, "listened_ms", "bad_listened_ms"),
            origin=_word(document, "origin", _ORIGINS) or "client",
        )
    )


def _id(document: dict[str, object], name: str) -> str | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise Refuse(f"bad_{name}", f"{name} is not text")
    return checked_id(name, value)


def _word(document: dict[str, object], name: str, words: dict[str, Word]) -> Word | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or value not in words:
        raise Refuse(f"unknown_{name}", f"{name} is none of {', '.join(words)}")
    return words[value]


def _whole(document: dict[str, object], name: str, reason: str) -> int | None:
    """A whole number; an integral float is one, text and true are none."""
    value = document.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refuse(reason, f"{name} is not a whole number")
    if abs(value) > WHOLE_MAX:
        raise Refuse(reason, f"{name} is out of range")
    return value


def _not_negative(document: dict[str, object], name: str) -> int | None:
    value = _whole(document, name, f"bad_{name}")
    if value is not None and value < 0:
        raise Refuse(f"bad_{name}", f"{name} is negative")
    return value


def _flag(document: dict[str, object], name: str) -> bool | None:
    value = document.get(name)
    if value is not None and not isinstance(value, bool):
        raise Refuse(f"bad_{name}", f"{name} is neither true nor false")
    return value


def _time(document: dict[str, object], name: str) -> int | None:
    """Epoch ms; a time that can't be read is refused, since the report would be taken for a new one."""
    value = document.get(name)
    if isinstance(value, str):
        moment = parse_moment(value)
        if moment is None:
            raise Refuse("bad_time", f"{name} is no RFC 3339 time")
        return moment
    number = _whole(document, name, "bad_time")
    return None if number is None else seconds_to_ms(number)
