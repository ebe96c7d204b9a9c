"""Hooks of Emby: JSON (4.9 and later), or a form field `data` holding it (4.8), urlencoded or multipart.

Positions are ticks of 100 ns. A hook that is not limited to users can leave the User block out; nobody
can be credited then. Session.Id names a device's login rather than one play, which the rules allow for.
"""

from __future__ import annotations

from typing import Final

from streams.ingest.hooks.checks import Refuse, accept, event_name, guarded
from streams.ingest.hooks.documents import load_json
from streams.ingest.hooks.envelope import payload_text
from streams.ingest.hooks.fields import Fields
from streams.ingest.hooks.known import Census, count
from streams.ingest.hooks.mediabrowser import CONTAINERS, canonical_guid, media_kind, nested_observation
from streams.ingest.hooks.result import Ignored, Kind, ParsedReport, Result

_PLAYBACK: Final[dict[str, Kind]] = {
    "playback.start": "start",
    "playback.progress": "progress",
    "playback.pause": "pause",
    "playback.unpause": "resume",
    "playback.stop": "stop",
    "playback.scrobble": "finish",
    "item.markplayed": "mark_played",
    "item.markunplayed": "mark_unplayed",
}
_COMMANDS: Final = frozenset({"mark_played", "mark_unplayed"})
_NO_NEWS: Final = frozenset({"system.notificationtest", "item.rate", "user.authenticated"})


def parse(body: bytes, census: Census | None = None) -> list[Result]:
    """One hook's body to exactly one result."""
    return [guarded(_parse, body, census)]


def _parse(body: bytes, census: Census | None) -> Result:
    document = load_json(payload_text(body, "data"))
    count(census, "emby", document)
    payload = Fields(document)
    event = payload.word("Event")
    if event is None:
        raise Refuse("no_event", "Event is missing")
    if event in _NO_NEWS:
        return Ignored("no_news", f"{event} carries no playback or library news")
    item = payload.child("Item")
    if event == "library.new":
        return nested_observation(item, "added")
    if event == "library.deleted":
        return nested_observation(item, "removed")
    if event not in _PLAYBACK:
        return Ignored("unknown_event", f"Event {event_name(event)} is not known")
    item_type = item.word("Type")
    if (item_type or "").lower() in CONTAINERS:
        return Ignored("container", "only playable items have a position")
    media = canonical_guid(item.identifier("Id"))
    if media is None:
        raise Refuse("missing_media", "Item.Id is missing")
    user = canonical_guid(payload.child("User").identifier("Id"))
    if user is None:
        raise Refuse("missing_user", "User.Id is missing")
    kind = _PLAYBACK[event]
    session = payload.child("Session")
    playback = payload.child("PlaybackInfo")
    position_ms = None if kind in _COMMANDS else playback.ticks("PositionTicks", "invalid_position")
    played = playback.flag("PlayedToCompletion") if kind == "stop" else None
    return accept(
        ParsedReport(
            kind=kind,
            origin="webhook",
            upstream_user=user,
            upstream_media=media,
            media_kind=media_kind(item_type),
            session_id=session.identifier("Id"),
            device_id=session.identifier("DeviceId"),
            position_ms=position_ms,
            duration_ms=item.duration("RunTimeTicks", per_unit=0.0001),
            occurred_at=payload.moment("Date"),
            played=True if kind == "finish" else played,
        )
    )
