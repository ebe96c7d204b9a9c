"""Hooks of Jellyfin: the webhook plugin's flat payloads, in both of its modes, and the nested ones of
the other plugin (shemanaev/jellyfin-plugin-webhooks).

"Send all properties" has JSON types and the guid without hyphens. In template mode everything may be a
string, guids have hyphens, absent is "", values are HTML-encoded, and free text breaks the JSON
(`jellyfin_template` mends that). Choices made here, where the server leaves it open:

- The plugin sends position 0 for an unknown one. A start or stop without position means the same as
  one at 0; a pause without position is safer than one at 0, so that one loses it.
- UserDataSaved follows each playback event some fourteen times. Only TogglePlayed (the person's tick)
  and UpdateUserData (a client writing through the API) are news. Import is a bulk statement of a file
  or a sync plugin, as old as it likes: it must not end a playthrough, so it is left to reconciling.
- UpdateUserData with a position sets it; without one, played marks it; neither says nothing that is
  certain (it might have been a rating), so nothing is done.
- No user id, no report: a name would make a second person of the same one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from streams.ingest.hooks.checks import Refuse, accept, event_name, guarded
from streams.ingest.hooks.documents import decode, load_form, load_json
from streams.ingest.hooks.fields import Fields, display, provider_ids
from streams.ingest.hooks.jellyfin_template import mend
from streams.ingest.hooks.known import Census, count
from streams.ingest.hooks.mediabrowser import CONTAINERS, canonical_guid, media_kind, nested_observation
from streams.ingest.hooks.result import Ignored, Kind, Observation, ParsedReport, Result

_PLAYBACK: Final[dict[str, Kind]] = {
    "playbackstart": "start",
    "playbackprogress": "progress",
    "playbackstop": "stop",
}
_NO_NEWS: Final = frozenset(
    {"generic", "sessionstart", "authenticationsuccess", "authenticationfailure", "taskcompleted"}
    | {"pendingrestart", "plugininstallationcancelled", "plugininstallationfailed", "plugininstalled"}
    | {"plugininstalling", "pluginuninstalled", "pluginupdated", "subtitledownloadfailure", "usercreated"}
    | {"userdeleted", "userlockedout", "userpasswordchanged", "userupdated"}
)
_ECHO_REASONS: Final = frozenset({"playbackstart", "playbackprogress", "playbackfinished"})

_NESTED_PLAYBACK: Final[dict[str, Kind]] = {
    "play": "start",
    "progress": "progress",
    "pause": "pause",
    "resume": "resume",
    "stop": "stop",
    "scrobble": "finish",
    "markplayed": "mark_played",
    "markunplayed": "mark_unplayed",
}
_NESTED_NO_NEWS: Final = frozenset(
    {"rate", "itemupdated", "authenticationsucceeded", "authenticationfailed", "sessionstarted"}
    | {"sessionended", "subtitledownloadfailure", "haspendingrestartchanged"}
)
_ZONED = re.compile(r"(?:[Zz]|[+-]\d\d:?\d\d)\Z")
_PROVIDER = re.compile(r"provider_(.+)", re.DOTALL)


def parse(body: bytes, census: Census | None = None) -> list[Result]:
    """One hook's body to exactly one result."""
    return [guarded(_parse, body, census)]


def _parse(body: bytes, census: Census | None) -> Result:
    document = _document(decode(body))
    count(census, "jellyfin", document)
    payload = Fields(document, fold_case=True, unescape=True)
    if not payload:
        raise Refuse("not_an_object", "the body is no JSON object")
    if payload.word("NotificationType") is not None:
        return _flat(payload)
    if payload.word("Event") is not None:
        return _nested(payload)
    raise Refuse("no_event", "neither NotificationType nor Event is there")


def _document(text: str) -> object:
    if not text.lstrip().startswith(("{", "[")) and "NotificationType=" in text:
        return dict(load_form(text))  # the plugin's form destination
    try:
        return load_json(text)
    except Refuse as refusal:
        if refusal.reason != "bad_json":
            raise
        return mend(text)


@dataclass(frozen=True, slots=True)
class _Item:
    identifier: str
    item_type: str


def _flat(payload: Fields) -> Result:
    event = payload.word("NotificationType")
    match (event or "").lower():
        case "playbackstart" | "playbackprogress" | "playbackstop" as playback:
            return _playback(payload, _PLAYBACK[playback])
        case "userdatasaved":
            return _user_data(payload)
        case "itemadded":
            return _observation(payload, "added")
        case "itemdeleted":
            return _observation(payload, "removed")
        case other if other in _NO_NEWS:
            return Ignored("no_news", f"{event_name(event)} carries no playback or library news")
    return Ignored("unknown_event", f"NotificationType {event_name(event)} is not known")


def _playback(payload: Fields, kind: Kind) -> Result:
    item = _item(payload.identifier("ItemId"), payload.word("ItemType"))
    if isinstance(item, Ignored):
        return item
    position_ms = payload.ticks("PlaybackPositionTicks", "invalid_position")
    if kind == "progress" and payload.flag("IsPaused"):
        kind = "pause"
        position_ms = position_ms or None
    return accept(
        ParsedReport(
            kind=kind,
            origin="webhook",
            upstream_user=_user(payload.identifier("UserId")),
            upstream_media=item.identifier,
            media_kind=media_kind(item.item_type),
            session_id=payload.identifier("PlaySessionId"),
            device_id=payload.identifier("DeviceId"),
            position_ms=position_ms,
            duration_ms=payload.duration("RunTimeTicks", per_unit=0.0001),
            occurred_at=_occurred_at(payload),
            automated=payload.flag("IsAutomated"),
            played=payload.flag("PlayedToCompletion") if kind == "stop" else None,
        )
    )


def _user_data(payload: Fields) -> Result:
    item = _item(payload.identifier("ItemId"), payload.word("ItemType"))
    if isinstance(item, Ignored):
        return item
    position_ms = payload.ticks("PlaybackPositionTicks", "invalid_position")
    played = payload.flag("Played")
    kind: Kind
    match (payload.word("SaveReason") or "").lower():
        case "toggleplayed":
            if played is None:
                raise Refuse("incomplete", "TogglePlayed without Played says nothing")
            kind, position_ms = ("mark_played" if played else "mark_unplayed"), None
        case "updateuserdata" if position_ms:
            kind = "set_position"
        case "updateuserdata" if played:
            kind, position_ms = "mark_played", None
        case "updateuserdata":
            return Ignored("ambiguous_user_data", "UpdateUserData with neither a position nor Played")
        case "updateuserrating":
            return Ignored("no_news", "a rating is no playback news")
        case "import":
            return Ignored("bulk_import", "imported user data may be old and is left to reconciling")
        case reason if reason in _ECHO_REASONS:
            return Ignored("playback_echo", "the playback event itself has told this")
        case "":
            return Ignored("no_save_reason", "without SaveReason a tick and an echo look the same")
        case _:
            return Ignored("unknown_event", "SaveReason is not known")
    return accept(
        ParsedReport(
            kind=kind,
            origin="webhook",
            upstream_user=_user(payload.identifier("UserId")),
            upstream_media=item.identifier,
            media_kind=media_kind(item.item_type),
            position_ms=position_ms,
            duration_ms=payload.duration("RunTimeTicks", per_unit=0.0001),
            occurred_at=_occurred_at(payload),
        )
    )


def _observation(payload: Fields, change: str) -> Observation:
    identifier = canonical_guid(payload.identifier("ItemId"))
    if identifier is None:
        raise Refuse("missing_media", "ItemId is missing")
    item_type = payload.word("ItemType")
    name = payload.raw("Name")
    providers = {found.group(1): payload.raw(key) for key in payload.names() if (found := _PROVIDER.fullmatch(key))}
    return Observation(
        change="added" if change == "added" else "removed",
        upstream_media=identifier,
        # The plugin escapes quotes itself, and "send all properties" escapes them once more.
        name=display(name.replace('\\"', '"')) if isinstance(name, str) else None,
        item_kind=item_type.lower() if item_type else None,
        provider_ids=provider_ids(providers),
    )


def _nested(payload: Fields) -> Result:
    event = payload.word("Event")
    name = (event or "").lower()
    item = payload.child("Item")
    match name:
        case "itemadded":
            return nested_observation(item, "added")
        case "itemremoved":
            return nested_observation(item, "removed")
        case _ if name in _NESTED_NO_NEWS:
            return Ignored("no_news", f"{event_name(event)} carries no playback or library news")
        case _ if name not in _NESTED_PLAYBACK:
            return Ignored("unknown_event", f"Event {event_name(event)} is not known")
    kind = _NESTED_PLAYBACK[name]
    found = _item(item.identifier("Id"), item.word("Type"))
    if isinstance(found, Ignored):
        return found
    session = payload.child("Session")
    state = session.child("PlayState")
    position_ms = state.ticks("PositionTicks", "invalid_position")
    if kind in ("mark_played", "mark_unplayed"):
        position_ms = None
    elif kind == "stop" and position_ms is None:
        # The server clears the session before it tells of the stop; what it stored is the position then.
        position_ms = item.child("UserData").ticks("PlaybackPositionTicks", "invalid_position") or None
    elif kind == "progress" and state.flag("IsPaused"):
        kind = "pause"
    return accept(
        ParsedReport(
            kind=kind,
            origin="webhook",
            upstream_user=_user(payload.child("User").identifier("Id")),
            upstream_media=found.identifier,
            media_kind=media_kind(found.item_type),
            session_id=session.identifier("Id"),
            device_id=session.identifier("DeviceId"),
            position_ms=position_ms,
            duration_ms=item.duration("RunTimeTicks", per_unit=0.0001),
            played=True if kind == "finish" else None,
        )
    )


def _item(identifier: str | None, item_type: str | None) -> _Item | Ignored:
    identifier = canonical_guid(identifier)
    if identifier is None:
        raise Refuse("missing_media", "the payload names no item")
    kind = (item_type or "").lower()
    if kind in CONTAINERS:
        return Ignored("container", "the server tells the same of each part")
    return _Item(identifier, kind)


def _user(identifier: str | None) -> str:
    user = canonical_guid(identifier)
    if user is None:
        raise Refuse("missing_user", "the payload names no user")
    return user


def _occurred_at(payload: Fields) -> int | None:
    """UtcTimestamp, else a Timestamp that tells its offset: without one it is the server's local time."""
    occurred_at = payload.moment("UtcTimestamp")
    if occurred_at is None and _ZONED.search(payload.word("Timestamp") or ""):
        occurred_at = payload.moment("Timestamp")
    return occurred_at
