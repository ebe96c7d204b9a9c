"""Answers of Subsonic servers that tell of positions: play queue, bookmarks, now playing.

Positions are ms, although bookmarkPosition of a song is described in seconds; durations are whole
seconds. Times are ISO, without a zone on some servers, and year 1 for never. Servers leave out what is
zero. A server's now-playing position moves on by itself: such a report is `automated`, so that it can
neither finish anything nor count a play.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from schemas.limits import REPORTS_PER_REQUEST_MAX
from streams.ingest.hooks.checks import Refuse, accept, guarded
from streams.ingest.hooks.fields import Fields
from streams.ingest.hooks.result import Ignored, Kind, MediaKind, ParsedReport, Result

_SECOND_MS: Final = 1000
_STATES: Final[dict[str, Kind]] = {
    "starting": "start",
    "playing": "progress",
    "paused": "pause",
    "stopped": "stop",
}
_MEDIA_KINDS: Final[dict[str, MediaKind]] = {
    "podcast": "podcast",
    "audiobook": "audiobook",
    "video": "video",
}


def parse_response(response: Fields) -> list[Result]:
    """The content of one `subsonic-response` to its results; Refuse when the whole is unusable."""
    if not response:
        raise Refuse("bad_shape", "the body is no subsonic-response")
    if response.word("status") == "failed":
        raise Refuse("upstream_failed", "the server answered with an error")
    if "bookmarks" in response:
        return _each(response.child("bookmarks").children("bookmark"), _bookmark, "there are no bookmarks")
    if "nowPlaying" in response:
        return _each(response.child("nowPlaying").children("entry"), _now_playing, "nothing is playing")
    for name in ("playQueue", "playQueueByIndex"):
        if name in response:
            return [guarded(_queue, response.child(name))]
    return [Ignored("no_news", "the answer carries no playback news")]


def _each(entries: list[Fields], parse_one: Callable[[Fields], Result], empty: str) -> list[Result]:
    if len(entries) > REPORTS_PER_REQUEST_MAX:
        raise Refuse("too_many", f"over {REPORTS_PER_REQUEST_MAX} entries")
    return [guarded(parse_one, entry) for entry in entries] or [Ignored("nothing_in_it", empty)]


def _bookmark(bookmark: Fields) -> ParsedReport:
    song = bookmark.child("entry")
    return _report(
        "progress",
        song,
        user=bookmark.identifier("username"),
        position_ms=bookmark.whole("position", "invalid_position") or 0,
        occurred_at=bookmark.moment("changed") or bookmark.moment("created"),
    )


def _queue(queue: Fields) -> Result:
    songs = queue.children("entry")
    if "currentIndex" in queue:
        index = queue.whole("currentIndex", "bad_index") or 0
        if not 0 <= index < len(songs):
            raise Refuse("bad_index", "currentIndex lies outside of the queue")
        song = songs[index]
    else:
        current = queue.identifier("current")
        if current is None:
            return Ignored("nothing_in_it", "the queue has no current track")
        song = next((song for song in songs if song.identifier("id") == current), Fields({"id": current}))
    return _report(
        "progress",
        song,
        user=queue.identifier("username"),
        device=queue.identifier("changedBy"),
        position_ms=queue.whole("position", "invalid_position") or 0,
        occurred_at=queue.moment("changed"),
    )


def _now_playing(entry: Fields) -> ParsedReport:
    state = (entry.word("state") or "").lower()
    position_ms = entry.whole("positionMs", "invalid_position")
    kind: Kind = _STATES.get(state, "start")
    if kind == "progress" and position_ms is None:
        kind = "start"
    return _report(
        kind,
        entry,
        user=entry.identifier("username"),
        device=entry.identifier("playerName") or entry.identifier("playerId"),
        position_ms=position_ms,
        automated=True if kind == "progress" else None,
    )


def _report(
    kind: Kind,
    song: Fields,
    *,
    user: str | None,
    position_ms: int | None,
    device: str | None = None,
    occurred_at: int | None = None,
    automated: bool | None = None,
) -> ParsedReport:
    if user is None:
        raise Refuse("missing_user", "the answer names no user")
    return accept(
        ParsedReport(
            kind=kind,
            origin="client",
            upstream_user=user,
            upstream_media=song.identifier("id"),
            media_kind=_MEDIA_KINDS.get((song.word("type") or "").lower(), "music"),
            device_id=device,
            position_ms=position_ms,
            duration_ms=song.duration("duration", per_unit=_SECOND_MS),
            occurred_at=occurred_at,
            automated=automated,
        )
    )
