"""Golden payloads, written from what the servers were seen to send. All values are invented."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

JsonObject = dict[str, Any]

JELLYFIN_ITEM = "0aa1bb2cc3dd4ee5ff60718293a4b5c6"
JELLYFIN_USER = "77e2d4c6b8a01234567890abcdef1234"
SECRETS = ("192.0.2.77", "tok-3fa85f64", "hunter2sesame", "c0ffee5a17", "apikey-9d8c7b6a")


def without(payload: JsonObject, *names: str) -> JsonObject:
    return {name: value for name, value in payload.items() if name not in names}


def encoded(payload: object) -> bytes:
    return json.dumps(payload).encode()


def jellyfin(event: str, **fields: Any) -> JsonObject:
    """A flat payload as of "send all properties": JSON types, guids without hyphens."""
    payload: JsonObject = {
        "ServerId": "51525354555657585960616263646566",
        "ServerName": "attic",
        "ServerUrl": "http://media.example:8096",
        "NotificationType": event,
        "Timestamp": "2026-05-04T12:30:00.7654321+02:00",
        "UtcTimestamp": "2026-05-04T10:30:00.7654321Z",
        "Name": "The Tin Kite",
        "Overview": "Wind, mostly.",
        "ItemId": JELLYFIN_ITEM,
        "ItemType": "Movie",
        "RunTimeTicks": 54_000_000_000,
        "RunTime": "01:30:00",
        "Year": 2019,
        "Provider_imdb": "tt9900112",
        "Provider_tmdb": "99001",
        "PlaybackPositionTicks": 18_000_000_000,
        "PlaybackPosition": "00:30:00",
        "IsPaused": False,
        "IsAutomated": False,
        "DeviceId": "tv-attic-1",
        "DeviceName": "Attic TV",
        "ClientName": "Jellyfin Android TV",
        "NotificationUsername": "mira",
        "UserId": JELLYFIN_USER,
        "RemoteEndPoint": SECRETS[0],
        "LastActivityDate": "0001-01-01T00:00:00.0000000",
    }
    return payload | fields


JELLYFIN_TEMPLATE = """{
  "NotificationType": "PlaybackProgress",
  "Name": "Kites &amp; Co",
  "Overview": "%s",
  "ItemId": "0aa1bb2c-c3dd-4ee5-ff60-718293a4b5c6",
  "ItemType": "Movie",
  "RunTimeTicks": "54000000000",
  "Year": %s,
  "Provider_imdb": "tt9900112",
  "PlaybackPositionTicks": "18000000000",
  "IsPaused": "False",
  "IsAutomated": "False",
  "DeviceId": "tv-attic-1",
  "NotificationUsername": "mira",
  "UserId": "77e2d4c6-b8a0-1234-5678-90abcdef1234",
  "UtcTimestamp": "2026-05-04T10:30:00.7654321Z"
}"""


def nested(event: str, **fields: Any) -> JsonObject:
    """The other Jellyfin plugin's shape."""
    payload: JsonObject = {
        "Event": event,
        "Item": {
            "Name": "The Tin Kite",
            "Id": JELLYFIN_ITEM,
            "Type": "Movie",
            "RunTimeTicks": 54_000_000_000,
            "ProviderIds": {"Imdb": "tt9900112"},
            "UserData": {"PlaybackPositionTicks": 18_000_000_000, "Played": False},
        },
        "User": {"Name": "mira", "Id": JELLYFIN_USER},
        "Session": {
            "Id": "a0b1c2d3",
            "DeviceId": "tv-attic-1",
            "RemoteEndPoint": SECRETS[0],
            "PlayState": {"PositionTicks": 18_000_000_000, "IsPaused": False},
        },
        "Server": {"Id": "51525354", "Name": "attic", "Version": "10.10.0"},
        "AdditionalData": None,
        "Series": None,
    }
    return payload | fields


def plex(event: str, **fields: Any) -> JsonObject:
    payload: JsonObject = {
        "event": event,
        "user": True,
        "owner": True,
        "Account": {"id": 2002, "title": "mira", "thumb": "https://plex.example/u.png"},
        "Server": {"title": "attic", "uuid": "srv-attic"},
        "Player": {"local": False, "publicAddress": SECRETS[0], "title": "Attic TV", "uuid": "plex-player-9"},
        "Metadata": {
            "librarySectionType": "movie",
            "ratingKey": "8181",
            "key": f"/library/metadata/8181?X-Plex-Token={SECRETS[1]}",
            "guid": "plex://movie/aabbccddeeff001122334455",
            "Guid": [{"id": "imdb://tt9900112"}, {"id": "tmdb://99001"}],
            "type": "movie",
            "title": "The Tin Kite",
            "duration": 5_400_000,
            "viewOffset": 1_800_000,
            "rating": 6.4,
            "Rating": [{"image": "imdb://image.rating", "value": 6.4}],
            "lastViewedAt": 1_777_890_600,
        },
    }
    return payload | fields


def multipart(payload: object, *, eol: bytes = b"\r\n", thumb_first: bool = False, close: bool = True) -> bytes:
    """A Plex body: the JSON part and a poster whose bytes look a little like boundaries."""
    boundary = b"--------------------------deadbeef01"
    text = eol.join(
        [
            boundary,
            b'Content-Disposition: form-data; name="payload"',
            b"Content-Type: application/json",
            b"",
            json.dumps(payload).encode(),
        ]
    )
    picture = eol.join(
        [
            boundary,
            b'Content-Disposition: form-data; name="thumb"; filename="thumb.jpg"',
            b"Content-Type: image/jpeg",
            b"",
            b"\xff\xd8\xff" + eol + b"--not-it" + eol + boundary + b"x\x00",
        ]
    )
    parts = [picture, text] if thumb_first else [text, picture]
    return eol.join([*parts, boundary + b"--", b""] if close else parts)


def emby(event: str, **fields: Any) -> JsonObject:
    payload: JsonObject = {
        "Title": "mira did something",
        "Date": "2026-05-04T10:30:00.7654321Z",
        "Event": event,
        "User": {"Name": "mira", "Id": JELLYFIN_USER},
        "Item": {
            "Name": "The Tin Kite",
            "Id": "33115",
            "Path": "/media/films/kite.mkv",
            "Type": "Movie",
            "RunTimeTicks": 54_000_000_000,
            "ProviderIds": {"Tmdb": "99001", "Imdb": "tt9900112"},
        },
        "Server": {"Name": "attic", "Id": "e7"},
        "Session": {"RemoteEndPoint": SECRETS[0], "DeviceId": "emby-tv", "Id": "emby-session-1"},
        "PlaybackInfo": {"PositionTicks": 18_000_000_000, "PlaylistIndex": 0},
    }
    return payload | fields


def session(**fields: Any) -> JsonObject:
    """An Audiobookshelf listening session."""
    payload: JsonObject = {
        "id": "5e551011-0000-4000-8000-00000000aaaa",
        "userId": "abs-user-1",
        "libraryItemId": "abs-item-1",
        "bookId": "abs-book-1",
        "episodeId": None,
        "mediaType": "book",
        "displayTitle": "The Long Rope",
        "duration": 30_000.125,
        "deviceInfo": {"deviceId": "abs-phone", "ipAddress": SECRETS[0]},
        "timeListening": 900.5,
        "startTime": 0,
        "currentTime": 5_400.375,
        "startedAt": 1_777_880_000_000,
        "updatedAt": 1_777_890_600_123,
    }
    return payload | fields


def progress(**fields: Any) -> JsonObject:
    """An Audiobookshelf media progress object."""
    payload: JsonObject = {
        "id": "mp-77",
        "userId": "abs-user-1",
        "libraryItemId": "abs-item-1",
        "episodeId": None,
        "mediaItemType": "book",
        "duration": 30_000.125,
        "progress": 0.9,
        "currentTime": 5_400.375,
        "isFinished": False,
        "ebookLocation": None,
        "ebookProgress": 0,
        "lastUpdate": 1_777_890_600_123,
        "startedAt": 1_777_880_000_000,
        "finishedAt": None,
    }
    return payload | fields


def listen(**fields: Any) -> JsonObject:
    """One record of a ListenBrainz submission, as Navidrome sends it."""
    record: JsonObject = {
        "listened_at": 1_777_890_600,
        "track_metadata": {
            "artist_name": "Kite & Keel",
            "track_name": "Low Tide",
            "release_name": "Estuary",
            "additional_info": {"submission_client": "navidrome", "artist_mbids": [""], "duration_ms": 61_730},
        },
    }
    return record | fields


def call(method: str, query: str) -> bytes:
    """A Subsonic call with everything secret in it that a call can hold."""
    secrets = f"u=mira&p=enc:{SECRETS[2]}&t={SECRETS[3]}&s={SECRETS[1]}&apiKey={SECRETS[4]}&c=Probe&v=1.16.1"
    return f"/rest/{method}?{query}&{secrets}&f=json".encode()


def answer(**content: Any) -> bytes:
    return encoded({"subsonic-response": {"status": "ok", "version": "1.16.1", "openSubsonic": True, **content}})


def form(name: str, payload: object) -> bytes:
    return f"{name}={quote(json.dumps(payload))}".encode()
