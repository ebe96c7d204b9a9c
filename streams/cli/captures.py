"""Captured payloads: what `playhead replay` reads, and how each payload goes through the door.

A file is either one request body (of the format given with --format), or a capture: JSON lines, one payload each:

    {"format": "jellyfin", "content_type": "text/plain", "body": "{\\"NotificationType\\": …}"}
    {"format": "plex", "content_type": "multipart/form-data; boundary=x", "body_base64": "LS14DQo…"}

`format` and one of `body` (text) and `body_base64` (bytes) are needed; `content_type` may be left out, and other
fields are left alone (`at`, say: when it was captured). A file of native reports may be JSON lines as well.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from streams.ingest.hooks import FORMATS, Ignored, Observation, ParsedReport, Rejected, Result, parse
from streams.ingest.listens import told

REPORTS_AT_ONCE: Final = 200
BYTES_AT_ONCE: Final = 512 * 1024
STATE_SUFFIX: Final = ".replay"


class BadCapture(Exception):
    """What is wrong with a file, and what to do about it: one sentence."""


@dataclass(frozen=True, slots=True)
class Payload:
    """One request's body. `place`: its file, and its line there when it is one of several."""

    place: str
    format: str
    body: bytes
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """The request a payload becomes. `results` is what the parser reads in it."""

    path: str
    body: bytes
    content_type: str
    results: tuple[Result, ...]
    key: str | None = None

    @property
    def reports(self) -> int:
        return sum(isinstance(result, ParsedReport) for result in self.results)


# What each server sends; the door goes by the body, and takes these.
_CONTENT_TYPES: Final = {"plex": "multipart/form-data", "emby": "application/x-www-form-urlencoded"}
_HOOKS: Final = frozenset({"jellyfin", "plex", "emby", "audiobookshelf"})


def read(files: Sequence[Path], format: str | None) -> list[Payload]:
    """All payloads of the files, in order; of a folder, its files by name. Raises BadCapture, OSError."""
    return [payload for file in _files(files) for payload in _payloads(file, format)]


def fingerprint(payloads: Sequence[Payload]) -> str:
    """A text that is another one as soon as any payload is."""
    digest = hashlib.sha256()
    for payload in payloads:
        for part in (payload.format, payload.content_type or "", payload.body):
            data = part if isinstance(part, bytes) else part.encode(errors="surrogatepass")
            digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


def call_of(payload: Payload, *, run: str, index: int, now_ms: int) -> Call:
    """How a payload goes through the door.

    An Idempotency-Key makes repeats harmless where nothing in the payload does: it is the same for the same place in
    the same run. Subsonic's calls, for which the door has no address, are read here and sent as reports.
    """
    results = tuple(parse(payload.format, payload.body, payload.content_type))
    reports = [result for result in results if isinstance(result, ParsedReport)]
    nameless = any(r.event_id is None and r.occurred_at is None and r.sequence is None for r in reports)
    key = f"replay-{run[:32]}-{index}" if nameless else None
    kind = payload.content_type or _content_type(payload)
    match payload.format:
        case "native":
            return Call("/v1/playback", payload.body, "application/json", results, key)
        case "listenbrainz":
            return Call("/1/submit-listens", payload.body, kind, results)
        case "subsonic":
            body = json.dumps({"reports": [one for r in reports for one in _as_native(r, f"{run}-{index}", now_ms)]})
            return Call("/v1/playback", body.encode(), "application/json", results)
        case format:
            assert format in _HOOKS, "every format has its way"
            return Call(f"/hooks/{format}", payload.body, kind, results, key)


def summary(results: Sequence[Result]) -> str:
    """What the parser reads in a payload, in a few words."""
    words: list[str] = []
    for result in results:
        match result:
            case ParsedReport():
                words.append(result.kind)
            case Observation():
                words.append(f"item {result.change}")
            case Ignored() | Rejected():
                words.append(f"{type(result).__name__.lower()}: {result.reason}")
    return ", ".join(words[:8]) + (f" and {len(words) - 8} more" if len(words) > 8 else "") or "nothing"


def _as_native(report: ParsedReport, seed: str, now_ms: int) -> Iterator[dict[str, Any]]:
    event_id = report.event_id or hashlib.sha256(f"{seed} {report!r}".encode()).hexdigest()[:32]
    if report.occurred_at is not None:  # known by what it says, whichever capture it is in
        event_id = hashlib.sha256(repr(replace(report, event_id=None)).encode()).hexdigest()[:32]
    for one in told(report, event_id, received_at=now_ms, duration_ms=report.duration_ms):
        fields = {name: value for name, value in asdict(one.report).items() if value is not None}
        user = fields.pop("upstream_user", None)
        yield {"user": user, **fields, "event_id": one.event_id}


def _content_type(payload: Payload) -> str:
    if payload.body.lstrip()[:1] in (b"{", b"["):
        return "application/json"
    if payload.body.lstrip(b"\r\n").startswith(b"--"):
        return "multipart/form-data"
    return _CONTENT_TYPES.get(payload.format, "text/plain")


def _files(given: Sequence[Path]) -> Iterator[Path]:
    for path in given:
        if path.is_dir():
            yield from sorted(file for file in path.iterdir() if file.is_file() and file.suffix != STATE_SUFFIX)
        else:
            yield path


def _payloads(file: Path, format: str | None) -> Iterator[Payload]:
    body = file.read_bytes()
    lines = _capture_lines(body)
    if lines is not None:
        for number, line in lines:
            yield _of_line(line, f"{file}:{number}")
    elif format is None:
        raise BadCapture(f"{file} is no capture (JSON lines with format and body): say what it is with --format")
    elif format == "native":
        yield from _native(file, body)
    else:
        yield Payload(str(file), format, body)


def _capture_lines(body: bytes) -> list[tuple[int, dict[str, Any]]] | None:
    """The lines of a capture with their numbers, from 1; None when it is none, by its first line."""
    found: list[tuple[int, dict[str, Any]]] = []
    for number, line in enumerate(body.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        is_payload = isinstance(value, dict) and "format" in value and ("body" in value or "body_base64" in value)
        if not is_payload and not found:
            return None
        found.append((number, value if isinstance(value, dict) else {}))
    return found or None


def _of_line(line: dict[str, Any], place: str) -> Payload:
    format, content_type = line.get("format"), line.get("content_type")
    if not isinstance(format, str) or format not in FORMATS:
        raise BadCapture(f"{place}: format is none of {', '.join(FORMATS)}")
    if content_type is not None and not (isinstance(content_type, str) and content_type.isprintable()):
        raise BadCapture(f"{place}: content_type is not a text")
    match line:
        case {"body_base64": str(text)}:
            try:
                body = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                raise BadCapture(f"{place}: body_base64 is not base64") from None
        case {"body": str(text)}:
            body = text.encode(errors="surrogatepass")
        case _:
            raise BadCapture(f"{place}: neither body nor body_base64 is a text")
    return Payload(place, format, body, content_type)


def _native(file: Path, body: bytes) -> Iterator[Payload]:
    """One document; JSON lines of reports by a few hundred, so that a long file is many requests."""
    try:
        json.loads(body)
    except ValueError:
        pass
    else:
        yield Payload(str(file), "native", body)
        return
    part: list[tuple[int, bytes]] = []
    size = 0
    for number, line in enumerate(body.split(b"\n"), start=1):
        if not line.strip():
            continue
        full = len(part) == REPORTS_AT_ONCE or size + len(line) > BYTES_AT_ONCE or b'"reports"' in line
        if part and full:
            yield _of_lines(file, part)
            part, size = [], 0
        part.append((number, line))
        # A line that is a batch itself goes alone.
        size += BYTES_AT_ONCE if b'"reports"' in line else len(line) + 1
    if part:
        yield _of_lines(file, part)


def _of_lines(file: Path, lines: Sequence[tuple[int, bytes]]) -> Payload:
    first, last = lines[0][0], lines[-1][0]
    place = f"{file}:{first}" if first == last else f"{file}:{first}-{last}"
    return Payload(place, "native", b"\n".join(line for _, line in lines))
