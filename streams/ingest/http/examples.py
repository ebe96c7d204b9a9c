"""Bodies as senders send them, for the API's own description. All names and values are invented."""

from __future__ import annotations

from typing import Any, Final

JELLYFIN: Final[dict[str, Any]] = {
    "NotificationType": "PlaybackProgress",
    "UserId": "3f1c0d5e8a2b4c6d9e0f112233445566",
    "ItemId": "a1b2c3d4e5f60718293a4b5c6d7e8f90",
    "ItemType": "Movie",
    "RunTimeTicks": 66_000_000_000,
    "PlaybackPositionTicks": 18_300_000_000,
    "DeviceId": "tv-17",
    "IsPaused": False,
    "IsAutomated": False,
}
PLEX: Final[dict[str, Any]] = {
    "event": "media.pause",
    "user": True,
    "owner": True,
    "Account": {"id": 1001, "title": "ana"},
    "Server": {"title": "shelf", "uuid": "srv0000aaaa"},
    "Player": {"local": True, "title": "Lounge", "uuid": "player-1"},
    "Metadata": {"ratingKey": "4711", "type": "movie", "duration": 6_600_000, "viewOffset": 1_830_000},
}
EMBY: Final[dict[str, Any]] = {
    "Event": "playback.pause",
    "User": {"Name": "ana", "Id": "5a5b5c5d5e5f40414243444546474849"},
    "Item": {"Id": "240270", "Type": "Movie", "RunTimeTicks": 66_000_000_000},
    "Session": {"DeviceId": "tv-17", "Id": "session-1"},
    "PlaybackInfo": {"PositionTicks": 18_300_000_000},
}
AUDIOBOOKSHELF: Final[dict[str, Any]] = {
    "id": "7b6a5c4d-1111-4222-8333-944455556666",
    "userId": "usr-ana",
    "libraryItemId": "li-9f8e7d",
    "mediaType": "book",
    "duration": 36_000.25,
    "timeListening": 1_200,
    "currentTime": 3_600.5,
    "startedAt": 1_796_068_500_000,
    "updatedAt": 1_796_069_700_000,
    "deviceInfo": {"deviceId": "phone-1"},
}
HOOKS: Final[dict[str, Any]] = {
    "jellyfin": {"summary": "Jellyfin's webhook plugin, a player's heartbeat", "value": JELLYFIN},
    "plex": {
        "summary": "Plex, the part `payload`; it sends it in several parts, which is taken as well",
        "value": PLEX,
    },
    "emby": {"summary": "Emby 4.9; 4.8 sends the same in a form field `data`", "value": EMBY},
    "audiobookshelf": {"summary": "A listening session of Audiobookshelf", "value": AUDIOBOOKSHELF},
}
TAKEN: Final[dict[str, Any]] = {
    "accepted": 1,
    "event_ids": ["tv-17:s3:42"],
    "rejected": [],
}
IN_PART: Final[dict[str, Any]] = {
    "accepted": 1,
    "event_ids": ["tv-17:s3:42"],
    "rejected": [{"index": 1, "reason": "missing_position", "detail": "a progress report needs a position"}],
}
NO_NEWS: Final[dict[str, Any]] = {
    "accepted": 0,
    "event_ids": [],
    "rejected": [],
    "ignored": [{"reason": "no_news", "detail": "nothing about playback or the library"}],
    "observations": 0,
    "observations_ignored": 0,
}
VALID: Final[dict[str, Any]] = {"code": 200, "message": "Token valid.", "valid": True, "user_name": "1f0c2a9b"}
INVALID: Final[dict[str, Any]] = {"code": 200, "message": "Token invalid.", "valid": False}
SCAN: Final[dict[str, Any]] = {"scan": "music:41", "source": "music", "generation": 41}
SCAN_WANTED: Final[dict[str, Any]] = {
    "changes": {"summary": "What is new or changed", "value": {"full": False}},
    "all": {"summary": "Read everything again", "value": {"full": True}},
}
