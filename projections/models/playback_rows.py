"""What a decision means for each playback read model: pure functions of the record, no state, no clock.

Because a row depends on its record alone, replays make the same rows, and uniqueness does the rest:

- processed_events, plays, listening_time: one row for each position of a report.
- progress_history: every turn, and of plain progress the first in each minute of one run (equal ``minute_key``);
  a change of epoch, phase or verdict inside the minute has a key of its own, so no turn is lost to thinning.
- playback_progress: the state after the newest record that was not a duplicate.
"""

from __future__ import annotations

from datetime import date, timedelta

import xxhash

from schemas.events import PlaybackDecided

VERDICTS = frozenset({"accepted", "pending", "duplicate", "late", "ignored", "rejected"})
# These leave the state as it was, so they are news for processed_events only.
_WITHOUT_EFFECT = frozenset({"duplicate", "rejected"})
_DAY_MS = 86_400_000
_MINUTE_MS = 60_000
_EPOCH = date(1970, 1, 1)
LOGGED_AT_MAX = 253_402_300_799_999
"""The last millisecond of year 9999, epoch ms: beyond it a day has no date."""


def changes_state(event: PlaybackDecided) -> bool:
    """Whether the record's state is newer than the one before it in any way."""
    return event.verdict not in _WITHOUT_EFFECT


def is_turn(event: PlaybackDecided) -> bool:
    """Whether this belongs into the history whatever else happened in its minute."""
    return changes_state(event) and (event.kind != "progress" or event.play_counted)


def in_history(event: PlaybackDecided) -> bool:
    """Whether the history holds this record, or the first of its minute in its place.

    The heartbeat of a paused player is ignored every few seconds all night: that is no history.
    """
    return is_turn(event) or (changes_state(event) and event.verdict != "ignored")


def minute_key(event: PlaybackDecided) -> bytes | None:
    """Equal for progress of one run in one minute of event time with nothing new; None for turns."""
    if is_turn(event):
        return None
    return _hash(*minute_of(event))


def minute_of(event: PlaybackDecided) -> tuple[object, ...]:
    """The run, what was decided of it, and the minute: what ``minute_key`` is the hash of."""
    return (
        event.user_ref,
        event.media_id,
        event.source_id,
        event.report_session_id or "",
        event.report_device_id or "",
        event.verdict,
        event.epoch,
        event.phase,
        event.report_event_time // _MINUTE_MS,
    )


def event_key(event: PlaybackDecided) -> bytes:
    """Identity of a report over all its deliveries: source, user and event id."""
    return _hash(event.source_id, event.user_ref, event.event_id)


def result_hash(body: bytes) -> bytes:
    """What was decided, for comparing two decisions of one report. ``body``: the decision's Avro body."""
    return bytes(xxhash.xxh128_digest(body))


def logged_day(event: PlaybackDecided) -> date:
    """UTC day of the report's log-append time."""
    return _EPOCH + timedelta(days=event.logged_at // _DAY_MS)


def progress_key(user_ref: str, media_id: str) -> str:
    """Cache key of one person's playback of one media."""
    return f"progress:{user_ref}:{media_id}"


def continue_key(user_ref: str) -> str:
    """Cache key of a person's lists."""
    return f"continue:{user_ref}"


def _hash(*parts: object) -> bytes:
    # NUL can't be inside a part (the contract refuses it), so no two lists of parts look alike.
    return bytes(xxhash.xxh128_digest("\0".join(map(str, parts)).encode()))
