"""Audiobookshelf: listening sessions, media progress objects and socket events.

Seconds are floats and become ms; startedAt, updatedAt and lastUpdate already are ms. timeListening is a
session's total; timeListened (in sync bodies) is a delta, and a delta that is retried would count twice.
Sessions are imports: they may be a week old and carry their own times. A podcast's item is the show, so
its episode is named `item/episode`. The server stores whatever clients send (-3, "abc", null), hence the
refusals. Choices made here:

- A progress object that is finished is a finish at lastUpdate; finishedAt can be set to long ago by hand.
- `user_updated` brings the whole user. The server sends it after one change, so the newest of its
  progress objects is taken as the news; for a change that was no progress it is a repetition.
- Reading an e-book moves no position of an audio item: ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from schemas.limits import REPORTS_PER_REQUEST_MAX
from streams.domain.limits import INT64_MAX
from streams.ingest.hooks.checks import Refuse, accept, event_name, guarded
from streams.ingest.hooks.documents import decode, load_json
from streams.ingest.hooks.fields import Fields, checked_id, provider_ids
from streams.ingest.hooks.known import Census, count
from streams.ingest.hooks.result import Ignored, MediaKind, Observation, ParsedReport, Rejected, Result

_SECOND_MS: Final = 1000
_MEDIA_KINDS: Final[dict[str, MediaKind]] = {
    "book": "audiobook",
    "podcast": "podcast",
    "podcastepisode": "podcast",
}
_CHANGES: Final[dict[str, Literal["added", "removed"]]] = {
    "item_added": "added",
    "items_added": "added",
    "item_removed": "removed",
    "items_removed": "removed",
}
_NO_NEWS: Final = frozenset(
    {"item_updated", "items_updated", "user_session_closed", "user_online", "user_offline", "init"}
    | {"task_started", "task_finished", "library_updated", "stream_open", "stream_closed"}
)


def parse(body: bytes, census: Census | None = None) -> list[Result]:
    """One body to one result, or one for each session, progress or item in it, in order."""
    try:
        document = load_json(decode(body))
        count(census, "audiobookshelf", document)
        match document:
            case [str(event), data]:  # as socket.io itself writes an event
                document = {"event": event, "data": data}
            case list():
                return _all(document, _single)
        payload = Fields(document)
        if isinstance(payload.raw("sessions"), list):
            return _all(payload.raw("sessions"), _session, payload)
        if isinstance(payload.raw("mediaProgress"), list) and "event" not in payload:
            return _all(payload.raw("mediaProgress"), _progress)
        if payload.word("event") is not None:
            return _event(payload)
    except Refuse as refusal:
        return [Rejected(refusal.reason, refusal.detail)]
    return [guarded(_single, payload)]


def session(entry: Fields) -> Result:
    """One listening session's last word, as the API lists it. Raises Refuse."""
    return _session(entry, Fields(None))


def progress(entry: Fields) -> Result:
    """One media progress object. Raises Refuse."""
    return _progress(entry)


def _all(entries: object, parse_one: Callable[..., Result], *more: Fields) -> list[Result]:
    """Each entry on its own: one bad one is one rejection. No entries are one Ignored."""
    if not isinstance(entries, list):
        raise Refuse("bad_shape", "a list was expected")
    if len(entries) > REPORTS_PER_REQUEST_MAX:
        raise Refuse("too_many", f"over {REPORTS_PER_REQUEST_MAX} entries")
    if not entries:
        return [Ignored("nothing_in_it", "the list is empty")]
    return [guarded(parse_one, Fields(entry), *more) for entry in entries]


def _single(entry: Fields) -> Result:
    if not entry:
        raise Refuse("not_an_object", "no JSON object")
    if any(name in entry for name in ("timeListening", "updatedAt", "playMethod")):
        return _session(entry, Fields(None))
    return _progress(entry)


def _session(entry: Fields, around: Fields) -> ParsedReport:
    """A listening session's last word. `around` is what surrounds a list of them (their deviceInfo)."""
    if not entry:
        raise Refuse("not_an_object", "a session is no JSON object")
    device = entry.child("deviceInfo") or around.child("deviceInfo")
    return accept(
        ParsedReport(
            kind="progress",
            origin="import",
            upstream_user=_user(entry),
            upstream_media=_media(entry),
            media_kind=_MEDIA_KINDS.get((entry.word("mediaType") or "").lower()),
            session_id=entry.identifier("id"),
            device_id=device.identifier("deviceId"),
            position_ms=_seconds(entry, "currentTime"),
            duration_ms=entry.duration("duration", per_unit=_SECOND_MS),
            occurred_at=_epoch_ms(entry, "updatedAt") or _epoch_ms(entry, "startedAt"),
            listened_ms=_listened(entry),
        )
    )


def _progress(entry: Fields, session_id: str | None = None) -> Result:
    if not entry:
        raise Refuse("not_an_object", "a progress is no JSON object")
    user, media = _user(entry), _media(entry)
    duration_ms = entry.duration("duration", per_unit=_SECOND_MS)
    if duration_ms is None and "ebookLocation" in entry:
        return Ignored("ebook", "reading an e-book moves no listening position")
    finished = entry.flag("isFinished")
    return accept(
        ParsedReport(
            kind="finish" if finished else "progress",
            origin="client",
            upstream_user=user,
            upstream_media=media,
            media_kind=_MEDIA_KINDS.get((entry.word("mediaItemType") or "").lower()),
            session_id=session_id,
            position_ms=_seconds(entry, "currentTime"),
            duration_ms=duration_ms,
            occurred_at=_epoch_ms(entry, "lastUpdate"),
            played=True if finished else None,
        )
    )


def _event(payload: Fields) -> list[Result]:
    event = payload.word("event")
    data = payload.child("data")
    if event == "user_item_progress_updated":
        progress = data.child("data") or data
        return [guarded(_progress, progress, data.identifier("sessionId"))]
    if event == "user_updated":
        return [guarded(_newest_progress, data)]
    if event in _CHANGES:
        items = payload.children("data")
        if len(items) > REPORTS_PER_REQUEST_MAX:
            raise Refuse("too_many", f"over {REPORTS_PER_REQUEST_MAX} items")
        if not items:
            raise Refuse("missing_media", "the event names no item")
        return [guarded(_observation, item, _CHANGES[event]) for item in items]
    if event in _NO_NEWS:
        return [Ignored("no_news", f"{event} carries no playback or library news")]
    return [Ignored("unknown_event", f"event {event_name(event)} is not known")]


def _newest_progress(user: Fields) -> Result:
    entries = user.children("mediaProgress")
    if not entries:
        return Ignored("no_news", "the user has no progress")
    return _progress(max(entries, key=lambda entry: _epoch_ms(entry, "lastUpdate") or 0))


def _observation(item: Fields, change: Literal["added", "removed"]) -> Observation:
    identifier = item.identifier("id")
    if identifier is None:
        raise Refuse("missing_media", "the item has no id")
    metadata = item.child("media").child("metadata")
    return Observation(
        change=change,
        upstream_media=identifier,
        name=metadata.text("title"),
        item_kind=item.word("mediaType"),
        provider_ids=provider_ids({name: metadata.raw(name) for name in ("isbn", "asin")}),
    )


def _user(entry: Fields) -> str:
    user = entry.identifier("userId")
    if user is None:
        raise Refuse("missing_user" if "libraryItemId" in entry else "incomplete", "userId is missing")
    return user


def _media(entry: Fields) -> str:
    item, episode = entry.identifier("libraryItemId"), entry.identifier("episodeId")
    if item is None:
        raise Refuse("incomplete", "libraryItemId is missing")
    return item if episode is None else checked_id("libraryItemId/episodeId", f"{item}/{episode}") or item


def _seconds(entry: Fields, name: str) -> int | None:
    return entry.milliseconds(name, "invalid_position", per_unit=_SECOND_MS)


def _listened(entry: Fields) -> int | None:
    """The session's total; a negative or unreadable one says nothing."""
    try:
        listened_ms = entry.milliseconds("timeListening", "bad_duration", per_unit=_SECOND_MS)
    except Refuse:
        return None
    return listened_ms if listened_ms is not None and listened_ms >= 0 else None


def _epoch_ms(entry: Fields, name: str) -> int | None:
    try:
        value = entry.whole(name, "bad_time")
    except Refuse:
        return None
    return value if value is not None and 0 < value <= INT64_MAX else None
