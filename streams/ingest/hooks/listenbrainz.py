"""ListenBrainz submit-listens: singles, now-playing notices and imports of listens.

A listen is a completed play by its own rule (half of the track or four minutes). listened_at is epoch
seconds; a duration is `duration` in s or `duration_ms`. The user comes from the token, so upstream_user
stays null. Servers that submit (Navidrome, gonic) name neither ids nor paths: the track is known by its
recording MBID, else by artist, title and release, spelled alike (NFC, case folded, blanks collapsed).
Each record of a payload stands for itself: a bad one is one rejection.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Final

from schemas.limits import ID_BYTES_MAX, REPORTS_PER_REQUEST_MAX
from streams.domain.limits import SECONDS_FROM, SECONDS_TO
from streams.ingest.hooks.checks import Refuse, accept, guarded
from streams.ingest.hooks.documents import decode, load_json
from streams.ingest.hooks.fields import Fields, display
from streams.ingest.hooks.known import Census, count
from streams.ingest.hooks.result import Listen, ParsedReport, Rejected, Result

_LISTEN_TYPES: Final = frozenset({"single", "playing_now", "import"})
_MBID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TAG_MAX: Final = 16 * 1024


def parse(body: bytes, census: Census | None = None) -> list[Result]:
    """One submission to one result a record, in order; one rejection when the whole can't be read."""
    try:
        document = load_json(decode(body))
        count(census, "listenbrainz", document)
        payload = Fields(document)
        listen_type = payload.word("listen_type")
        records = payload.raw("payload")
        if listen_type is None or listen_type not in _LISTEN_TYPES:
            raise Refuse("unknown_listen_type", "listen_type is none of single, playing_now, import")
        if not isinstance(records, list) or not records:
            raise Refuse("bad_shape", "payload is no list of listens")
        if len(records) > REPORTS_PER_REQUEST_MAX:
            raise Refuse("too_many", f"over {REPORTS_PER_REQUEST_MAX} listens")
    except Refuse as refusal:
        return [Rejected(refusal.reason, refusal.detail)]
    return [guarded(_listen, Fields(record), listen_type) for record in records]


def _listen(record: Fields, listen_type: str) -> ParsedReport:
    track = record.child("track_metadata")
    extra = track.child("additional_info")
    device = _readable_id(extra, "media_player") or _readable_id(extra, "submission_client")
    duration_ms = extra.duration("duration_ms") or extra.duration("duration", per_unit=1000)
    media = media_id(track)
    if listen_type == "playing_now":
        return accept(
            ParsedReport(
                kind="start",
                origin="client",
                upstream_media=media,
                media_kind="music",
                device_id=device,
                duration_ms=duration_ms,
            )
        )
    return accept(
        Listen(
            kind="finish",
            origin="import" if listen_type == "import" else "client",
            upstream_media=media,
            media_kind="music",
            device_id=device,
            duration_ms=duration_ms,
            occurred_at=_listened_at(record),
            played=True,
        )
    )


def media_id(track: Fields) -> str:
    """The id of a track: `mbid:` and its recording MBID, else `tags:` and a hash of what names it.

    The same names give the same id at any time and anywhere; refuses when artist or title is missing.
    """
    artist, title = _tag(track, "artist_name"), _tag(track, "track_name")
    if artist is None or title is None:
        raise Refuse("missing_media", "artist_name or track_name is missing")
    mbid = (track.child("additional_info").word("recording_mbid") or "").lower()
    if _MBID.fullmatch(mbid):
        return f"mbid:{mbid}"
    digest = hashlib.sha256()
    for tag in (artist, title, _tag(track, "release_name") or ""):
        digest.update(f"{len(tag.encode())}:{tag}".encode())
    return f"tags:{digest.hexdigest()[:32]}"


def _tag(track: Fields, name: str) -> str | None:
    value = track.raw(name)
    if not isinstance(value, str) or len(value) > _TAG_MAX:
        return None
    cleaned = " ".join(unicodedata.normalize("NFC", value).casefold().split())
    if "\x00" in cleaned or not _encodes(cleaned):
        raise Refuse("invalid_text", f"{name} holds NUL or a lone surrogate")
    return cleaned or None


def _encodes(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _listened_at(record: Fields) -> int:
    """Epoch ms. Seconds by the protocol; ms in their range are a known slip and taken as such."""
    listened_at = record.whole("listened_at", "bad_time")
    if listened_at is None:
        raise Refuse("no_time", "listened_at is missing")
    if listened_at < 0 or listened_at > SECONDS_TO * 1000:
        raise Refuse("bad_time", "listened_at is out of range")
    if listened_at >= SECONDS_FROM * 1000:
        return listened_at
    if listened_at > SECONDS_TO:
        raise Refuse("bad_time", "listened_at is out of range")
    return listened_at * 1000


def _readable_id(extra: Fields, name: str) -> str | None:
    """A player's name as device id; one that is too long or odd is no reason to lose a listen."""
    text = extra.raw(name)
    shown = display(text) if isinstance(text, str) else None
    return shown if shown is not None and len(shown.encode()) <= ID_BYTES_MAX else None
