"""Hooks of Plex: multipart with a JSON part `payload` and sometimes a poster.

Keys keep their case: `guid` and `Guid`, `rating` and `Rating` are different fields. `user: false,
owner: true` means that somebody else is playing on the owner's server; the Account says who, and that is
whose report it is. Plex sends no event time and no play session, only a player.
media.scrobble says that 90 % were passed: a finish. library.on.deck tells of a new item too.
"""

from __future__ import annotations

import re
from typing import Final

from streams.ingest.hooks.checks import Refuse, accept, event_name, guarded
from streams.ingest.hooks.documents import load_json
from streams.ingest.hooks.envelope import payload_text
from streams.ingest.hooks.fields import Fields, provider_ids
from streams.ingest.hooks.known import Census, count
from streams.ingest.hooks.result import Ignored, Kind, MediaKind, Observation, ParsedReport, Result

_PLAYBACK: Final[dict[str, Kind]] = {
    "media.play": "start",
    "playback.started": "start",  # the owner's news of a shared user's start
    "media.pause": "pause",
    "media.resume": "resume",
    "media.stop": "stop",
    "media.scrobble": "finish",
}
_ADDED: Final = frozenset({"library.new", "library.on.deck"})
_NO_NEWS: Final = frozenset({"media.rate", "device.new", "admin.database.backup", "admin.database.corrupted"})
_MEDIA_KINDS: Final[dict[str, MediaKind]] = {
    "movie": "video",
    "episode": "video",
    "clip": "video",
    "track": "music",
}
_CONTAINERS: Final = frozenset({"show", "season", "artist", "album", "collection", "playlist"})
# "imdb://tt1", and of the old agents "com.plexapp.agents.imdb://tt1?lang=en".
_GUID = re.compile(r"(?:com\.plexapp\.agents\.)?([a-z0-9]{1,32})://([^?\s]{1,256})(?:\?\S*)?", re.IGNORECASE)


def parse(body: bytes, census: Census | None = None) -> list[Result]:
    """One hook's body (multipart, JSON or a form) to exactly one result."""
    return [guarded(_parse, body, census)]


def _parse(body: bytes, census: Census | None) -> Result:
    document = load_json(payload_text(body, "payload"))
    count(census, "plex", document)
    payload = Fields(document)
    event = payload.word("event")
    if event is None:
        raise Refuse("no_event", "event is missing")
    if event in _NO_NEWS:
        return Ignored("no_news", f"{event} carries no playback or library news")
    item = payload.child("Metadata")
    if event in _ADDED:
        return _observation(item)
    if event not in _PLAYBACK:
        return Ignored("unknown_event", f"event {event_name(event)} is not known")
    if item.word("type") in _CONTAINERS:
        return Ignored("container", "only playable items have a position")
    media = item.identifier("ratingKey")
    if media is None:
        raise Refuse("missing_media", "Metadata.ratingKey is missing")
    user = payload.child("Account").identifier("id")
    if user is None:
        raise Refuse("missing_user", "Account.id is missing")
    kind = _PLAYBACK[event]
    return accept(
        ParsedReport(
            kind=kind,
            origin="webhook",
            upstream_user=user,
            upstream_media=media,
            media_kind="live" if item.flag("live") else _MEDIA_KINDS.get(item.word("type") or ""),
            device_id=payload.child("Player").identifier("uuid"),
            position_ms=item.milliseconds("viewOffset", "invalid_position"),
            duration_ms=item.duration("duration"),
            played=True if kind == "finish" else None,
        )
    )


def _observation(item: Fields) -> Observation:
    media = item.identifier("ratingKey")
    if media is None:
        raise Refuse("missing_media", "Metadata.ratingKey is missing")
    pairs: dict[str, object] = {}
    for guid in [item.word("guid"), *(entry.word("id") for entry in item.children("Guid"))]:
        if guid is not None and (found := _GUID.fullmatch(guid)) and found.group(1).lower() != "local":
            pairs[found.group(1)] = found.group(2)
    return Observation(
        change="added",
        upstream_media=media,
        name=item.text("title"),
        item_kind=item.word("type"),
        provider_ids=provider_ids(pairs),
    )
