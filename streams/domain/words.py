"""The closed vocabularies of playback: what a report may say and what a decision may answer."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What a report states. The last four are commands of a person."""

    START = "start"
    PROGRESS = "progress"
    PAUSE = "pause"
    RESUME = "resume"
    SEEK = "seek"
    STOP = "stop"
    FINISH = "finish"
    MARK_PLAYED = "mark_played"
    MARK_UNPLAYED = "mark_unplayed"
    SET_POSITION = "set_position"
    CLEAR_POSITION = "clear_position"


class MediaKind(StrEnum):
    VIDEO = "video"
    MUSIC = "music"
    AUDIOBOOK = "audiobook"
    PODCAST = "podcast"
    LIVE = "live"


class Origin(StrEnum):
    """How a report reached us."""

    CLIENT = "client"
    WEBHOOK = "webhook"
    POLL = "poll"
    IMPORT = "import"
    COMMAND = "command"
    RECONCILE = "reconcile"
    ECHO = "echo"


class Phase(StrEnum):
    IDLE = "idle"
    PLAYING = "playing"
    PAUSED = "paused"
    STOPPED = "stopped"
    FINISHED = "finished"


class Verdict(StrEnum):
    ACCEPTED = "accepted"
    PENDING = "pending"
    DUPLICATE = "duplicate"
    LATE = "late"
    IGNORED = "ignored"
    REJECTED = "rejected"


class Reason(StrEnum):
    """Why a verdict is not `accepted`."""

    # ignored
    ECHO = "echo"
    BEYOND_DURATION = "beyond_duration"
    AUTOMATED_BEHIND = "automated_behind"
    EMPTY_STOP = "empty_stop"
    UNCHANGED = "unchanged"
    AFTER_FINISH = "after_finish"
    NO_INTENT = "no_intent"
    # pending
    NEEDS_INTENT = "needs_intent"
    # duplicate
    SAME_EVENT_ID = "same_event_id"
    SAME_SEQUENCE = "same_sequence"
    # late
    OLDER_COMMAND = "older_command"
    OLDER_EPOCH = "older_epoch"
    OUT_OF_ORDER = "out_of_order"
    OLDER_THAN_STATE = "older_than_state"
    TIE_SMALLER = "tie_smaller"
    # rejected
    BAD_JSON = "bad_json"
    TOO_DEEP = "too_deep"
    NOT_AN_OBJECT = "not_an_object"
    UNKNOWN_KIND = "unknown_kind"
    MISSING_USER = "missing_user"
    MISSING_MEDIA = "missing_media"
    MISSING_POSITION = "missing_position"
    INVALID_POSITION = "invalid_position"
    POSITION_TOO_LARGE = "position_too_large"
    ID_TOO_LONG = "id_too_long"
    INVALID_TEXT = "invalid_text"
    INVALID_FIELD = "invalid_field"
    NO_TIME = "no_time"


class Note(StrEnum):
    """Side facts of a decision."""

    CLAMPED = "clamped"
    CLOCK_IMPLAUSIBLE = "clock_implausible"
    CLOCK_AHEAD = "clock_ahead"
    CLOCK_REPAIRED = "clock_repaired"
    TIME_IN_SECONDS = "time_in_seconds"
    LISTENED_IMPLAUSIBLE = "listened_implausible"
    TIE = "tie"


COMMANDS = frozenset({Kind.MARK_PLAYED, Kind.MARK_UNPLAYED, Kind.SET_POSITION, Kind.CLEAR_POSITION})
NEED_POSITION = frozenset({Kind.PROGRESS, Kind.SEEK, Kind.SET_POSITION})
KINDS: dict[str, Kind] = {kind.value: kind for kind in Kind}
MEDIA_KINDS: dict[str, MediaKind] = {kind.value: kind for kind in MediaKind}
ORIGINS: dict[str, Origin] = {origin.value: origin for origin in Origin}
