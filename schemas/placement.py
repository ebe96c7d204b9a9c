"""Where a record goes: keys, and the partition a key belongs to.

Playback records are keyed ``user_ref:media_id`` but *placed* by ``user_ref`` alone, so that all of one
person's keys share a partition: one writer, one order, scalar versions, and merging or forgetting inside one
unit. The hash is that of Java's default partitioner (apache/kafka
clients/src/main/java/org/apache/kafka/common/utils/Utils.java ``murmur2``), so any client can place records.
"""

from __future__ import annotations

from functools import lru_cache

PARTITIONS = 12
_KEY_SEPARATOR = b":"
_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_M = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """32-bit murmur2 of ``data`` as an unsigned integer, bit for bit what Kafka's Java client computes."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    whole = length & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little")
        k = (k * _M) & _MASK
        k ^= k >> 24
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    tail = data[whole:]
    if tail:
        h ^= int.from_bytes(tail, "little")
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    return h ^ (h >> 15)


@lru_cache(maxsize=1 << 16)  # a person sends many records; hashing is a fourteenth of the agent's work without it
def partition_of(placement: bytes, partitions: int = PARTITIONS) -> int:
    """The partition of a placement key: ``(murmur2 & 0x7fffffff) % partitions``, as Java's client does."""
    return (murmur2(placement) & 0x7FFFFFFF) % partitions


def playback_key(user_ref: str, media_id: str) -> bytes:
    """The record key of one person's playback of one media: ``user_ref:media_id``.

    ``user_ref`` must not hold a colon (ours never do: they are hex), or ValueError is raised.
    """
    if not user_ref or not media_id or ":" in user_ref:
        raise ValueError("a playback key needs a user_ref without ':' and a media_id")
    return f"{user_ref}:{media_id}".encode()


def split_playback_key(key: bytes) -> tuple[str, str]:
    """``(user_ref, media_id)`` of a playback record's key; ValueError when it has another form."""
    user, separator, media = key.partition(_KEY_SEPARATOR)
    if not (user and separator and media):
        raise ValueError("not a user_ref:media_id key")
    return user.decode(), media.decode()


def playback_partition(key: bytes, partitions: int = PARTITIONS) -> int:
    """The partition a playback record with this key must be in; ValueError when the key has another form."""
    user, separator, media = key.partition(_KEY_SEPARATOR)
    if not (user and separator and media):
        raise ValueError("not a user_ref:media_id key")
    return partition_of(user, partitions)
