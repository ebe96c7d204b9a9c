"""Whether a playback record is where its payload says it belongs; the same rule for every reader."""

from __future__ import annotations

from schemas.events import PlaybackDecided, PlaybackReported, UserForgotten
from schemas.placement import partition_of, playback_key, playback_partition
from schemas.topics import Topic
from streams.runtime.errors import Permanent


def hold_person_in_place(event: UserForgotten, key: bytes, partition: int | None, topic: Topic) -> None:
    """As ``hold_in_place``, for what is of all of a person's playback: keyed by the user_ref alone."""
    if not event.user_ref or ":" in event.user_ref:
        raise Permanent("a user_ref is a text without ':'", cause="invalid_value")
    if key != event.user_ref.encode():
        raise Permanent("the key is not the user_ref of the payload", cause="key_mismatch")
    if partition_of(key, topic.partitions) != partition:
        raise Permanent("the person's records belong in another partition", cause="wrong_partition")


def hold_in_place(event: PlaybackReported | PlaybackDecided, key: bytes, partition: int | None, topic: Topic) -> None:
    """Return when ``key`` and ``partition`` are those of the payload. Raises Permanent, saying which is not."""
    try:
        expected = playback_key(event.user_ref, event.media_id)
    except ValueError as exc:
        raise Permanent(str(exc), cause="invalid_value") from exc
    if key != expected:
        raise Permanent("the key is not user_ref:media_id of the payload", cause="key_mismatch")
    if playback_partition(key, topic.partitions) != partition:
        raise Permanent("the person's records belong in another partition", cause="wrong_partition")
