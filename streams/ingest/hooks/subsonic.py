"""Subsonic and OpenSubsonic: calls of clients, and a server's answers that tell of positions.

A body that is a JSON object is an answer (`subsonic_responses`), all else a call: path and query, a bare
query or a form body. Credentials (p, t, s, apiKey) are never looked at and appear nowhere. Times and
positions are ms. Choices made here:

- createBookmark and deleteBookmark are the person's word on where to go on: set_position, clear_position.
- savePlayQueue tells the position of its current track: progress. Without one it is about the queue only.
- scrobble with another number of times than ids can't be matched up: rejected, not guessed.
- reportPlayback's mediaType says podcast; else it is music. `ignoreScrobble` concerns the server's own
  scrobbling; a play counts once per playthrough here, whoever tells of it.
- An unknown state is rejected, the known slip "completed" included: its sender must learn of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from schemas.limits import REPORTS_PER_REQUEST_MAX
from streams.domain.limits import INT64_MAX
from streams.domain.timekeeping import in_milliseconds
from streams.ingest.hooks.checks import Refuse, accept, guarded
from streams.ingest.hooks.documents import decode, load_form, load_json
from streams.ingest.hooks.fields import Fields, checked_id
from streams.ingest.hooks.known import Census, count
from streams.ingest.hooks.result import Ignored, Kind, Listen, ParsedReport, Rejected, Result
from streams.ingest.hooks.subsonic_responses import parse_response

_STATES: Final[dict[str, Kind]] = {
    "starting": "start",
    "playing": "progress",
    "paused": "pause",
    "stopped": "stop",
}
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_REQUEST_LINE = re.compile(r"(?:GET|POST|HEAD)\s+(\S+)(?:\s+HTTP/\S+)?", re.IGNORECASE)


def parse(body: bytes, census: Census | None = None) -> list[Result]:
    """One call or answer to its results: one each for the ids, bookmarks or players it tells of."""
    try:
        text = decode(body).strip()
        if text.startswith(("{", "[")):
            document = load_json(text)
            count(census, "subsonic", document)
            return parse_response(Fields(document).child("subsonic-response"))
        if text.startswith("<"):
            raise Refuse("xml", "answers are read as JSON only (f=json)")
        call = _Call(text)
        count(census, "subsonic", dict(call.pairs))
        return call.results()
    except Refuse as refusal:
        return [Rejected(refusal.reason, refusal.detail)]


class _Call:
    """A client's call: its method's name in lower case and its parameters."""

    def __init__(self, text: str) -> None:
        line = _REQUEST_LINE.fullmatch(text)
        target = line.group(1) if line else text
        try:
            path, query = _split(target)
        except ValueError:
            raise Refuse("bad_call", "the call's address can't be read") from None
        self.pairs = load_form(query)
        name = path.rstrip("/").rpartition("/")[2] or self.first("method") or ""
        self.method = name.removesuffix(".view").lower()

    def results(self) -> list[Result]:
        handlers: dict[str, Callable[[], list[Result]]] = {
            "scrobble": self._scrobble,
            "reportplayback": lambda: [guarded(self._report_playback)],
            "saveplayqueue": lambda: [guarded(self._save_play_queue)],
            "saveplayqueuebyindex": lambda: [guarded(self._save_play_queue_by_index)],
            "createbookmark": lambda: [guarded(self._create_bookmark)],
            "deletebookmark": lambda: [guarded(self._delete_bookmark)],
        }
        if not self.method:
            raise Refuse("no_method", "the call's name is missing")
        if self.method not in handlers:
            return [Ignored("no_news", "the call carries no playback news")]
        return handlers[self.method]()

    def first(self, name: str) -> str | None:
        return next((value for key, value in self.pairs if key == name), None)

    def every(self, name: str) -> list[str]:
        return [value for key, value in self.pairs if key == name]

    def _identifier(self, name: str) -> str | None:
        value = self.first(name)
        return None if value is None else checked_id(name, value)

    def _whole(self, name: str, reason: str) -> int | None:
        value = (self.first(name) or "").strip()
        return _whole(name, value, reason) if value else None

    def _report(
        self,
        kind: Kind,
        media: str | None,
        *,
        position_ms: int | None = None,
        occurred_at: int | None = None,
        played: bool | None = None,
        podcast: bool = False,
    ) -> ParsedReport:
        user = self._identifier("u")
        if user is None:
            raise Refuse("missing_user", "the call has no parameter u")
        made = Listen if played else ParsedReport
        return accept(
            made(
                kind=kind,
                origin="client",
                upstream_user=user,
                upstream_media=media,
                media_kind="podcast" if podcast else "music",
                device_id=self._identifier("c"),
                position_ms=position_ms,
                occurred_at=occurred_at,
                played=played,
            )
        )

    def _scrobble(self) -> list[Result]:
        ids, times = self.every("id"), self.every("time")
        if not ids:
            raise Refuse("missing_media", "the call has no parameter id")
        if len(ids) > REPORTS_PER_REQUEST_MAX:
            raise Refuse("too_many", f"over {REPORTS_PER_REQUEST_MAX} ids")
        if times and len(times) != len(ids):
            raise Refuse("times_mismatch", "there are not as many times as ids")
        played = (self.first("submission") or "true").strip().lower() not in ("false", "0")

        pairs = zip(ids, times or [""] * len(ids), strict=True)
        return [guarded(self._scrobbled, media, time, played) for media, time in pairs]

    def _scrobbled(self, media: str, time: str, played: bool) -> Result:
        return self._report(
            "finish" if played else "start",
            checked_id("id", media),
            occurred_at=_time(time) if played else None,
            played=True if played else None,
        )

    def _report_playback(self) -> Result:
        state = (self.first("state") or "").strip().lower()
        if state not in _STATES:
            raise Refuse("unknown_state", "state is none of starting, playing, paused, stopped")
        return self._report(
            _STATES[state],
            self._identifier("mediaId"),
            position_ms=self._whole("positionMs", "invalid_position"),
            podcast=(self.first("mediaType") or "").strip().lower() == "podcast",
        )

    def _save_play_queue(self) -> Result:
        ids = self.every("id")
        if not ids:
            return Ignored("queue_cleared", "an empty queue has no position")
        return self._queue_position(self._identifier("current") or (ids[0] if len(ids) == 1 else None))

    def _save_play_queue_by_index(self) -> Result:
        ids = self.every("id")
        if not ids:
            return Ignored("queue_cleared", "an empty queue has no position")
        index = self._whole("currentIndex", "bad_index")
        if index is None:
            return self._queue_position(None)
        if not 0 <= index < len(ids):
            raise Refuse("bad_index", "currentIndex lies outside of the queue")
        return self._queue_position(ids[index])

    def _queue_position(self, current: str | None) -> Result:
        position_ms = self._whole("position", "invalid_position")
        if current is None or position_ms is None:
            return Ignored("no_position", "the queue is saved without a position")
        return self._report("progress", checked_id("id", current), position_ms=position_ms)

    def _create_bookmark(self) -> Result:
        position_ms = self._whole("position", "invalid_position")
        return self._report("set_position", self._identifier("id"), position_ms=position_ms)

    def _delete_bookmark(self) -> Result:
        return self._report("clear_position", self._identifier("id"))


def _split(target: str) -> tuple[str, str]:
    """Path and query of a call; a bare query has no path."""
    if "?" in target.partition("=")[0]:
        parts = urlsplit(target)
        return parts.path, parts.query
    if "=" in target:
        return "", target
    return target, ""


def _time(value: str) -> int | None:
    """A scrobble's time in epoch ms; None when absent. Seconds are a known slip and taken as such."""
    trimmed = value.strip()
    if not trimmed:
        return None
    number = _whole("time", trimmed, "bad_time")
    if number < 0:
        raise Refuse("bad_time", "time is negative")
    return in_milliseconds(number)[0]


def _whole(name: str, value: str, reason: str) -> int:
    if not _WHOLE.fullmatch(value) or abs(number := int(value)) > INT64_MAX:
        raise Refuse(reason, f"{name} is not a whole number")
    return number
