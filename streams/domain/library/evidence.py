"""What tells one media from another when neither its id nor its path does, strongest first.

Of these only device, inode and size together with an equal time of change (or equal content) are certain at once:
two paths of one file. All others can be of a copy as well, so they are suspicions until a scan has listed
everything. Title and file name are no evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum, IntFlag
from typing import Final

import xxhash

from schemas.library import ItemDetails
from streams.domain.library import keys
from streams.domain.library.locators import canonical
from streams.domain.library.rows import Pending, Sight
from streams.domain.library.works import provider_keys


class Kind(IntFlag):
    """What leads from a sighting to a media."""

    PROVIDER = 1
    HASH = 2
    PATH = 4


class Strength(IntEnum):
    """Of a suspicion; the smallest is the strongest. Kinds that agree go before one alone: editions share the id of a
    catalogue, copies their content, and then only the other kinds tell which is which."""

    ALL = 1
    PROVIDER_HASH = 2
    PROVIDER_PATH = 3
    HASH_PATH = 4
    PROVIDER = 5
    HASH = 6
    PATH = 7


_STRENGTHS: Final = {
    Kind.PROVIDER | Kind.HASH | Kind.PATH: Strength.ALL,
    Kind.PROVIDER | Kind.HASH: Strength.PROVIDER_HASH,
    Kind.PROVIDER | Kind.PATH: Strength.PROVIDER_PATH,
    Kind.HASH | Kind.PATH: Strength.HASH_PATH,
    Kind.PROVIDER: Strength.PROVIDER,
    Kind.HASH: Strength.HASH,
    Kind.PATH: Strength.PATH,
}


_BY_CONTENT: Final = frozenset(strong for kinds, strong in _STRENGTHS.items() if kinds & Kind.HASH)


def strength(kinds: Kind, *, live: bool, listed: bool) -> int:
    """Of all that leads to one media, which is something. What was there until now goes before what has been gone. One
    that no scan has ``listed`` may be one of the others itself, so it comes after them all."""
    return 2 * (_STRENGTHS[kinds] + (0 if listed else len(Strength))) + (0 if live else 1)


def by_content(strong: int) -> bool:
    """Whether the content speaks for a suspicion of that ``strength``."""
    return Strength(1 + (strong // 2 - 1) % len(Strength)) in _BY_CONTENT


def _key(kind: bytes, value: bytes) -> bytes:
    return keys.EVIDENCE + kind + xxhash.xxh3_128_digest(value)


def by_providers(details: ItemDetails | None) -> list[bytes]:
    return [_key(b"w", value) for value in provider_keys(details)]


def by_hash(details: ItemDetails | None) -> bytes | None:
    if details is None or details.content_hash is None:
        return None
    return _key(b"h", details.content_hash.encode())


def by_inode(facts: Sight | Pending) -> bytes | None:
    if facts.device is None or facts.inode is None or facts.size is None:
        return None
    return _key(b"i", b"%d:%d:%d" % (facts.device, facts.inode, facts.size))


def by_path(path: bytes) -> bytes:
    """The same with and without case: whether case counts is looked at when candidates are compared."""
    return _key(b"c", canonical(path, folds=True))


def path_of(place: bytes, facts: Sight | Pending) -> bytes | None:
    """Where it lies: a file's place is its path, a server's item carries one or none, a
    ghost lies nowhere."""
    kind = place[:1]
    return place[1:] if kind == keys.PATH else facts.path if kind == keys.UPSTREAM else None


def of_item(details: ItemDetails | None, sights: Mapping[bytes, Sight]) -> set[bytes]:
    """The keys of all evidence for an item."""
    found = set(by_providers(details))
    found.update(_known((by_hash(details),)))
    for place, sight in sights.items():
        path = path_of(place, sight)
        found.update(_known((by_inode(sight), None if path is None else by_path(path))))
    return found


def _known(values: Iterable[bytes | None]) -> list[bytes]:
    return [value for value in values if value is not None]


def same_part(one: ItemDetails | None, other: ItemDetails | None) -> bool:
    """Whether both can be the same part of a work: catalogues give one id to all tracks or episodes now and then."""
    if one is None or other is None:
        return True
    pairs = ((one.media_kind, other.media_kind), (one.number, other.number), (one.part, other.part))
    return all(a is None or b is None or a == b for a, b in pairs)
