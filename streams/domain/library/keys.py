"""Where a row lies: ``source:``, a kind, and what tells it from others of its kind. A source's rows of one kind follow
each other.

A *place* is the key of a sight without its source: ``p`` and a raw path, or ``u`` and an upstream id. A media whose
last path was taken by another is kept at a ghost of a place, ``o`` and its id: what it was can still be recognised.
"""

from __future__ import annotations

from typing import Final

SEPARATOR: Final = ":"

SOURCE: Final = b"S"
TALLY: Final = b"N"
ITEM: Final = b"m"
PATH: Final = b"p"
UPSTREAM: Final = b"u"
EVIDENCE: Final = b"e"
ALIAS: Final = b"a"
TOP: Final = b"t"
SKIP: Final = b"f"
SUSPECT: Final = b"x"
PENDING: Final = b"y"
MARKED: Final = b"g"
HANDED: Final = b"z"
GHOST: Final = b"o"
PLACES: Final = (GHOST, PATH, UPSTREAM)
REMOVED: Final = b"r"

_SUSPECT_HEAD = 3
_MEDIA_ID_LENGTH = 32


def prefix(source_id: str) -> bytes:
    """What all rows of a source begin with. No source has the separator in its id (``validity``)."""
    return f"{source_id}{SEPARATOR}".encode()


def source_of(key: bytes) -> bytes:
    """The source that a row is of. Raises ValueError for what is no key of a row."""
    source, separator, rest = key.partition(SEPARATOR.encode())
    if not (source and separator and rest):
        raise ValueError("not a source_id:row key")
    return source


def item(media_id: str) -> bytes:
    return ITEM + media_id.encode()


def alias(media_id: str) -> bytes:
    return ALIAS + media_id.encode()


def path(raw: bytes) -> bytes:
    """The place of a file."""
    return PATH + raw


def upstream(upstream_id: str) -> bytes:
    """The place of a server's item."""
    return UPSTREAM + upstream_id.encode()


def ghost(media_id: str) -> bytes:
    """The place of a media that has lost all others."""
    return GHOST + media_id.encode()


def upstream_id(place: bytes) -> str | None:
    """The upstream id of a place, None when it is a file's."""
    return place[1:].decode() if place[:1] == UPSTREAM else None


def suspect(strength: int, media_id: str, place: bytes) -> bytes:
    """Ordered by strength, so that the strongest is decided first, then by media, so that all decide alike."""
    return SUSPECT + b"%02d" % strength + media_id.encode() + place


def suspected(key: bytes) -> tuple[str, bytes]:
    """Media and place of such a key."""
    end = _SUSPECT_HEAD + _MEDIA_ID_LENGTH
    return key[_SUSPECT_HEAD:end].decode(), key[end:]


def strength_of(key: bytes) -> int:
    """The strength in such a key."""
    return int(key[1:_SUSPECT_HEAD])
