"""Dead letters: what a record nobody could process becomes, so that nothing is lost and nothing stops.

The event id is a hash of the record's position and of who gave it up, so a letter written twice (a crash before
the offset moved) is recognised as one. Texts are ours and quote no payload; the payload itself is in the bytes.
"""

from __future__ import annotations

from enum import StrEnum

import xxhash

from schemas.codec import schema_id_of
from schemas.events import DeadLetter
from schemas.limits import TEXT_BYTES_MAX
from schemas.topics import DEAD_LETTER_BYTES_MAX
from streams.runtime import logs, metrics
from streams.runtime.clock import Clock
from streams.runtime.errors import Permanent

# Room beside the payload for the letter's other fields and for Kafka's own framing.
_OVERHEAD_BYTES = 24 * 1024
KEY_BYTES_MAX = 8 * 1024
VALUE_BYTES_MAX = DEAD_LETTER_BYTES_MAX - _OVERHEAD_BYTES - KEY_BYTES_MAX
UNKNOWN_SOURCE = "unknown"

_log = logs.get(__name__)


class CauseClass(StrEnum):
    """Why records are given up: the closed list triage groups by."""

    BAD_MAGIC = "bad_magic"
    TRUNCATED = "truncated"
    TRAILING_BYTES = "trailing_bytes"
    INVALID_VALUE = "invalid_value"
    TOO_LARGE = "too_large"
    UNKNOWN_SCHEMA = "unknown_schema"
    UNDECODABLE = "undecodable"
    WRONG_EVENT = "wrong_event"
    NULL_KEY = "null_key"
    NULL_VALUE = "null_value"
    KEY_MISMATCH = "key_mismatch"
    WRONG_PARTITION = "wrong_partition"
    REJECTED = "rejected"
    OTHER = "other"


def cause_class(error: Exception) -> CauseClass:
    """The class of an error; OTHER for what is no Permanent, or has a cause that is not in the list."""
    cause = error.cause if isinstance(error, Permanent) else ""
    return CauseClass(cause) if cause in set(CauseClass) else CauseClass.OTHER


def dead_letter(
    *,
    topic: str,
    topic_id: str,
    partition: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    error: Exception,
    consumer: str,
    attempts: int,
    clock: Clock,
    correlation_id: str | None = None,
    source_id: str | None = None,
) -> DeadLetter:
    """The letter of the record at this position. ``consumer`` names the agent or projection that gave it up.

    ``correlation_id`` and ``source_id`` are the record's own when it could be decoded that far; without, the
    letter's id begins a new correlation. Bytes beyond the topic's limit are cut, and ``error_text`` says so
    (the whole record is still in its topic at its position).
    """
    event_id = dead_letter_id(topic_id, partition, offset, consumer)
    text = _safe(str(error))
    for name, data, limit in (("key", key, KEY_BYTES_MAX), ("value", value, VALUE_BYTES_MAX)):
        if data is not None and len(data) > limit:
            text = f"{name} of {len(data)} bytes cut to {limit}; {text}"
    now = clock.now_ms()
    return DeadLetter(
        event_id=event_id,
        correlation_id=correlation_id or event_id,
        source_id=source_id or UNKNOWN_SOURCE,
        occurred_at=None,
        received_at=now,
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        offset=offset,
        key=None if key is None else key[:KEY_BYTES_MAX],
        value=None if value is None else value[:VALUE_BYTES_MAX],
        schema_id=None if value is None else schema_id_of(value),
        cause_class=cause_class(error).value,
        error_class=type(error).__name__,
        error_text=_cut(text, TEXT_BYTES_MAX),
        consumer=consumer,
        attempts=attempts,
        failed_at=now,
    )


def announce(letter: DeadLetter) -> None:
    """Count the letter and log where it is and why; no payload."""
    metrics.DEAD_LETTERS.labels(letter.consumer, letter.cause_class).inc()
    _log.warning(
        "dead letter",
        correlation_id=letter.correlation_id,
        event_id=letter.event_id,
        consumer=letter.consumer,
        cause=letter.cause_class,
        topic=letter.topic,
        partition=letter.partition,
        offset=letter.offset,
        error=letter.error_text,
    )


def dead_letter_id(topic_id: str, partition: int, offset: int, consumer: str) -> str:
    """32 hex digits, the same whenever the same consumer gives up the same record."""
    return str(xxhash.xxh128_hexdigest(f"{topic_id}\0{partition}\0{offset}\0{consumer}".encode()))


def dead_letter_key(topic: str, partition: int) -> bytes:
    """The key of a letter in dead.letters: ``topic:partition``."""
    return f"{topic}:{partition}".encode()


def _safe(text: str) -> str:
    # What the contract refuses in a text: NUL, and surrogates that are not UTF-8.
    return text.replace("\0", "\\0").encode("utf-8", "replace").decode()


def _cut(text: str, bytes_max: int) -> str:
    return text.encode()[:bytes_max].decode("utf-8", "ignore")
